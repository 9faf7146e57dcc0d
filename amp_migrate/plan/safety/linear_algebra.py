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

from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.models import names
from amp_migrate.models.queries import breaks_in_half, casts_again, takes_complex
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import is_of_module, operation
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.rules.safety import LINEAR_ALGEBRA


def keep_linear_algebra(context: Context) -> None:
    """Float32 for the matrices and signals of operations without a half kernel. Raises Refusal."""
    for call, statement in context.reach.calls():
        for operand in _operands(context, call):
            if called_name(call) in names(takes_complex) and context.precisions.of(operand) is Precision.UNKNOWN:
                _check_is_real(context, call, operand)
            context.safety.keep_float32(operand)
            if called_name(call) in names(casts_again):
                _isolate(context, statement, call)
        is_composite = called_name(call) in names(casts_again) and is_operation(context, call)
        if is_composite and statement not in context.safety.islands:
            _isolate(context, statement, call)


def _operands(context: Context, call: cst.Call) -> list[cst.BaseExpression]:
    """What the operation needs in float32 and may get in half."""
    if not is_operation(context, call):
        return []
    assert isinstance(call.func, cst.Attribute)
    positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if not is_of_module(context.facts, call.func):
        positional = [call.func.value, *positional]
    row = operation(context.facts, call)
    matrices = positional[: row.inputs if row is not None else 1]
    found = [(one, context.precisions.of(one)) for one in matrices]
    return [one for one, kind in found if kind.may_be_half or kind is Precision.UNKNOWN]


def is_operation(context: Context, call: cst.Call) -> bool:
    """True for torch's functions, and for the methods of what is certainly a tensor: models have an `inverse`, too."""
    if called_name(call) not in names(breaks_in_half) or not isinstance(call.func, cst.Attribute):
        return False
    if context.facts.objects.called_function(call) is not None:
        return False
    if is_of_module(context.facts, call.func):
        return (context.facts.names.dotted(call.func) or "").startswith("torch.")
    return context.precisions.of(call.func.value).is_tensor


def _isolate(context: Context, statement: Statement, call: cst.Call) -> None:
    if context.can_be_island(statement, call):
        context.safety.isolate(statement)
        return
    message = f"{context.facts.text(call.func)} takes matrix products of its own, beside what needs autocast"
    raise Refusal(LINEAR_ALGEBRA, call, message)


def _check_is_real(context: Context, call: cst.Call, operand: cst.BaseExpression) -> None:
    """Raises Refusal where code that speaks of complex numbers transforms what it was given."""
    function = context.facts.tree.function_of(call)
    if "complex" in context.facts.text(function.root.node):
        text = context.facts.text(operand)
        raise Refusal(
            LINEAR_ALGEBRA, call, f"{text} may be half, which has no transform, or complex, which float() would cut"
        )
