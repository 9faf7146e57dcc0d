"""Layers of torch that stop for half inputs under autocast.

    loss = self.adaptive(h, words).loss        =>    loss = self.adaptive(h.float(), words).loss

AdaptiveLogSoftmaxWithLoss copies float32 log-probabilities by index into a tensor with the dtype of its input ([run],
torch 2.13). Its products run in half all the same.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision

_LAYERS = frozenset(("torch.nn.AdaptiveLogSoftmaxWithLoss",))


def keep_inputs_of_layers(context: Context) -> None:
    """Float32 for what such a layer is given."""
    for call, _ in context.reach.calls():
        if _is_layer(context, call.func) and call.args and not call.args[0].star:
            if context.precisions.of(call.args[0].value) is not Precision.SINGLE:
                context.safety.keep_float32(call.args[0].value)


def _is_layer(context: Context, callee: cst.BaseExpression) -> bool:
    if not isinstance(callee, (cst.Name, cst.Attribute)):
        return False
    makers = [one.origin.func for one in context.facts.objects.objects(callee) if isinstance(one.origin, cst.Call)]
    return any(context.facts.names.dotted(maker) in _LAYERS for maker in makers)
