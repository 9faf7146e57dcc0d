"""Code that changes nothing when it runs."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, walk

# Calls that only look: a variable made by them can go with its last use.
_LOOKING = frozenset(
    "len enumerate range zip dict list tuple set str int float bool min max keys values items get".split()
)
_SAYING = ("log", "print", "info", "warn", "debug", "write", "record", "report", "scalar")
_IMPURE = (cst.Await, cst.Yield, cst.NamedExpr)


def only_looks(node: cst.BaseExpression) -> bool:
    """True where evaluating an expression changes nothing."""
    calls = (called_name(part) in _LOOKING for part in walk(node) if isinstance(part, cst.Call))
    return all(calls) and not any(isinstance(part, _IMPURE) for part in walk(node))


def only_says(statement: Statement) -> bool:
    """True for a statement that does nothing but to log or print."""
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    return isinstance(call, cst.Call) and any(word in called_name(call).lower() for word in _SAYING)


def is_unread(facts: Facts, statement: Statement) -> bool:
    """True for an assignment that computes nothing, to names that nothing reads."""
    node = statement.node
    if not isinstance(node, cst.Assign) or not only_looks(node.value):
        return False
    bound = [facts.names.variable_at(one.target) for one in node.targets]
    return all(one is not None and not one.is_read for one in bound)
