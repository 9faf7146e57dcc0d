"""`verify`: runs both programs in all the ways that the verdict needs, and compares them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from amp_migrate.verify.checks.restart import restart_lines
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Comparison, Section, Side, Verdict, after_restart
from amp_migrate.verify.mirror import Mirror
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.record import Record
from amp_migrate.verify.spec import Mode, Spec
from amp_migrate.verify.verdict import NEUTRAL, sections_of, verdict_of, why_different, why_not_comparable
from amp_migrate.verify.worker import Worker

# The first updates tell how much of a program half precision reaches.
_STEPS_UNDER_AUTOCAST = 3
_NOT_PROVEN_ON_CPU = (
    "ran on the CPU in float16, with CUDA calls redirected and CUDA's autocast rules: this does not prove speed, "
    "memory, CUDA extensions, several GPUs, or that every tensor is moved to the GPU"
)
# Where every step was skipped, the next try starts so many times lower.
_MUCH_LOWER = 2.0**6
_MOST_RETRIES = 4
_LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to run: see `amp-migrate verify --help`."""

    steps: int | None = None
    seed: int = 0
    time_limit: float = 600.0  # seconds for each run
    resume_args: tuple[str, ...] | None = None  # run both once more, in the same folder, with these arguments, too


@dataclasses.dataclass(frozen=True)
class _Trial:
    """One way to run one program."""

    name: str
    program: Program
    mode: Mode = "as is"
    perturb: bool = False
    steps: int | None = None
    in_bfloat16: bool = False  # under autocast


def verify(
    before: Program, after: Program, settings: Settings, pool: Pool, outputs: Path, tell: Callable[[str, int], None]
) -> Comparison:
    """Run both and compare. What the scripts print goes to files in the folder `outputs`.

    `tell(name of a run, optimizer steps so far)` is called now and then. KeyboardInterrupt ends all runs.
    """
    with tempfile.TemporaryDirectory(prefix="amp-migrate-verify-") as folder:
        return _Session(before, after, settings, pool, Path(folder), outputs, tell).compare()


class _Session:
    def __init__(
        self,
        before: Program,
        after: Program,
        settings: Settings,
        pool: Pool,
        folder: Path,
        outputs: Path,
        tell: Callable[[str, int], None],
    ) -> None:
        self._before, self._after = before, after
        self._settings = settings
        self._pool = pool
        self._folder = folder
        self._outputs = outputs
        self._tell = tell
        self._notes: list[str] = []
        self._launched = False
        self._as_module = False
        self._highest_scale: float | None = None
        self._count = itertools.count()

    # -- what is run ------------------------------------------------------------------------------------

    def compare(self) -> Comparison:
        original = _Trial("original", self._before, steps=self._settings.steps)
        migrated = _Trial("migrated", self._after, steps=self._settings.steps)
        runs = self._run_pair(original, migrated)
        phases = list(zip(runs["original"], runs["migrated"], strict=True))
        reason = next(filter(None, (why_not_comparable(*pair) for pair in phases)), None)
        if reason is not None and not runs["original"][0].steps:
            return self._result("not comparable", reason, [], runs)
        runs.update(self._run_others(original, migrated, runs["migrated"][0].low_dtype))
        sections = [section for phase in range(len(phases)) for section in self._sections(runs, phase)]
        neutral = verdict_of([one for one in sections if one.title.startswith(NEUTRAL)], "")
        stops = next(filter(None, (why_different(*pair) for pair in phases)), None)
        if neutral[0] == "different":
            return self._result(*neutral, sections, runs)
        if reason is not None:
            return self._result("not comparable", reason, sections, runs)
        if stops is not None:
            return self._result("different", stops, sections, runs)
        return self._result(*verdict_of(sections, _compared(runs)), sections, runs)

    def _sections(self, runs: dict[str, list[Record]], phase: int) -> Iterator[Section]:
        def ended_well(name: str) -> Record | None:
            record = runs[name][phase] if name in runs else None
            return record if record is not None and record.steps else None

        if phase:
            yield Section("restart", tuple(restart_lines(runs["original"], runs["migrated"])))
        compared = Runs(
            *_as_far_as_both(runs["original"][phase], runs["migrated"][phase]),
            *_as_far_as_both(runs["original without AMP"][phase], runs["migrated without AMP"][phase]),
            ended_well("original without AMP, again"),
            ended_well("original under autocast"),
            ended_well("control"),
        )
        for section in sections_of(compared):
            yield dataclasses.replace(section, title=after_restart(section.title) if phase else section.title)

    def _result(
        self, verdict: Verdict, reason: str, sections: list[Section], runs: dict[str, list[Record]]
    ) -> Comparison:
        records = {
            after_restart(name) if phase else name: record
            for name, phases in runs.items()
            for phase, record in enumerate(phases)
        }
        notes = list(dict.fromkeys(self._notes + [note for record in records.values() for note in record.notes]))
        if self._pool.device == "cpu":
            notes.append(_NOT_PROVEN_ON_CPU)
        return Comparison(
            verdict,
            reason,
            self._side(self._before),
            self._side(self._after),
            self._pool.device if self._pool.device == "cpu" else records["original"].device,
            tuple(section for section in sections if section.lines),
            records,
            tuple(notes),
        )

    def _side(self, program: Program) -> Side:
        script = min(str(program.script), os.path.relpath(program.script), key=len)
        return Side(program.title, script, program.args, str(self._output(program.title)))

    def _run_pair(self, original: _Trial, migrated: _Trial) -> dict[str, list[Record]]:
        """Both as they are; again where they want to run in another way, or start with a loss scale that only skips."""
        pair = self._run([original, migrated])
        if any(_wants_launcher(records[0]) for records in pair.values()):
            self._launched = True
            pair = self._run([original, migrated])
        if any(_is_of_a_package(records[0]) for records in pair.values()):
            self._as_module = True
            pair = self._run([original, migrated])
        for _ in range(_MOST_RETRIES):
            scale = _lower_scale(pair["original"][0], pair["migrated"][0])
            if scale is None:
                break
            self._highest_scale = scale
            pair = self._run([original, migrated])
        if self._highest_scale is not None:
            start = f"{self._highest_scale:g}"
            self._notes.append(f"the first steps were skipped: both start with a loss scale of {start} instead")
        return pair

    def _run_others(self, original: _Trial, migrated: _Trial, low_dtype: str) -> dict[str, list[Record]]:
        trials = [
            dataclasses.replace(original, name="original without AMP", mode="without AMP"),
            dataclasses.replace(migrated, name="migrated without AMP", mode="without AMP"),
            dataclasses.replace(original, name="control", perturb=True),
            dataclasses.replace(
                original,
                name="original under autocast",
                mode="under autocast",
                steps=_STEPS_UNDER_AUTOCAST,
                in_bfloat16=low_dtype == "bfloat16",
            ),
        ]
        runs = self._run(trials)
        plain = [runs["original without AMP"][0], runs["migrated without AMP"][0]]
        if [backward.loss for backward in plain[0].backwards] != [backward.loss for backward in plain[1].backwards]:
            again = dataclasses.replace(trials[0], name="original without AMP, again")
            runs.update(self._run([again]))
        return runs

    def _run(self, trials: list[_Trial]) -> dict[str, list[Record]]:
        """The records of each trial: one, or two with a restart."""
        return self._pool.map({trial.name: partial(self._phases, trial) for trial in trials})

    def _phases(self, trial: _Trial, worker: Worker) -> list[Record]:
        place = self._folder / str(next(self._count))
        mirrors = trial.program.mirrors(place / "mirror")
        every_args = [trial.program.args]
        if self._settings.resume_args is not None:
            every_args.append((*trial.program.args, *self._settings.resume_args))
        records = []
        for number, args in enumerate(every_args):
            results = place / f"results{number}"
            results.mkdir()
            spec = self._spec(trial, mirrors, args, results)
            records.append(worker.run(spec, self._settings.time_limit, partial(self._tell, trial.name)))
            shutil.copyfile(results / "output.txt", self._output(trial.name, number))
        return records

    def _output(self, name: str, phase: int = 0) -> Path:
        return self._outputs / f"{after_restart(name) if phase else name}.txt"

    def _spec(self, trial: _Trial, mirrors: list[Mirror], args: tuple[str, ...], results: Path) -> Spec:
        def mirrored(path: Path) -> str:
            mirror = next(mirror for mirror in mirrors if path.is_relative_to(mirror.real))
            return str(mirror.path(path))

        return Spec(
            script=mirrored(trial.program.script),
            args=args,
            folder=mirrored(trial.program.folder),
            mirrors=tuple((str(mirror.copy), str(mirror.real)) for mirror in mirrors),
            results=str(results),
            device=self._pool.device,
            mode=trial.mode,
            autocast_dtype="bfloat16" if trial.in_bfloat16 else "float16",
            steps=trial.steps,
            seed=self._settings.seed,
            highest_scale=self._highest_scale,
            perturb=trial.perturb,
            launched=self._launched,
            as_module=self._as_module,
        )


def _compared(runs: dict[str, list[Record]]) -> str:
    updates = sum(update.applied for record in runs["original"] for update in record.updates())
    return f"{updates} optimizer updates compared"


def _as_far_as_both(one: Record, other: Record) -> tuple[Record, Record]:
    """What the time limit has cut off at different steps."""
    if "time limit" not in (one.outcome, other.outcome):
        return one, other
    count = min(len(one.steps), len(other.steps))
    return one.first_steps(count), other.first_steps(count)


def _wants_launcher(record: Record) -> bool:
    """True for a script that reads what torchrun would have set."""
    failure = record.failure
    return failure is not None and failure.kind == "KeyError" and failure.message.strip("'\"") in _LAUNCHER_VARIABLES


def _is_of_a_package(record: Record) -> bool:
    """True for a script with relative imports, which Python runs with -m only."""
    failure = record.failure
    return failure is not None and failure.kind == "ImportError" and "no known parent package" in failure.message


def _lower_scale(original: Record, migrated: Record) -> float | None:
    """A first loss scale with which the first step may not be skipped, the lower of both; None where none was.

    An original that scales its losses must have skipped it, too: else the skip may be the migration's mistake.
    """
    if original.scalers and original.steps and original.steps[0].applied:
        return None
    scales = []
    for record in (original, migrated):
        applied = next((number for number, step in enumerate(record.steps) if step.applied), None)
        used = {backward.update: backward.loss_scale for backward in record.backwards}
        if applied is None and used:
            lowest = min((scale for scale in used.values() if scale is not None), default=None)
            scales.append(lowest and lowest / _MUCH_LOWER)
        elif applied:
            scales.append(used.get(applied))
    return min((scale for scale in scales if scale), default=None)
