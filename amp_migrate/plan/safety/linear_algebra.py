"""Linear algebra and spectral code, which half has no kernels for.

Autocast leaves these operations alone, so they run in the dtype they are given: inverses, decompositions and solvers
raise for half ("Low precision dtypes not supported", "not implemented for 'Half'"), transforms raise or give complex
halves, which little else takes. On float32 they run in float32, inside of autocast as well, so `.float()` is all they
need. A few are composites whose own products autocast casts again: those get an island ([run], torch 2.13).

    inverse = torch.inverse(cov)       =>    inverse = torch.inverse(cov.float())
    pinv = torch.pinverse(x)           =>    with autocast(enabled=False):
                                                 pinv = torch.pinverse(x.float())
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.findings import Refusal
from amp_migrate.interp.step import Made
from amp_migrate.interp.uses import shows_tensor
from amp_migrate.models.queries import breaks_in_half, casts_again, takes_complex, tensor_places
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import isolate_alone
from amp_migrate.rules.safety import LINEAR_ALGEBRA


def keep_linear_algebra(context: Context) -> None:
    """Float32 for the matrices and signals of operations without a half kernel. Raises Refusal."""
    for made in context.results:
        row = made.operation
        if row is None or not breaks_in_half(row) or not _is_of_tensor(context, made):
            continue
        for place, operand in enumerate(one.node for one in made.operands):
            kind = context.precisions.of(operand)
            if place == 0 and takes_complex(row) and kind is Precision.UNKNOWN:
                _check_is_real(context, made.node, operand)
            if kind.may_be_half or (kind is Precision.UNKNOWN and place in tensor_places(row)):
                context.safety.keep_float32(operand)
        if casts_again(row):
            isolate_alone(context, made, "takes matrix products of its own")


def _is_of_tensor(context: Context, made: Made) -> bool:
    """True for torch's functions, and for the methods of what is certainly a tensor: models have an `inverse`, too."""
    if made.operation is None or made.operation.kind != "method":
        return True
    receiver = made.operands[0].node
    if not context.values.of(receiver).is_open:
        return context.precisions.of(receiver).is_tensor
    others = [load for load in context.facts.names.loads_at(receiver) if load is not receiver]
    return any(shows_tensor(context.facts, load) for load in others)  # beside this very call


def _check_is_real(context: Context, call: cst.BaseExpression, operand: cst.BaseExpression) -> None:
    """Raises Refusal where code that speaks of complex numbers transforms what it was given."""
    function = context.facts.tree.function_of(call)
    if "complex" in context.facts.text(function.root.node):
        text = context.facts.text(operand)
        message = f"{text} may be half, which has no transform, or complex, which float() would cut"
        raise Refusal(LINEAR_ALGEBRA, call, message)
