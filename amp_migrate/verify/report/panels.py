"""The panels of the figure: losses, their difference, gradient norms, loss scale; on a GPU time and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.record import Record
from amp_migrate.verify.report import series
from amp_migrate.verify.report.facts import mebibytes, milliseconds, on_gpu
from amp_migrate.verify.report.series import Curve, Points
from amp_migrate.verify.report.style import COLOURS, HUES, THIN, WIDE, Stroke

if TYPE_CHECKING:  # an optional dependency, imported where something is drawn
    from matplotlib.axes import Axes

Panel = Callable[["Axes"], None]

_FEW = 20  # points; so few get a marker each, since a single one makes no line
_NO_DIFFERENCE = 1e-7  # float32's resolution; the axis is linear from 0 to here, logarithmic above
_LEAST_RANGE = 0.02  # of the largest value: what an axis shows at least
_COSTS = (
    "original",
    "migrated",
    "original without AMP",
    "migrated without AMP",
)  # runs whose time and memory are shown


class _Drawn(NamedTuple):
    """One side's curve of one group of optimizers."""

    curve: Curve
    stroke: Stroke
    hue: int
    label: str


class _Group(NamedTuple):
    """The curves of optimizers that step together."""

    name: str
    before: _Drawn
    after: _Drawn
    control: Curve


def panels(comparison: Comparison) -> list[Panel]:
    """Those that have something to show."""
    groups = _groups(comparison)
    curves = [side.curve for group in groups for side in (group.before, group.after)]
    found: list[Panel] = []
    if any(curve.losses for curve in curves):
        found.append(partial(_values, "Loss", "losses", groups))
        if any(group.before.curve.losses and group.after.curve.losses for group in groups):
            found.append(partial(_difference, groups))
        found.append(partial(_values, "Gradient norm, as applied", "grad_norms", groups))
    if any(curve.loss_scales for curve in curves):
        found.append(partial(_loss_scales, groups))
    if on_gpu(comparison):
        found += _costs({name: comparison.runs[name] for name in _COSTS if name in comparison.runs})
    return found


def nothing(axes: Axes) -> None:
    """In place of all panels."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "No optimizer step was recorded.", ha="center", va="center", color=COLOURS["muted"])


def _groups(comparison: Comparison) -> list[_Group]:
    before, after, control = (
        series.curves(series.phases(comparison, name)) for name in ("original", "migrated", "control")
    )
    keys = list(dict.fromkeys([*before, *after]))
    groups = []
    for number, key in enumerate(keys):
        hue, name = number % HUES + 1, series.group_name(key, keys)
        titles = [f"{side.title}, {name}" if name else side.title for side in (comparison.before, comparison.after)]
        wide = _Drawn(before.get(key, Curve()), WIDE, hue, titles[0])
        thin = _Drawn(after.get(key, Curve()), THIN, hue, titles[1])
        groups.append(_Group(name, wide, thin, control.get(key, Curve())))
    return groups


def _sides(groups: list[_Group]) -> Iterator[_Drawn]:
    for group in groups:
        yield group.before
        yield group.after


def _values(title: str, what: Literal["losses", "grad_norms"], groups: list[_Group], axes: Axes) -> None:
    _begin(axes, title, groups)
    values: list[float] = []
    for side in _sides(groups):
        points: Points = getattr(side.curve, what)
        if points:
            _line(axes, points, side, side.label)
            values += [value for _, value in points if math.isfinite(value)]
    if values and min(values) > 0 and max(values) > 30 * min(values):  # one and a half decades
        axes.set_yscale("log")
    elif values:
        _widen(axes, min(values), max(values))
    axes.legend()


def _widen(axes: Axes, lowest: float, highest: float) -> None:
    """What hardly moves is drawn as a line that hardly moves, not as noise that fills the panel."""
    least = _LEAST_RANGE * max(abs(lowest), abs(highest))
    if highest - lowest < least:
        middle = (lowest + highest) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)


def _difference(groups: list[_Group], axes: Axes) -> None:
    """Of the losses, beside that of a control run: the original with its weights moved a little, once."""
    _begin(axes, "Relative difference of the losses", groups)
    axes.set_yscale("symlog", linthresh=_NO_DIFFERENCE)
    shown: list[float] = []
    band = "control run: original, perturbed once"
    for group in groups:
        losses = group.before.curve.losses
        control = series.running_maximum(series.relative_difference(losses, group.control.losses))
        if control:
            axes.fill_between(*_columns(control), color=COLOURS["band"], alpha=0.6, linewidth=0, label=band)
            band = ""  # named once
        points = series.relative_difference(losses, group.after.curve.losses)
        if points:
            _line(axes, points, group.after, group.name or "original and migrated")
        shown += [value for _, value in control + points if math.isfinite(value)]
    axes.set_ylim(-_NO_DIFFERENCE / 4, 20 * max([_NO_DIFFERENCE, *shown]))
    axes.legend(loc="upper left", ncols=2)


def _loss_scales(groups: list[_Group], axes: Axes) -> None:
    """With a tick at the bottom for each skipped step."""
    _begin(axes, "Loss scale; ticks: skipped steps", groups)
    axes.set_yscale("log", base=2)
    for side in _sides(groups):
        skips = side.curve.skips
        if side.curve.loss_scales:
            _line(axes, side.curve.loss_scales, side, f"{side.label}, {len(skips)} skipped", drawstyle="steps-post")
        axes.plot(
            skips,
            [0.04] * len(skips),
            transform=axes.get_xaxis_transform(),
            linestyle="",
            marker="|",
            markersize=side.stroke.tick,
            markeredgewidth=side.stroke.width,
            color=side.stroke.colour(side.hue),
            zorder=side.stroke.layer,
        )
    axes.margins(y=0.2)
    axes.legend()


def _costs(runs: Mapping[str, Record]) -> list[Panel]:
    seconds = {name: series.seconds_per_step(record) for name, record in runs.items()}
    memory = {name: record.peak_bytes for name, record in runs.items()}
    return [
        *_bars("Time per step (median)", seconds, milliseconds),
        *_bars("Peak memory", memory, mebibytes),
    ]


def _bars(title: str, numbers: Mapping[str, float | None], unit: Callable[[float], str]) -> Iterator[Panel]:
    """A panel, if any number is known."""
    known = {name.replace(" ", "\n", 1): number for name, number in numbers.items() if number is not None}

    def panel(axes: Axes) -> None:
        axes.set_title(title)
        bars = axes.barh(list(known), list(known.values()), color=COLOURS["bar"], height=0.55)
        axes.bar_label(bars, labels=[unit(number) for number in known.values()], padding=4)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.grid(visible=False)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)

    if known:
        yield panel


def _begin(axes: Axes, title: str, groups: list[_Group]) -> None:
    """All panels have the same updates on the x axis."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title)
    axes.set_xlabel("optimizer update")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    last = max(1, *(len(side.curve.losses) for side in _sides(groups)))
    for position in groups[0].before.curve.restarts:
        axes.axvline(position, color=COLOURS["muted"], linestyle=":", linewidth=1.2)
        axes.text(position, 1, "restart", ha="center", va="bottom", size=8, transform=axes.get_xaxis_transform())
    axes.set_xlim(0.5 - last / 50, last + 0.5 + last / 50)


def _line(
    axes: Axes,
    points: Points,
    side: _Drawn,
    label: str,
    drawstyle: Literal["default", "steps-post"] = "default",
) -> None:
    """With a cross at the bottom where it stops being finite."""
    broken = series.first_not_finite(points)
    if broken:
        label += f" ({'NaN' if math.isnan(broken[1]) else 'infinite'} at update {broken[0]:.0f})"
    colour, layer = side.stroke.colour(side.hue), side.stroke.layer
    axes.plot(
        *_columns(points),
        color=colour,
        linewidth=side.stroke.width,
        marker="o" if len(points) <= _FEW else "",
        markersize=side.stroke.marker,
        drawstyle=drawstyle,
        label=label,
        zorder=layer,
    )
    if broken:
        foot = axes.get_xaxis_transform()
        axes.plot([broken[0]], [0.05], "X", markersize=side.stroke.marker, color=colour, transform=foot, zorder=layer)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    """Thinned out; with a gap where a value is not finite."""
    points = series.thinned(points)
    return [update for update, _ in points], [value if math.isfinite(value) else math.nan for _, value in points]
