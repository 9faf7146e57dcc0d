"""Hooks that multiply the gradient with a tensor: a hook may not change the dtype of a gradient.

    h.register_hook(lambda grad: grad * self.mask)
        =>    h.register_hook(lambda grad: (grad * self.mask).to(grad.dtype))

Gradients have the dtype of what they are for. Where that is half, its product with a float32 tensor is float32, and
autograd raises ("hook has changed the type of value"; [run], torch 2.13). The cast changes nothing where the dtypes
agree, so it is exact with autocast off. Weights are float32 in any case, and so are their gradients.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name, walk
from amp_migrate.models.traits import named
from amp_migrate.plan.hooks import products_of
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import Cast

_HARMLESS = (Precision.NUMBER, Precision.OTHER, Precision.HALF)
_WEIGHTS = frozenset(("weight", "bias"))


def match_hooks(context: Context) -> None:
    """The dtype of the gradient for each product in a hook that may have another."""
    half = {statement.function for statement in context.reach.statements}
    for call, statement in context.facts.tree.every(cst.Call):
        if called_name(call) != "register_hook" or not isinstance(call.func, cst.Attribute) or not call.args:
            continue
        if statement.function not in half or _is_float32(context, call.func.value):
            continue
        for hook in context.facts.objects.functions_given(call.args[0].value):
            for product in products_of(context.facts, hook) or ():
                cast = Cast(product.node, product.gradient)
                if _may_be_float32(context, product.factors) and cast not in context.safety.casts:
                    context.safety.casts.append(cast)


def _is_float32(context: Context, node: cst.BaseExpression) -> bool:
    """True for weights, and for what autocast leaves in float32."""
    if context.precisions.of(node) is Precision.SINGLE:
        return True
    if isinstance(node, cst.Attribute):
        return node.attr.value in _WEIGHTS
    loops = [one.value for one in context.facts.names.bindings_at(node) if one.kind == "for"]
    return any(
        isinstance(part, cst.Call) and called_name(part) in named("parameters")
        for source in loops
        if source is not None
        for part in walk(source)
    )


def _may_be_float32(context: Context, factors: tuple[cst.BaseExpression, ...]) -> bool:
    return any(context.precisions.of(factor) not in _HARMLESS for factor in factors)
