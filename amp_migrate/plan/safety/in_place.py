"""Products in place, which are none of autocast's: they take what they get, and raise for half beside float32 ([run]).

    dist.addmm_(x, y.t(), beta=1, alpha=-2)     =>    dist.addmm_(x.float(), y.t().float(), beta=1, alpha=-2)

Apex had cast what is multiplied to the type of what it is added to ([A:apex/amp/wrap.py], promote_match_arg0).
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import product_in_place
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import Cast


def match_products_in_place(context: Context) -> None:
    """The dtype of what is added to in place, for what is multiplied."""
    for call, _ in context.reach.calls():
        if called_name(call) in names(product_in_place) and isinstance(call.func, cst.Attribute):
            _match(context, call.func.value, matrices(call.args))


def _match(context: Context, changed: cst.BaseExpression, operands: list[cst.BaseExpression]) -> None:
    into = context.precisions.of(changed)
    for operand in operands:
        given = context.precisions.of(operand)
        is_same = into is given and into in (Precision.HALF, Precision.SINGLE)
        if Precision.OTHER in (into, given) or is_same or given is Precision.NUMBER:
            continue
        if into is Precision.SINGLE:
            context.safety.keep_float32(operand)
        elif isinstance(changed, (cst.Name, cst.Attribute)):
            context.safety.casts.append(Cast(operand, changed))


def matrices(given: Sequence[cst.Arg]) -> list[cst.BaseExpression]:
    """The two factors, which beta and alpha may precede: `d.addmm_(1, -2, x, y)`."""
    plain = [arg.value for arg in given if arg.keyword is None and not arg.star]
    return plain[-2:] if len(plain) >= 2 else []
