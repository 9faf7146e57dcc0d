"""The figure as a PNG, and as SVG for the page."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.report.panels import Panel, nothing, panels
from amp_migrate.verify.report.style import COLOURS, RC_PARAMS

if TYPE_CHECKING:  # an optional dependency, imported where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (5.6, 3.1)  # inches


def draw(comparison: Comparison, path: Path) -> None:
    """Write all panels as a PNG."""
    import matplotlib

    with matplotlib.rc_context(RC_PARAMS):
        _figure(panels(comparison) or [nothing]).savefig(path, format="png", dpi=150)


def svgs(comparison: Comparison) -> list[str]:
    """Each panel as an `<svg>` element, so that a page can set them beside or below each other."""
    return [_svg(panel, f"{comparison.command} {number}") for number, panel in enumerate(panels(comparison))]


def _figure(panels: Sequence[Panel]) -> Figure:
    """Panels in two columns, row by row."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows), layout="constrained")
    for number, panel in enumerate(panels, 1):
        panel(figure.add_subplot(rows, columns, number))
    return figure


def _svg(panel: Panel, salt: str) -> str:
    """With a name for those who do not see it. Without prolog, metadata and the ids of groups, which would occur
    several times in one page; the other ids are made with `salt`: the same ones for the same comparison.
    """
    import matplotlib

    file = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({**RC_PARAMS, "svg.hashsalt": salt}):
        figure = _figure([panel])
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    text = file.getvalue()
    text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])
    text = text.replace("<svg", f'<svg role="img" aria-label="{escape(_name(figure.axes[0]))}"', 1)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    return text


def _name(axes: Axes) -> str:
    """What a panel shows: its title and its curves. The numbers are in the verdict, line by line."""
    _, labels = axes.get_legend_handles_labels()
    return ": ".join(filter(None, (axes.get_title("left"), "; ".join(labels))))
