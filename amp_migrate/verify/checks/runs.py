"""The runs that the checks compare, and what kind of source the original is."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

from amp_migrate.verify import thresholds
from amp_migrate.verify.form import Form, form_of
from amp_migrate.verify.record import Record, Update


@dataclasses.dataclass(frozen=True)
class Runs:
    """One phase of the comparison. What is None was not run, or did not end well."""

    original: Record
    migrated: Record
    original_plain: Record | None = None  # without AMP
    migrated_plain: Record | None = None
    original_plain_again: Record | None = None  # only where the two above differ, as the next two
    original_float64: Record | None = None  # both without AMP, in float64
    migrated_float64: Record | None = None
    autocast: Record | None = None  # the original, plain, under one autocast
    control: Record | None = None  # the original with weights perturbed once

    @functools.cached_property
    def form(self) -> Form:
        """The source form of the original, by what was seen while it ran."""
        return form_of(self.original)

    @property
    def is_in_float64(self) -> bool:
        """True where both could be run in float64."""
        return self.original_float64 is not None and self.migrated_float64 is not None

    @property
    def is_patched(self) -> bool:
        """True where apex patched torch: the numbers of native autocast are nearly the same."""
        return self.form == "patched by Apex"

    @property
    def scales_alike(self) -> bool:
        """True where both loss scales have to move alike: O1, and the same scale at the start."""
        firsts = {scaler.first_scale for record in (self.original, self.migrated) for scaler in record.scalers}
        return self.is_patched and len(firsts) == 1

    @property
    def is_mixed(self) -> bool:
        """True where the original trains in mixed precision of any kind."""
        return bool(self.form != "float32" or self.original.scalers or self.original.saved_low_bytes)

    @property
    def casts_weights(self) -> bool:
        """True where apex cast whole models (O2, O3), whose outputs it gives as float32."""
        return bool({"O2", "O3"} & set(self.original.levels))

    def parted(self) -> int | None:
        """The first update, from 0, after which one is rightly a step ahead of the other; None without one.

        An overflow is the affair of each side where the scales are not alike. Where they are, Apex lets all optimizers
        of a list skip, and GradScaler the one that overflowed.
        """
        for number, (one, two) in enumerate(zip(self.original.updates(), self.migrated.updates(), strict=False)):
            ones, twos = ([step.applied for step in update.steps] for update in (one, two))
            both_overflow = not all(ones) and not all(twos)
            if ones != twos and (both_overflow or not self.scales_alike):
                return number
        return None

    def limit(self, fixed: float) -> float:
        """A fixed limit in float16, or what half precision does to this very script."""
        coarse = thresholds.BFLOAT16 if self.migrated.low_dtype == "bfloat16" else 1.0
        return max(coarse * fixed, thresholds.TIMES_NOISE * self.noise())

    def noise(self) -> float:
        """How far half precision moves the original's first loss."""
        plain, half = self.original_plain, self.autocast
        if plain is None or half is None or not plain.backwards or not half.backwards:
            return thresholds.NOISE_NOT_MEASURED
        found = difference(half.backwards[0].loss, plain.backwards[0].loss)
        return found if math.isfinite(found) else thresholds.NOISE_NOT_MEASURED

    def noise_of_gradient(self) -> float:
        """The same for the norm of the first gradients."""
        if self.original_plain is None or self.autocast is None:
            return 0.0
        found = 0.0
        for _, ones, others in pairs(self.original_plain, self.autocast):
            found = max(found, difference(others[0].grad_norm, ones[0].grad_norm))
        return found if math.isfinite(found) else 0.0


def pairs(
    first: Record, second: Record, until: int | None = None
) -> Iterator[tuple[tuple[int, ...], list[Update], list[Update]]]:
    """The applied updates of two runs beside each other, for each set of optimizers that is stepped together.

    `until` limits them to so many tries of an update.
    """
    curves = second.curves(until)
    for optimizers, updates in first.curves(until).items():
        others = curves.get(optimizers, [])
        count = min(len(updates), len(others))
        if count:
            yield optimizers, updates[:count], others[:count]


def difference(value: float, reference: float, least: float = 0.0) -> float:
    """|value - reference| / |reference|; `least` is the smallest reference, against a division by almost nothing."""
    if value == reference or (math.isnan(value) and math.isnan(reference)):
        return 0.0
    if not (math.isfinite(value) and math.isfinite(reference)):
        return math.inf
    size = max(abs(reference), least)
    return abs(value - reference) / size if size else math.inf


def is_about(value: float, expected: float) -> bool:
    """True where a number is what a cause would have made of it."""
    return difference(value, expected) < thresholds.RECOGNISED


def largest_loss_difference(
    first: Record, second: Record, updates: int | None = None, until: int | None = None
) -> float | None:
    """The largest relative difference of the losses of two runs; None where no updates correspond.

    `updates` limits the applied updates, `until` all tries.
    Relative to the loss of the first run, or its median where that is larger: a curve that ends near 0 is not judged
    by its last digits.
    """
    worst: float | None = None
    for _, ones, others in pairs(first, second, until):
        typical = median([abs(one.loss) for one in ones])
        for one, other in list(zip(ones, others, strict=True))[:updates]:
            worst = max(worst or 0.0, difference(other.loss, one.loss, typical))
    return worst


def weight_difference(first: Record, second: Record) -> float | None:
    """L2 distance of the (sampled) weights at the end, relative to their norm; None where there are none to compare."""
    if not first.weights or len(first.weights) != len(second.weights):
        return None
    return distance(first.weights, second.weights)


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """L2 distance of two vectors, relative to the norm of the first; infinite where they are not of one length."""
    if len(first) != len(second):
        return math.inf
    apart = [b - a for a, b in zip(first, second, strict=True) if difference(b, a)]
    size = math.hypot(*filter(math.isfinite, first))
    found = math.hypot(*apart) / size if apart and size else 0.0 if not apart else math.inf
    return found if math.isfinite(found) else math.inf


def median(values: Sequence[float]) -> float:
    """The upper median of the finite values; 0 without any."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[len(finite) // 2] if finite else 0.0


def text_of(number: float) -> str:
    """A difference or a limit, as the lines show it."""
    return "0" if number == 0 else f"{number:.1e}"
