"""Gradients that no optimizer holds stay scaled, and so does the norm of all that a clip is given.

    optimizer = SGD(model.head.parameters(), lr=0.1)
    ...
    clip_grad_norm_(model.parameters(), 1.0)        (unscale_(optimizer) is about the head)
    print(model.body.weight.grad.norm())

Apex left those scaled as well; a training that was never scaled is refused. Where something is frozen, the rest may
have no gradients.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import walk
from amp_migrate.findings import Refusal
from amp_migrate.models.traits import named
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.events import Events, GradientUse
from amp_migrate.plan.steps.taking_part import Links
from amp_migrate.rules.steps import GRADIENTS_IN_USE


def check_clipped_sets(facts: Facts, roles: Roles, events: Events) -> None:
    """Raises Refusal for a clip, or another use, of the gradients of a whole model of which one optimizer holds a part,
    and of what no optimizer holds.
    """
    of_each = [roles.models_given(one) for one in roles.optimizers]
    given = [node for nodes in of_each for node in nodes]
    for use in (use for uses in events.uses.values() for use in uses) if all(of_each) else ():
        model = _model_of(facts, use)
        if model is None:
            continue
        text, verb = " ".join(facts.text(use.node).split()), "clips" if use.kind == "clip" else "reads"
        is_one = len(of_each) == 1 and (use.kind == "clip" or len(given) == 1)
        if is_one and not _freezes(facts) and all(_is_part(facts, node, model) for node in given):
            message = f"{text} {verb} more than {facts.text(given[0])}.parameters(), and only these are unscaled"
            raise Refusal(GRADIENTS_IN_USE, use.node, message)
        if _is_apart(facts, model, given):
            message = f"{text} {verb} gradients that no optimizer has, and that are not unscaled"
            raise Refusal(GRADIENTS_IN_USE, use.node, message)


def _model_of(facts: Facts, use: GradientUse) -> cst.BaseExpression | None:
    """`model` of `clip_grad_norm_(model.parameters(), ...)`, of `model.weight.grad`, and of `p.grad` in a loop over
    its parameters.
    """
    if use.kind == "clip":
        return _of_parameters(use.call.args[0].value) if use.call is not None and use.call.args else None
    holder = use.node.value if isinstance(use.node, cst.Attribute) else None
    if isinstance(holder, cst.Attribute):
        return holder.value
    loops = [one.value for one in facts.names.bindings_at(holder)] if isinstance(holder, cst.Name) else []
    return _of_parameters(loops[0]) if len(loops) == 1 else None


def _of_parameters(given: cst.BaseExpression | None) -> cst.BaseExpression | None:
    if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute):
        return None
    return given.func.value if given.func.attr.value in named("parameters") else None


def _is_apart(facts: Facts, model: cst.BaseExpression, given: list[cst.BaseExpression]) -> bool:
    """True for a module that is known, and that no optimizer has, or has a part of."""
    objects = facts.objects.objects(model)
    held = frozenset(one for node in given for one in facts.objects.objects(node))
    is_known = bool(objects) and all(one.kind in ("call", "instance") for one in objects)
    return is_known and not facts.analysis(Links).share(objects, held)


def _is_part(facts: Facts, node: cst.BaseExpression, whole: cst.BaseExpression) -> bool:
    """True for `model.head` of `model`, and for `head` of `model = nn.Sequential(body, head)`."""
    objects, wholes = facts.objects.objects(node), facts.objects.objects(whole)
    if not objects or not wholes or facts.objects.may_be(node, wholes) or facts.text(node) == facts.text(whole):
        return False
    if facts.text(node).startswith(f"{facts.text(whole)}."):
        return True
    makers = [one.origin for one in wholes if isinstance(one.origin, cst.Call)]
    parts = [arg.value for maker in makers for arg in maker.args]
    return len(parts) > 1 and any(facts.objects.may_be(part, objects) for part in parts)


def _freezes(facts: Facts) -> bool:
    names = (part for root in facts.tree.roots for part in walk(root.node) if isinstance(part, cst.Name))
    return any(name.value.startswith("requires_grad") for name in names)
