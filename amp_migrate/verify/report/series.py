"""What of one run is drawn: its values by optimizer updates, for each group of optimizers that step together."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from amp_migrate.verify.checks.runs import difference, median
from amp_migrate.verify.comparison import Comparison, after_restart
from amp_migrate.verify.record import Backward, Record, Step, Update

Group = tuple[int, ...]  # optimizers, numbered from 0 in the order of their first step
Points = list[tuple[float, float]]  # (optimizer update, value)


@dataclasses.dataclass
class Curve:
    """Updates are counted from 1; a skip and a restart lie half way between the updates around them."""

    losses: Points = dataclasses.field(default_factory=list)
    grad_norms: Points = dataclasses.field(default_factory=list)
    loss_scales: Points = dataclasses.field(default_factory=list)
    skips: list[float] = dataclasses.field(default_factory=list)
    restarts: list[float] = dataclasses.field(default_factory=list)


def phases(comparison: Comparison, name: str) -> list[Record]:
    """The records of one run before and after a restart, as far as there are any."""
    names = (name, after_restart(name))
    return [comparison.runs[name] for name in names if name in comparison.runs]


def curves(records: Sequence[Record]) -> dict[Group, Curve]:
    """Of all phases behind each other, in the order of the first update of each group."""
    found: dict[Group, Curve] = {}
    for record in records:
        for curve in found.values():
            curve.restarts.append(len(curve.losses) + 0.5)
        for update in record.updates():
            _append(found.setdefault(update.optimizers, Curve()), update)
    return found


def _append(curve: Curve, update: Update) -> None:
    position = len(curve.losses) + (1.0 if update.applied else 0.5)
    scaled: list[Step | Backward] = [*update.steps, *update.backwards]  # apex scales the loss, and has no scaler.step
    curve.loss_scales += [(position, one.loss_scale) for one in scaled if one.loss_scale is not None][:1]
    if not all(step.applied for step in update.steps):
        curve.skips.append(position)
    if update.applied:
        curve.losses.append((position, update.loss))
        curve.grad_norms.append((position, update.grad_norm))


def relative_difference(before: Points, after: Points) -> Points:
    """As the verdict measures it, update by update, as far as both go; NaN where one is not finite."""
    both = list(zip(before, after, strict=False))
    typical = median([abs(value) for (_, value), _ in both])
    return [
        (update, difference(b, a, typical) if math.isfinite(a) and math.isfinite(b) else math.nan)
        for (update, a), (_, b) in both
    ]


def running_maximum(points: Points) -> Points:
    """The largest value so far, up to the first that is NaN."""
    largest: Points = []
    for update, value in points:
        if math.isnan(value):
            break
        largest.append((update, max(value, largest[-1][1] if largest else 0.0)))
    return largest


def first_not_finite(points: Points) -> tuple[float, float] | None:
    """The first point that is NaN or infinite."""
    return next((point for point in points if not math.isfinite(point[1])), None)


def thinned(points: Points, limit: int = 1000) -> Points:
    """About `limit` points at most: of each stretch the smallest and the largest, so that no peak is lost."""
    if len(points) <= limit:
        return points
    size = math.ceil(2 * len(points) / limit)
    return [point for start in range(0, len(points), size) for point in _extremes(points[start : start + size])]


def _extremes(stretch: Points) -> list[tuple[float, float]]:
    """In their order; one that is not finite stands for a stretch that has no other."""
    finite = [point for point in stretch if math.isfinite(point[1])] or stretch[:1]
    return sorted({min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])})


def seconds_per_step(record: Record) -> float | None:
    """The median, which the first steps, slow while everything warms up, do not move."""
    return statistics.median(step.seconds for step in record.steps) if record.steps else None


def group_name(group: Group, groups: Sequence[Group]) -> str:
    """Empty where there is only one."""
    if len(groups) == 1:
        return ""
    return f"optimizer{'s' * (len(group) > 1)} {' and '.join(str(number + 1) for number in group)}"
