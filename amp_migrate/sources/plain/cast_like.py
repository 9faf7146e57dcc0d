"""Models that are trained in the type of something else, which may be half.

    adapter = nn.Linear(512, 64).to(backbone.dtype)

A GradScaler refuses to unscale half gradients (`Attempting to unscale FP16 gradients.`), and who asks another for its
type does so because it may be no float32.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.findings import Refusal
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.optimizers import find_optimizers


def cast_like_another(facts: Facts) -> Refusal | None:
    """The refusal of such a model, None without one."""
    casts = [(call, kind) for call, _ in facts.tree.every(cst.Call) if (kind := _type_of_another(call)) is not None]
    if not casts:
        return None
    modules = Modules(facts, find_optimizers(facts))
    for call, kind in casts:
        assert isinstance(call.func, cst.Attribute)
        if modules.is_whole(call.func.value) and modules.is_trained(call.func.value):
            text = facts.text(call.func.value)
            return Refusal("AMP971", call, f"{text} is trained in the type of {facts.text(kind)}, which may be half")
    return None


def _type_of_another(call: cst.Call) -> cst.BaseExpression | None:
    """`backbone` of `.to(backbone.dtype)`."""
    if not isinstance(call.func, cst.Attribute) or called_name(call) not in ("to", "type"):
        return None
    types = [arg.value for arg in call.args if isinstance(arg.value, cst.Attribute) and arg.value.attr.value == "dtype"]
    return types[0].value if types else None
