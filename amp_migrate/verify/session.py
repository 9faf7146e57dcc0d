"""`verify`: runs both programs in all the ways that the verdict needs, and compares them."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from amp_migrate.verify.by_hand import constants_of, scale_by_hand, with_skipped_steps, without_scales
from amp_migrate.verify.checks.neutral import may_be_rounding, same_bits, why_not_repeatable
from amp_migrate.verify.checks.restart import restart_lines
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Comparison, Section, Side, Verdict, after_restart
from amp_migrate.verify.conditions import Conditions, other_conditions
from amp_migrate.verify.form import Form, form_of, is_native
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.record import Record
from amp_migrate.verify.runner import Runner, Settings, Trial
from amp_migrate.verify.spec import Mode
from amp_migrate.verify.verdict import NEUTRAL, sections_of, verdict_of, why_different, why_not_comparable

# The first updates tell how much of a program half precision reaches.
_STEPS_UNDER_AUTOCAST = 3
_NOT_PROVEN_ON_CPU = (
    "ran on the CPU in float16, with CUDA calls redirected and CUDA's autocast rules: this does not prove speed, "
    "memory, CUDA extensions, several GPUs, or that every tensor is moved to the GPU"
)
_MOST_TRIES = 6  # of a pair, under other conditions
# How both run without AMP. Where the casts to half of the original had to go, what is left of them in the migrated
# script must show; native forms of Apex's cast decorators cast, too, and a plain script keeps what it has.
_WITHOUT_AMP: dict[Form, tuple[Mode, Mode]] = {
    "patched by Apex": ("without AMP", "without AMP"),
    "cast by Apex": ("without AMP", "without AMP"),
    "native": ("without AMP", "without AMP"),
    "FP16_Optimizer": ("without AMP", "without autocast"),
    "half by hand": ("without AMP", "without autocast"),
    "float32": ("without autocast", "without autocast"),
}


def verify(
    before: Program, after: Program, settings: Settings, pool: Pool, outputs: Path, tell: Callable[[str, int], None]
) -> Comparison:
    """Run both and compare. What the scripts print goes to files in the folder `outputs`.

    `tell(name of a run, optimizer steps so far)` is called now and then. KeyboardInterrupt ends all runs.
    """
    with tempfile.TemporaryDirectory(prefix="amp-migrate-verify-") as folder:
        runner = Runner(settings, pool, Path(folder), outputs, tell)
        return _Session(before, after, settings, runner).compare()


class _Session:
    def __init__(self, before: Program, after: Program, settings: Settings, runner: Runner) -> None:
        self._before, self._after = before, after
        self._settings = settings
        self._runner = runner
        self._conditions = Conditions()

    def compare(self) -> Comparison:
        original = Trial("original", self._before, steps=self._settings.steps)
        migrated = Trial("migrated", self._after, steps=self._settings.steps)
        runs = self._run_pair(original, migrated)
        phases = list(zip(runs["original"], runs["migrated"], strict=True))
        reason = next(filter(None, (why_not_comparable(*pair) for pair in phases)), None)
        if reason is not None and not runs["original"][0].steps:
            return self._result("not comparable", reason, [], runs)
        runs.update(self._run_others(original, migrated, runs["original"][0], runs["migrated"][0]))
        runs = _without_scales_by_hand(runs)
        sections = [section for phase in range(len(phases)) for section in self._sections(runs, phase)]
        unsteady = why_not_repeatable(self._compared(runs, phase=0))
        if unsteady is not None:
            return self._result("not comparable", unsteady, sections, runs)
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
        if phase:
            yield Section("restart", tuple(restart_lines(runs["original"], runs["migrated"])))
        for section in sections_of(self._compared(runs, phase)):
            yield dataclasses.replace(section, title=after_restart(section.title) if phase else section.title)

    def _compared(self, runs: dict[str, list[Record]], phase: int) -> Runs:
        def ended_well(name: str) -> Record | None:
            record = runs[name][phase] if name in runs else None
            return record if record is not None and record.steps else None

        return Runs(
            *_as_far_as_both(runs["original"][phase], runs["migrated"][phase]),
            *_as_far_as_both(runs["original without AMP"][phase], runs["migrated without AMP"][phase]),
            ended_well("original without AMP, again"),
            *self._in_float64(runs, phase),
            ended_well("original under autocast"),
            ended_well("control"),
        )

    def _in_float64(self, runs: dict[str, list[Record]], phase: int) -> tuple[Record | None, Record | None]:
        """The runs of both without AMP in float64, as far as these ran where those in float32 did."""
        names = ("original", "migrated")
        if f"{names[0]} in float64" not in runs:
            return None, None
        wide = [runs[f"{name} in float64"][phase] for name in names]
        usual = [runs[f"{name} without AMP"][phase] for name in names]
        if not all(one.is_float64 and one.outcome == two.outcome for one, two in zip(wide, usual, strict=True)):
            return None, None
        return _as_far_as_both(*wide)

    def _result(
        self, verdict: Verdict, reason: str, sections: list[Section], runs: dict[str, list[Record]]
    ) -> Comparison:
        records = {
            after_restart(name) if phase else name: record
            for name, phases in runs.items()
            for phase, record in enumerate(phases)
        }
        said = [note for record in records.values() for note in record.notes]
        notes = list(dict.fromkeys([*self._conditions.notes(), *_notes(records["original"]), *said]))
        if self._runner.device == "cpu":
            notes.append(_NOT_PROVEN_ON_CPU)
        return Comparison(
            verdict,
            reason,
            self._side(self._before),
            self._side(self._after),
            records["original"].device,
            tuple(section for section in sections if section.lines),
            records,
            tuple(notes),
        )

    def _side(self, program: Program) -> Side:
        script = min(str(program.script), os.path.relpath(program.script), key=len)
        return Side(program.title, script, program.args, str(self._runner.output(program.title)), program.version)

    def _run_pair(self, original: Trial, migrated: Trial) -> dict[str, list[Record]]:
        """Both as they are, under the first conditions that work for both."""
        for _ in range(_MOST_TRIES):
            pair = self._run([original, migrated])
            conditions = other_conditions(self._conditions, pair["original"][0], pair["migrated"][0])
            if conditions is None:
                break
            self._conditions = conditions
        return pair

    def _run(self, trials: list[Trial]) -> dict[str, list[Record]]:
        return self._runner.run(trials, self._conditions)

    def _run_others(self, original: Trial, migrated: Trial, one: Record, two: Record) -> dict[str, list[Record]]:
        """`one` and `two` are the records of both as they are."""
        modes = _WITHOUT_AMP[form_of(one) if is_native(two) else "native"]
        trials = [
            dataclasses.replace(original, name="original without AMP", mode=modes[0]),
            dataclasses.replace(migrated, name="migrated without AMP", mode=modes[1]),
            dataclasses.replace(original, name="control", perturb=True),
            dataclasses.replace(
                original,
                name="original under autocast",
                mode="under autocast",
                steps=_STEPS_UNDER_AUTOCAST,
                in_bfloat16=two.low_dtype == "bfloat16",
            ),
        ]
        runs = self._run(trials)
        comparable = _without_scales_by_hand({**runs, "migrated": runs["migrated without AMP"]})
        plain = zip(comparable["original without AMP"], comparable["migrated without AMP"], strict=True)
        apart = [pair for both in plain if not same_bits(*(pair := _as_far_as_both(*both)))]
        if apart:
            more = [dataclasses.replace(trials[0], name="original without AMP, again")]
            if all(may_be_rounding(*pair) for pair in apart):
                more += [
                    dataclasses.replace(trial, name=f"{side} in float64", in_double=True)
                    for side, trial in zip(("original", "migrated"), trials, strict=False)
                ]
            runs.update(self._run(more))
        return runs


def _without_scales_by_hand(runs: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """All runs of the original without the loss scale that it applies by itself."""
    constants = [constants_of(*pair) for pair in zip(runs["migrated"], runs["migrated without AMP"], strict=True)]
    taken_out = {
        name: phases if name.startswith("migrated") else list(map(without_scales, phases, constants))
        for name, phases in runs.items()
    }
    for name in {"original", "control"} & set(runs):
        pairs = zip(taken_out[name], taken_out["original without AMP"], strict=True)
        taken_out[name] = [with_skipped_steps(*pair) if scale_by_hand(pair[0]) else pair[0] for pair in pairs]
    return taken_out


def _notes(original: Record) -> list[str]:
    scaler = scale_by_hand(original)
    if scaler is None:
        return []
    return [
        f"the original multiplies its loss by {scaler.first_scale:g} by hand: its losses are compared without that, "
        "its gradients as they are applied"
    ]


def _compared(runs: dict[str, list[Record]]) -> str:
    updates = sum(update.applied for record in runs["original"] for update in record.updates())
    return f"{updates} optimizer updates compared"


def _as_far_as_both(one: Record, other: Record) -> tuple[Record, Record]:
    """What the time limit has cut off at different steps."""
    if "time limit" not in (one.outcome, other.outcome):
        return one, other
    count = min(len(one.steps), len(other.steps))
    return one.first_steps(count), other.first_steps(count)
