"""Layers and losses that take float32 as their first argument, and nothing else, where autocast hands them half.

    loss = self.adaptive(h, words).loss       =>    loss = self.adaptive(h.float(), words).loss
    cost = criterion(preds, text, ...)        =>    cost = criterion(preds.float(), text, ...)

torch's AdaptiveLogSoftmaxWithLoss copies float32 log-probabilities by index into a tensor with the dtype of its input
([run], torch 2.13). The packages are wrappers of compiled losses without a `custom_fwd`, for which autocast casts
nothing ("expected scalar type Float but found Half"); all of them take the activations first.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import argument_value
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision

_LAYERS = frozenset(("torch.nn.AdaptiveLogSoftmaxWithLoss",))
_FIRST = ("input", "acts", "log_probs")  # what they call their first argument
_PACKAGES = frozenset("warpctc_pytorch warprnnt_pytorch warp_rnnt".split())


def keep_float32_inputs(context: Context) -> None:
    """Float32 for what such a layer or loss is given."""
    for call, _ in context.reach.calls():
        given = _first(call)
        if given is None or not _is_float32_only(context, call.func):
            continue
        if context.precisions.of(given) is not Precision.SINGLE:
            context.safety.keep_float32(given)


def _first(call: cst.Call) -> cst.BaseExpression | None:
    return next((value for name in _FIRST if (value := argument_value(call, name, 0)) is not None), None)


def _is_float32_only(context: Context, callee: cst.BaseExpression) -> bool:
    """True for a function of such a package, and for an instance of such a layer or of a class of such a package."""
    if not isinstance(callee, (cst.Name, cst.Attribute)):
        return False
    facts = context.facts
    makers = [call.func for call in facts.objects.calls_behind(callee)]
    if any(facts.names.dotted(maker) in _LAYERS for maker in makers):
        return True
    return any(path.partition(".")[0] in _PACKAGES for path in facts.objects.paths_behind(callee))
