"""A Sigmoid at the end of a container, whose probabilities go into a binary cross entropy (rule E4).

    return self.main(x)        =>    return self.main[-1](self.main[:-1](x).float())

The last module is run on float32, which is what `.float()` on the argument of a sigmoid in sight does. The container
keeps its modules and the names of their weights.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.plan.regions.bce import BceSite
from amp_migrate.plan.safety.context import Context


def split_containers(context: Context, sites: list[BceSite]) -> None:
    """Run the last module on float32 where a cross entropy has no other sigmoid in sight."""
    for site in sites:
        if site.sigmoid_in_sight or not site.call.args:
            continue
        calls = [call for forward in _forwards(context, site.call.args[0].value) for call in _ends(context, forward)]
        if calls and None not in calls:
            context.safety.split += [call for call in calls if call is not None and call not in context.safety.split]
            site.sigmoid_in_sight = True


def _forwards(context: Context, node: cst.BaseExpression) -> list[Function]:
    """The forwards that a value comes from, through names and shapes: those of classes that this unit defines."""
    while not isinstance(node, cst.Name) and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if called_name(node) not in ("view", "squeeze", "reshape", "flatten", "float", "detach"):
            break
        node = node.func.value
    if isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        return _forwards(context, value) if value is not None else []
    if not isinstance(node, cst.Call) or not isinstance(node.func, (cst.Name, cst.Attribute)):
        return []
    owners = [one.origin for one in context.facts.objects.objects(node.func)]
    if not all(isinstance(owner, Class) and "forward" in owner.methods for owner in owners):
        return []
    return [owner.methods["forward"] for owner in owners if isinstance(owner, Class)]


def _ends(context: Context, forward: Function) -> list[cst.Call | None]:
    """For each value that a forward returns, the call of a container that ends in a Sigmoid, or None."""
    return [_container_call(context, value) for value in context.facts.objects.returned_by(forward)]


def _container_call(context: Context, node: cst.BaseExpression) -> cst.Call | None:
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if called_name(node) not in ("view", "squeeze", "reshape", "flatten"):
            break
        node = node.func.value
    if isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        return _container_call(context, value) if value is not None else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    made = context.facts.objects.values_of(node.func)
    return node if made and all(_ends_in_sigmoid(context, value) for value in made) else None


def _ends_in_sigmoid(context: Context, made: cst.BaseExpression) -> bool:
    if not isinstance(made, cst.Call) or context.facts.names.dotted(made.func) != "torch.nn.Sequential":
        return False
    last = made.args[-1] if len(made.args) > 1 else None
    return (
        last is not None
        and not last.star
        and isinstance(last.value, cst.Call)
        and (context.facts.names.dotted(last.value.func) == "torch.nn.Sigmoid")
    )
