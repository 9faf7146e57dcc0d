"""Losses of packages around compiled code that reads its input as float32, whatever it is.

    from warpctc_pytorch import CTCLoss
    cost = criterion(preds, text, ...)        =>    cost = criterion(preds.float(), text, ...)

Autocast casts for torch's operations only, and these have no `custom_fwd` ("expected scalar type Float but found
Half"). All of them take the activations first, and integers after them.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision

_PACKAGES = frozenset("warpctc_pytorch warprnnt_pytorch warp_rnnt".split())


def keep_activations(context: Context) -> None:
    """Float32 for what such a loss is taken of."""
    for call, _ in context.reach.calls():
        if not call.args or call.args[0].keyword is not None or call.args[0].star:
            continue
        activations = call.args[0].value
        if _is_of_package(context, call.func) and context.precisions.of(activations) is not Precision.SINGLE:
            context.safety.keep_float32(activations)


def _is_of_package(context: Context, callee: cst.BaseExpression) -> bool:
    """True for a function of such a package, and for an instance of a class of one."""
    if not isinstance(callee, (cst.Name, cst.Attribute)):
        return False
    makers = [one.origin.func for one in context.facts.objects.objects(callee) if isinstance(one.origin, cst.Call)]
    paths = [path for node in (callee, *makers) for path in context.facts.objects.import_paths(node)]
    return any(path.partition(".")[0] in _PACKAGES for path in paths)
