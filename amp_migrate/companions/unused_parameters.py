"""Parameters without a gradient: Apex's DistributedDataParallel left them out, torch's raises unless told to look.

if args.fp16:
    model = ApexDDP(model)                                    find_unused_parameters=True, as the other arm says
else:
    model = DDP(model, find_unused_parameters=True)

model = ApexDDP(model)                                        find_unused_parameters=True, for what is frozen later
for p in model.module.features.parameters():
    p.requires_grad = False

model = ApexDDP(Net())                                        the same, where layers of Net are left out
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.companions.spelling import torch_path
from amp_migrate.companions.table import COMPANIONS, DDP
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, argument_value, names_in
from amp_migrate.files.as_ast import as_ast
from amp_migrate.files.freezes import freezes, freezes_given
from amp_migrate.plan.scaler.visible import Visible


def looks_for_unused(facts: Facts, call: cst.Call) -> str | None:
    """What the other arms of the `if` statements around Apex's wrapping say of unused parameters; "True" where the
    model leaves some out. None for nothing.
    """
    at = facts.tree.statement_of(call)
    visible = Visible(facts)
    texts = (visible.express(value, at.function, at) for value in _said_in_other_arms(facts, call))
    said = next((text for text in texts if text is not None), None)
    return "True" if said is None and leaves_parameters_out(facts, call) else said


def stops_in_other_arm(facts: Facts, call: cst.Call) -> bool:
    """True where the other arms, which wrap the model in torch's class, raise for what Apex's lets pass."""
    return not any(_said_in_other_arms(facts, call)) and leaves_parameters_out(facts, call)


def _said_in_other_arms(facts: Facts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    values = (argument_value(other, "find_unused_parameters") for other in _in_other_arms(facts, call))
    return (value for value in values if value is not None)


def leaves_parameters_out(facts: Facts, call: cst.Call) -> bool:
    """True where the model that a call wraps has parameters that asked for gradients then, and may get none."""
    wrapping = facts.tree.statement_of(call)
    model = names_in(call.args[0].value) | _targets(wrapping)
    below = [one for outer in wrapping.path() for later in outer.next_siblings() for one in later.descendants()]
    following = (later for outer in wrapping.path() for later in outer.next_siblings())
    if any(freezes(as_ast(one.node), model) for one in following):
        return True
    if any(_freezes_then(facts, statement, model) for statement in below):
        return True
    called = frozenset(name for one in below for name in _called_on(facts, one, model))
    makers = dict.fromkeys(_makers(facts, call.args[0].value))
    return any(facts.elsewhere.leave_parameters_out(name, called) for name in makers)


def _makers(facts: Facts, model: cst.BaseExpression, seen: frozenset[cst.Call] = frozenset()) -> Iterator[str]:
    """The full names of the classes and functions that make a model, or the class of it."""
    roots = (one.origin for one in facts.objects.objects(model) if isinstance(one.origin, Class))
    for made in (call for root in roots for call in facts.objects.family_makers.get(root, ())):
        for owner in facts.objects.classes_made(made):
            yield f"{facts.file_of(owner.node).name}.{owner.node.name.value}"
    for call in facts.objects.calls_behind(model):
        bindings = facts.names.bindings_at(call.func)
        yield from facts.names.imported_as(call.func) if not bindings else (one.path for one in bindings if one.path)
        if any(one.kind in ("class", "def") for one in bindings):
            yield f"{facts.file_of(call).name}.{facts.text(call.func)}"
        elif call not in seen:
            yield from _makers(facts, call.func, seen | {call})


def _called_on(facts: Facts, statement: Statement, model: set[str]) -> Iterator[str]:
    """The methods that a statement calls on a model, or on what it wraps: `model.module.freeze()`."""
    for part in facts.tree.calls(statement):
        if isinstance(part.func, cst.Attribute) and names_in(part.func.value) & model:
            yield part.func.attr.value


def _freezes_then(facts: Facts, statement: Statement, model: set[str]) -> bool:
    """True where parameters of the model stop asking for gradients in what a statement calls."""
    for call in facts.tree.calls(statement):
        places = [
            one.keyword.value if one.keyword else index
            for index, one in enumerate(call.args)
            if names_in(one.value) & model
        ]
        names = facts.names.imported_as(call.func) if places else []
        if any(freezes_given(name, place) for name in names for place in places):
            return True
    for site in facts.calls.in_statement(statement):
        given = {
            name.value
            for name, arg in zip(_parameters(site.callee), site.call.args, strict=False)
            if names_in(arg.value) & model
        }
        if freezes(as_ast(site.callee.node), given or model & {"self"}):
            return True
    return False


def _parameters(function: Function) -> list[cst.Name]:
    return [one.name for one in function.parameters][function.is_method :]


def _targets(statement: Statement) -> set[str]:
    node = statement.node
    targets = node.targets if isinstance(node, cst.Assign) else ()
    return {name for target in targets for name in names_in(target.target)}


def _in_other_arms(facts: Facts, call: cst.Call) -> Iterator[cst.Call]:
    """The calls that wrap the same model where this one does not."""
    at = facts.tree.statement_of(call)
    model = facts.text(call.args[0].value)
    for outer in at.path()[:-1]:
        arm = at.arm_of(outer.node)
        others = [block for block in outer.blocks if isinstance(outer.node, cst.If) and block.arm != arm]
        for inner in (one for block in others for statement in block.statements for one in statement.descendants()):
            for part in facts.tree.expressions(inner):
                is_torchs = isinstance(part, cst.Call) and torch_path(facts, part.func) == COMPANIONS[DDP].target
                if is_torchs and isinstance(part, cst.Call) and part.args and facts.text(part.args[0].value) == model:
                    yield part
