"""Statements that prepare the state of the last round for the next one.

    hidden = repackage(hidden)        hidden = tuple(h.detach() for h in hidden)
    output, hidden = model(x, hidden)

They only detach tensors and arrange them anew: half or not, they need no autocast.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, own_reads, reads
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


# What a statement reads, with what its calls take beside their arguments: what a partial was given, and what a nested
# function sees around it.
#
#     part = partial(loss_of, out)          def part():
#                                               return criterion(out, target)
#     loss = part(target)                   loss = part()


def all_reads(facts: Facts, statement: Statement) -> list[Path]:
    """The paths whose values a statement uses."""
    return [*own_reads(statement), *_given_before(facts, statement)]


def _given_before(facts: Facts, statement: Statement) -> Iterator[Path]:
    for call in facts.tree.calls(statement):
        bound = facts.objects.partial_behind(call.func) if isinstance(call.func, cst.Name) else None
        if bound is not None and facts.tree.function_of(bound) is statement.function:
            for arg in bound.args[1:]:
                yield from reads(arg.value)
        callee = facts.objects.called_function(call)
        if callee is not None and callee.parent is statement.function and not statement.function.is_module:
            yield from _seen_around(facts, callee)


def _seen_around(facts: Facts, nested: Function) -> Iterator[Path]:
    """What a nested function reads of the variables of the function around it."""
    for path in (path for inner in nested.descendants() for path in own_reads(inner)):
        variable = facts.names.visible(path[0], nested)
        if variable is not None and variable.scope.owner is nested.parent:
            yield path
