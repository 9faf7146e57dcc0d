"""What a check says."""

from __future__ import annotations

import dataclasses
from typing import Literal

import libcst as cst

from amp_migrate.facts import Facts

Kind = Literal[
    "clip of scaled gradients",
    "unscale_ twice",
    "unscale_ after step",
    "step twice",
    "bare step",
    "plain backward",
    "update without step",
    "update between steps",
    "scaled twice",
    "half of a checkpoint",
    "backward after unscale_",
    "backward without update",
    "backward under autocast",
    "criterion on half",
    "scaler in a loop",
    "scaler not saved",
    "foreign scaler",
    "unbound name",
    "unused import",
    "call does not fit",
]


@dataclasses.dataclass(frozen=True)
class Violation:
    """One invariant that does not hold: its kind, the file and line (from 1), the function, what was found, and which
    case of its kind it is, where that asks for another remedy.
    """

    kind: Kind
    path: str
    line: int
    function: str
    message: str
    case: str = ""


def violation(facts: Facts, kind: Kind, node: cst.CSTNode, message: str, case: str = "") -> Violation:
    """What is wrong at a node."""
    path, line = facts.file_of(node).path, facts.line(node)
    return Violation(kind, path, line, facts.tree.function_of(node).name, message, case)
