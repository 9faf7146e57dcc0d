"""Random numbers that are drawn in half, and whose logarithm is taken.

    F.gumbel_softmax(logits, tau=0.5)              =>    F.gumbel_softmax(logits.float(), tau=0.5)
    torch.log(torch.rand_like(logits) + 1e-20)     =>    torch.log(torch.rand_like(logits.float()) + 1e-20)

Both draw in the dtype of what they are given. What is below 3e-8 is zero in half, so that the exponentials of
gumbel_softmax, of which torch takes the logarithm without a guard, make NaN in one of some 30 million numbers: in any
step of a large code book. Uniform numbers that half rounds to one count as zero on a GPU, which is one of 4096 (the
bounds are exchanged there), and none comes closer to one than half does: the largest samples are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import keeps_float32
from amp_migrate.plan.safety.precision import Precision

_GUMBEL = "torch.nn.functional.gumbel_softmax"


def draw_in_float32(context: Context) -> None:
    """Float32 for the tensors whose dtype such numbers take."""
    for call, _ in context.reach.calls():
        operand = tensor_operand(context.facts, call)
        if operand is not None and context.facts.names.dotted(call.func) == _GUMBEL:
            _keep(context, operand, Precision.HALF, Precision.FLOATING, Precision.UNKNOWN)
    for made in context.results:
        for end in context.trace(made.operands[0], _is_not_drawn).ends if made.is_a("logarithm") else ():
            for like in _drawn_like(context, end):
                _keep(context, like.node, Precision.HALF, Precision.FLOATING)


def _is_not_drawn(row: Operation) -> bool:
    return keeps_float32(row) and not row.is_a("draw") and not row.is_a("draw in place")


def _drawn_like(context: Context, made: Made) -> Iterator[Place]:
    """X of `torch.rand_like(X)` and `torch.empty_like(X).uniform_()`."""
    if made.is_a("draw"):
        yield from made.operands[:1]
    elif made.is_a("draw in place"):
        for filled in context.steps.of(made.operands[0]).made:
            yield from filled.operands[:1]


def _keep(context: Context, node: cst.BaseExpression, *kinds: Precision) -> None:
    if context.precisions.of(node) in kinds:
        context.safety.keep_float32(node)


# The tensor that a call is about, as it is written.


def tensor_operand(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that an operation is about: X of `torch.exp(X)`, `F.relu(X)` and `X.exp()`."""
    if isinstance(call.func, cst.Attribute) and not _is_of_module(facts, call.func):
        return call.func.value
    first = next((arg for arg in call.args if not arg.star), None)
    return first.value if first is not None and (first.keyword is None or first.keyword.value == "input") else None


def _is_of_module(facts: Facts, func: cst.Attribute) -> bool:
    """True for `torch.exp` and `F.relu`: the attribute of an imported module, not the method of a tensor."""
    return facts.names.dotted(func.value) is not None or facts.text(func.value) in ("torch", "F")
