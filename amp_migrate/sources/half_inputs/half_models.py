"""Models beside those of apex.amp that the script casts to half itself: what they are given stays in half.

net = build(settings)
net.half()                       inference in half, as it was
net(images.half())
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.plan.roles import Roles
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.half_types import is_half_call
from amp_migrate.vocabulary import is_no_forward

Models = list[tuple[cst.BaseExpression, Function]]


def models_in_half(facts: Facts) -> Models:
    """What is cast to half and is a module, with the functions that cast it."""
    casts = [call for call, _ in facts.tree.every(cst.Call) if is_half_call(call)]
    modules = Modules(facts, []) if casts else None
    found: Models = []
    for call in casts:
        assert isinstance(call.func, cst.Attribute) and modules is not None
        if modules.is_module(call.func.value) or _only_a_module_can(facts, call):
            found.append((call.func.value, facts.tree.function_of(call)))
    return found


def forwards_in_half(facts: Facts, roles: Roles, in_half: Models) -> list[tuple[cst.Call, Statement]]:
    """The calls of models that are cast to half and are none of apex.amp's, with what they are given."""
    models = frozenset(one for model, _ in in_half for one in _apart(facts, roles, model))
    return [(call, at) for call, at in facts.tree.every(cst.Call) if models and _runs(facts, call, models)]


def running_in_half(facts: Facts, roles: Roles, in_half: Models) -> set[Function]:
    """The functions that run one of apex.amp's models in half, as far as is known: those that make one and cast it,
    with the functions that they call. Of a model that comes from elsewhere nobody knows who runs it: then all of them.
    """
    found: set[Function] = set()
    for model, function in in_half:
        if _apart(facts, roles, model):
            continue
        if not _is_made_in(facts, model, function):
            return set(facts.tree.functions)
        found |= {function, *facts.calls.reachable(function)}
    return found


def _apart(facts: Facts, roles: Roles, model: cst.BaseExpression) -> ObjectSet:
    """The objects that a model may be where none of them is one of apex.amp's; else none."""
    return frozenset() if roles.is_model(model) else facts.objects.objects(model)


def _runs(facts: Facts, call: cst.Call, models: ObjectSet) -> bool:
    """True for `teacher(x)` and `teacher.encode(x)`."""
    func = call.func
    if isinstance(func, cst.Attribute) and not is_no_forward(func.attr.value):
        if facts.objects.may_be(func.value, models):
            return True
    return isinstance(func, (cst.Name, cst.Attribute, cst.Subscript)) and facts.objects.may_be(func, models)


def _only_a_module_can(facts: Facts, cast: cst.Call) -> bool:
    """True for `teacher.half()` whose value nobody takes, since it casts in place, and for `teacher.half()(x)`."""
    return isinstance(facts.tree.parents.get(cast), cst.Expr) or facts.tree.call_of(cast) is not None


def _is_made_in(facts: Facts, model: cst.BaseExpression, function: Function) -> bool:
    """True for a local variable that only calls give a value: this run of the function has made it."""
    variable = facts.names.variable_at(model)
    return (
        variable is not None
        and variable.scope.owner is function
        and not function.is_module
        and all(binding.kind == "assign" and isinstance(binding.value, cst.Call) for binding in variable.bindings)
    )
