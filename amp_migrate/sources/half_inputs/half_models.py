"""Models beside those of apex.amp that the script casts to half itself: what they are given stays in half.

net = build(settings)
net.half()                       inference in half, as it was
net(images.half())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.sources.half.modules import Modules


def running_in_half(facts: Facts) -> set[Function]:
    """The functions that run a model in half: those that make one and cast it, with the functions that they call. Of a
    model that comes from elsewhere nobody knows who runs it: then all of them.
    """
    found: set[Function] = set()
    for call, statement in _casts_of_modules(facts):
        assert isinstance(call.func, cst.Attribute)
        if not _is_made_in(facts, call.func.value, statement.function):
            return set(facts.tree.functions)
        found |= {statement.function, *facts.calls.reachable(statement.function)}
    return found


def is_half_call(node: cst.CSTNode) -> bool:
    """True for `x.half()`."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and called_name(node) == "half"
        and not node.args
    )


def _casts_of_modules(facts: Facts) -> Iterator[tuple[cst.Call, Statement]]:
    casts = [(call, statement) for call, statement in facts.tree.every(cst.Call) if is_half_call(call)]
    modules = Modules(facts, []) if casts else None
    for call, statement in casts:
        assert isinstance(call.func, cst.Attribute) and modules is not None
        if modules.is_module(call.func.value) or _only_a_module_can(facts, call):
            yield call, statement


def _only_a_module_can(facts: Facts, cast: cst.Call) -> bool:
    """True for `teacher.half()` whose value nobody takes, since it casts in place, and for `teacher.half()(x)`."""
    parent = facts.tree.parents.get(cast)
    return isinstance(parent, cst.Expr) or (isinstance(parent, cst.Call) and parent.func is cast)


def _is_made_in(facts: Facts, model: cst.BaseExpression, function: Function) -> bool:
    """True for a local variable that only calls give a value: this run of the function has made it."""
    variable = facts.names.variable_at(model)
    return (
        variable is not None
        and variable.scope.owner is function
        and not function.is_module
        and all(binding.kind == "assign" and isinstance(binding.value, cst.Call) for binding in variable.bindings)
    )
