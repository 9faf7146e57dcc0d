"""Statements that prepare the state of the last round for the next one.

    hidden = repackage(hidden)        hidden = tuple(h.detach() for h in hidden)
    output, hidden = model(x, hidden)

They only detach tensors and arrange them anew: half or not, they need no autocast.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.models import names
from amp_migrate.models.queries import only_moves

_OF_PYTHON = frozenset("tuple list type isinstance len map range zip".split())


def only_hands_on(facts: Facts, statement: Statement) -> bool:
    """True for a statement without blocks that only detaches tensors, or arranges them anew."""
    return not statement.blocks and _computes_nothing(facts, statement, frozenset())


def _computes_nothing(facts: Facts, statement: Statement, seen: frozenset[Function]) -> bool:
    if any(isinstance(part, cst.BinaryOperation) for part in facts.tree.expressions(statement)):
        return False
    return all(_only_moves(facts, call, seen) for call in facts.tree.calls(statement))


def _only_moves(facts: Facts, call: cst.Call, seen: frozenset[Function]) -> bool:
    function = facts.objects.called_function(call)
    if function is None:
        return called_name(call) in names(only_moves) | _OF_PYTHON
    if function in seen:
        return True
    inside = list(function.descendants())
    return all(_computes_nothing(facts, inner, seen | {function}) for inner in inside)
