"""What a check says."""

from __future__ import annotations

import dataclasses
from typing import Literal

Kind = Literal[
    "clip of scaled gradients",
    "unscale_ twice",
    "unscale_ after step",
    "step twice",
    "bare step",
    "plain backward",
    "update without step",
    "backward after unscale_",
    "backward without update",
    "backward under autocast",
    "criterion on half",
    "unbound name",
    "unused import",
    "call does not fit",
]


@dataclasses.dataclass(frozen=True)
class Violation:
    """One invariant that does not hold: its kind, a line (from 1), the function, and what was found."""

    kind: Kind
    line: int
    function: str
    message: str
