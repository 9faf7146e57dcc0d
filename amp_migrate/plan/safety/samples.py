"""Random numbers that are drawn in half, and whose logarithm is taken.

    F.gumbel_softmax(logits, tau=0.5)              =>    F.gumbel_softmax(logits.float(), tau=0.5)
    torch.log(torch.rand_like(logits) + 1e-20)     =>    torch.log(torch.rand_like(logits.float()) + 1e-20)

Both draw in the dtype of what they are given. What is below 3e-8 is zero in half, so that the exponentials of
gumbel_softmax, of which torch takes the logarithm without a guard, make NaN in one of some 30 million numbers: in any
step of a large code book. Uniform numbers that half rounds to one count as zero on a GPU, which is one of 4096 (the
bounds are exchanged there), and none comes closer to one than half does: the largest samples are missing.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.regions.trail import OpenTrail
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import tensor_operand
from amp_migrate.plan.safety.precision import Precision

_LOGARITHMS = frozenset("log log2 log10 log1p".split())
_FILLING = frozenset("uniform_ exponential_".split())
_GUMBEL = "torch.nn.functional.gumbel_softmax"


def draw_in_float32(context: Context) -> None:
    """Float32 for the tensors whose dtype such numbers take."""
    trail = _Drawn(context)
    for call, _ in context.reach.calls():
        operand = tensor_operand(context.facts, call)
        if operand is not None and called_name(call) in _LOGARITHMS:
            trail.look(operand)
        elif operand is not None and context.facts.names.dotted(call.func) == _GUMBEL:
            _keep(context, operand, Precision.HALF, Precision.FLOATING, Precision.UNKNOWN)
    for like in trail.found:
        _keep(context, like, Precision.HALF, Precision.FLOATING)


def _keep(context: Context, node: cst.BaseExpression, *kinds: Precision) -> None:
    if context.precisions.of(node) in kinds:
        context.safety.keep_float32(node)


class _Drawn(OpenTrail):
    """Finds the tensors like which a value is drawn at random; `found` has them of all values."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.facts)
        self.found: list[cst.BaseExpression] = []

    def is_source(self, node: cst.BaseExpression) -> bool:
        """True for `torch.rand_like(x)` and `torch.empty_like(x).uniform_()`."""
        if not isinstance(node, cst.Call):
            return False
        drawn: cst.BaseExpression | None = node
        if called_name(node) in _FILLING and isinstance(node.func, cst.Attribute):
            drawn = node.func.value
        elif called_name(node) != "rand_like":
            return False
        like = tensor_operand(self.facts, drawn) if isinstance(drawn, cst.Call) else None
        if like is not None:
            self.found.append(like)
        return True
