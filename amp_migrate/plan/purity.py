"""Expressions that change nothing when they are evaluated."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name, walk

# Calls that only look: a variable made by them can go with its last use.
_LOOKING = frozenset(
    "len enumerate range zip dict list tuple set str int float bool min max keys values items get".split()
)
_IMPURE = (cst.Await, cst.Yield, cst.NamedExpr)


def only_looks(node: cst.BaseExpression) -> bool:
    """True where evaluating an expression changes nothing."""
    calls = (called_name(part) in _LOOKING for part in walk(node) if isinstance(part, cst.Call))
    return all(calls) and not any(isinstance(part, _IMPURE) for part in walk(node))
