"""Weights that a network computes for a normalisation, which takes half input with float32 weights, not with half ones.

    F.batch_norm(x, mean, var, self.weight, ...)     =>     F.batch_norm(x, mean, var, self.weight.float(), ...)

Autocast casts nothing for it ("expected scalar type Half but found Float" beside running averages, [run] on the CPU
kernels of torch 2.13). Weights that are parameters are float32; those of a style come out of linear layers.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.values import literal_value
from amp_migrate.plan.safety.context import Context


def keep_norm_weights(context: Context) -> None:
    """Float32 for the weights of such a call, and for its running averages."""
    for call, _ in context.reach.calls():
        if any(made.is_a("normalization") for made in context.made(call)):
            for given in (arg.value for arg in call.args[1:]):
                if _may_be_half(context, given):
                    context.safety.keep_float32(given)


def _may_be_half(context: Context, weight: cst.BaseExpression) -> bool:
    """True also for an attribute that its class leaves None: whoever knows the style sets it on the layer."""
    if context.precisions.of(weight).may_be_half:
        return True
    own = context.facts.objects.values_of(weight)
    if not isinstance(weight, cst.Attribute) or not own or any(literal_value(value) is not None for value in own):
        return False
    stores = context.facts.objects.stores_of(weight.attr.value)
    return any(context.precisions.of(store.value).may_be_half for store in stores if not store.selector)
