"""Runs programs in all the ways that a comparison needs: mirrors, specs, and what the scripts print."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from amp_migrate.verify.comparison import after_restart
from amp_migrate.verify.conditions import Conditions
from amp_migrate.verify.mirror import Mirror
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.record import Record
from amp_migrate.verify.spec import Mode, Spec
from amp_migrate.verify.worker import Worker


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to run: see `amp-migrate verify --help`."""

    steps: int | None = None
    seed: int = 0
    time_limit: float = 600.0  # seconds for each run
    resume_args: tuple[str, ...] | None = None  # run both once more, in the same folder, with these arguments, too


@dataclasses.dataclass(frozen=True)
class Trial:
    """One way to run one program."""

    name: str
    program: Program
    mode: Mode = "as is"
    perturb: bool = False
    in_double: bool = False
    steps: int | None = None
    in_bfloat16: bool = False  # under autocast


class Runner:
    """`folder` is for working copies, `outputs` for what the scripts print; `tell` is given the progress of a run."""

    def __init__(
        self, settings: Settings, pool: Pool, folder: Path, outputs: Path, tell: Callable[[str, int], None]
    ) -> None:
        self.device = pool.device
        self._settings = settings
        self._pool = pool
        self._folder = folder
        self._outputs = outputs
        self._tell = tell
        self._count = itertools.count()

    def run(self, trials: list[Trial], conditions: Conditions) -> dict[str, list[Record]]:
        """The records of each trial: one, or two with a restart."""
        return self._pool.map({trial.name: partial(self._phases, trial, conditions) for trial in trials})

    def output(self, name: str, phase: int = 0) -> Path:
        """The file that holds what the script printed in a trial of that name."""
        return self._outputs / f"{after_restart(name) if phase else name}.txt"

    def _phases(self, trial: Trial, conditions: Conditions, worker: Worker) -> list[Record]:
        place = self._folder / str(next(self._count))
        mirrors = trial.program.mirrors(place / "mirror")
        every_args = [trial.program.args]
        if self._settings.resume_args is not None:
            every_args.append((*trial.program.args, *self._settings.resume_args))
        records = []
        for number, args in enumerate(every_args):
            if number:  # the second run goes on with the scale that it finds
                conditions = dataclasses.replace(conditions, highest_scale=None)
            results = place / f"results{number}"
            results.mkdir()
            spec = self._spec(trial, conditions, mirrors, args, results)
            records.append(worker.run(spec, self._settings.time_limit, partial(self._tell, trial.name)))
            shutil.copyfile(results / "output.txt", self.output(trial.name, number))
        shutil.rmtree(place, ignore_errors=True)  # up to 256 MB each
        return records

    def _spec(
        self, trial: Trial, conditions: Conditions, mirrors: list[Mirror], args: tuple[str, ...], results: Path
    ) -> Spec:
        def mirrored(path: Path) -> str:
            mirror = next(mirror for mirror in mirrors if path.is_relative_to(mirror.real))
            return str(mirror.path(path))

        return Spec(
            script=mirrored(trial.program.script),
            args=args,
            folder=mirrored(trial.program.folder),
            mirrors=tuple((str(mirror.copy), str(mirror.real)) for mirror in mirrors),
            results=str(results),
            device=self.device,
            conditions=conditions,
            mode=trial.mode,
            autocast_dtype="bfloat16" if trial.in_bfloat16 else "float16",
            steps=trial.steps,
            seed=self._settings.seed,
            perturb=trial.perturb,
            in_double=trial.in_double,
        )
