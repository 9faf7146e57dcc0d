"""Weights that a network computes for a normalisation, which takes half input with float32 weights, not with half ones.

    F.batch_norm(x, mean, var, self.weight, ...)     =>     F.batch_norm(x, mean, var, self.weight.float(), ...)

Autocast casts nothing for it ("expected scalar type Half but found Float" beside running averages, [run] on the CPU
kernels of torch 2.13). Weights that are parameters are float32; those of a style come out of linear layers.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.models import Dtype
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import COMPLEX_PARAMETERS


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


# Complex parameters, whose gradients GradScaler cannot unscale.
#
# `scaler.unscale_` and `scaler.step` raise ("_amp_foreach_non_finite_check_and_unscale" not implemented for
# 'ComplexFloat'; [run], torch 2.13). Two real numbers in the last dimension, read by torch.view_as_complex, can be
# scaled, but the names and shapes in checkpoints change with them.

_COMPLEX = frozenset((Dtype.COMPLEX,))


def check_complex_weights(context: Context) -> None:
    """Raises Refusal for a complex parameter of a module that runs under autocast."""
    for owner in context.reach.classes:
        for method in owner.methods.values():
            for statement in method.descendants():
                for call in context.facts.tree.calls(statement):
                    if _is_complex_parameter(context, call):
                        message = f"{owner.name} has a complex parameter, whose gradient cannot be unscaled"
                        raise Refusal(COMPLEX_PARAMETERS, call, message)


def _is_complex_parameter(context: Context, call: cst.Call) -> bool:
    is_parameter = called_name(call) == "Parameter" and bool(call.args)
    return is_parameter and context.values.of(call.args[0].value).dtypes == _COMPLEX
