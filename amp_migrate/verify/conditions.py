"""Under which conditions both sides run: found by trying, the same for all runs of a comparison."""

from __future__ import annotations

import dataclasses

from amp_migrate.verify.form import form_of
from amp_migrate.verify.record import Record

# What torchrun sets, for rank 0 of 1.
LAUNCHER = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
# Where every step was skipped, the next try starts so many times lower.
_MUCH_LOWER = 2.0**6


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The plain ones: `python script.py`, with the loss scale that the script asks for."""

    launched: bool = False  # with the environment of a launcher: rank 0 of 1
    as_module: bool = False  # `python -m package.script`
    saved_tensors: bool = True  # are watched; torch.func does not bear that
    whole_pickles: bool = False  # torch.load takes all of them, as it did before torch 2.6
    highest_scale: float | None = None  # for the first loss scale

    def notes(self) -> list[str]:
        """What the report says of them, as far as the runs do not say it themselves."""
        said = []
        if self.whole_pickles:
            said.append("the original loads more than weights: torch.load takes whole pickles, as before torch 2.6")
        if self.highest_scale is not None:
            start = f"{self.highest_scale:g}"
            said.append(f"the first steps were skipped: both start with a loss scale of {start} instead")
        return said


def other_conditions(now: Conditions, original: Record, migrated: Record) -> Conditions | None:
    """What to try after a run of both that did not work, or skipped its first steps; None where all is well."""
    both = (original, migrated)
    if not now.launched and any(_wants_launcher(record) for record in both):
        return dataclasses.replace(now, launched=True)
    if not now.as_module and any(_is_of_a_package(record) for record in both):
        return dataclasses.replace(now, as_module=True)
    if now.saved_tensors and any(_bears_no_hooks(record) for record in both):
        return dataclasses.replace(now, saved_tensors=False)
    if not now.whole_pickles and _loads_whole_pickles(original):
        return dataclasses.replace(now, whole_pickles=True)
    scale = _lower_scale(original, migrated)
    return dataclasses.replace(now, highest_scale=scale) if scale is not None else None


def _wants_launcher(record: Record) -> bool:
    """True for a script that reads what torchrun would have set, by os.environ[...] or int(os.getenv(...))."""
    failure = record.failure
    if failure is None or failure.kind not in ("KeyError", "TypeError"):
        return False
    return any(f'"{name}"' in f"{failure.code} {failure.message}".replace("'", '"') for name in LAUNCHER)


def _is_of_a_package(record: Record) -> bool:
    """True for a script with relative imports, which Python runs with -m only."""
    failure = record.failure
    return failure is not None and failure.kind == "ImportError" and "no known parent package" in failure.message


def _bears_no_hooks(record: Record) -> bool:
    return record.failure is not None and "saved tensor hooks" in record.failure.message


def _loads_whole_pickles(record: Record) -> bool:
    """True for a script that torch has outlived: its torch.load meets an object, FP16_Optimizer's loss scaler say."""
    return record.failure is not None and record.failure.message.startswith("Weights only load failed")


def _lower_scale(original: Record, migrated: Record) -> float | None:
    """A first loss scale with which no first step may be skipped, the lowest that is asked for; None where none was.

    Each optimizer has a first step: a critic's gradients may overflow where those of its generator did not. Where both
    scales have to move alike, the original must have skipped one, too: else the migration is at fault.
    """
    must_move_alike = form_of(original) == "patched by Apex" or any(
        one.kind == "GradScaler" for one in original.scalers
    )
    if must_move_alike and original.steps and not _skipped_first(original):
        return None
    found = [_scale_of_first(record, one) for record in (original, migrated) for one in _skipped_first(record)]
    return min((scale for scale in found if scale), default=None)


def _skipped_first(record: Record) -> list[int]:
    """The optimizers whose first step was skipped."""
    firsts: dict[int, bool] = {}
    for step in record.steps:
        firsts.setdefault(step.optimizer, step.applied)
    return [optimizer for optimizer, applied in firsts.items() if not applied]


def _scale_of_first(record: Record, optimizer: int) -> float | None:
    """The loss scale of an optimizer's first step that was applied; much less than any that was tried if none was."""
    applied = (number for number, step in enumerate(record.steps) if step.optimizer == optimizer and step.applied)
    first = next(applied, None)
    used = [(backward.update, backward.loss_scale) for backward in record.backwards if backward.loss_scale]
    if first is None:
        return min((scale for _, scale in used), default=0.0) / _MUCH_LOWER
    return next((scale for update, scale in reversed(used) if update <= first), None)
