"""A clip of more than the optimizer holds: the gradients of the rest stay scaled, and so does the norm of all.

    optimizer = SGD(model.head.parameters(), lr=0.1)
    ...
    clip_grad_norm_(model.parameters(), 1.0)        (unscale_(optimizer) is about the head)

Apex left those scaled as well; a training that was never scaled is refused. Where something is frozen, the rest may
have no gradients.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.events import Events
from amp_migrate.rules.steps import GRADIENTS_IN_USE


def check_clipped_sets(facts: Facts, roles: Roles, events: Events) -> None:
    """Raises Refusal for a clip of a whole model of which one optimizer holds a part."""
    given = [node for one in roles.optimizers for node in roles.models_given(one)]
    if len(roles.optimizers) != 1 or not given or _freezes(facts):
        return
    for use in (use for uses in events.uses.values() for use in uses if use.kind == "clip"):
        clipped = _model_of(use.call)
        if clipped is not None and all(_is_part(facts, node, clipped) for node in given):
            text = " ".join(facts.text(use.node).split())
            message = f"{text} clips more than {facts.text(given[0])}.parameters(), and only these are unscaled"
            raise Refusal(GRADIENTS_IN_USE, use.node, message)


def _model_of(clip: cst.Call | None) -> cst.BaseExpression | None:
    """`model` of `clip_grad_norm_(model.parameters(), ...)`."""
    given = clip.args[0].value if clip is not None and clip.args else None
    if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute):
        return None
    return given.func.value if given.func.attr.value == "parameters" else None


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
