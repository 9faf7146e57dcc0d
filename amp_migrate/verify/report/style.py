"""How the figure looks."""

from __future__ import annotations

from typing import Any, NamedTuple

# Each colour is also a variable of the page's style sheet, which has other values for a dark screen.
COLOURS = {
    "ink": "#1f2329",
    "muted": "#57606b",
    "grid": "#e4e8ed",
    "band": "#cfd4da",
    "bar": "#7fa8d1",
    "wide-1": "#a9cef4",
    "thin-1": "#0a4a94",
    "wide-2": "#f8cb9c",
    "thin-2": "#9c4600",
    "wide-3": "#aee0ba",
    "thin-3": "#14632b",
    "wide-4": "#dcc6f3",
    "thin-4": "#57298c",
}
HUES = 4


class Stroke(NamedTuple):
    """A wide pale line under a thin dark one: both are seen where they lie on each other. Sizes in points."""

    name: str
    width: float
    marker: float
    tick: float
    layer: int

    def colour(self, hue: int) -> str:
        return COLOURS[f"{self.name}-{hue}"]


WIDE = Stroke("wide", width=5, marker=8, tick=16, layer=2)
THIN = Stroke("thin", width=1.2, marker=3, tick=9, layer=3)

RC_PARAMS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": COLOURS["ink"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,  # "+7.62939e-5" above an axis is read by nobody
    "grid.color": COLOURS["grid"],
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.constrained_layout.w_pad": 0.1,  # inches
    "figure.constrained_layout.h_pad": 0.1,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
}
