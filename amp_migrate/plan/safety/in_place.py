"""Products in place, which are none of autocast's: they take what they get, and raise for half beside float32 ([run]).

    dist.addmm_(x, y.t(), beta=1, alpha=-2)     =>    dist.addmm_(x.float(), y.t().float(), beta=1, alpha=-2)

Apex had cast what is multiplied to the type of what it is added to ([A:apex/amp/wrap.py], promote_match_arg0).
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.models.queries import product_in_place
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import Cast


def match_products_in_place(context: Context) -> None:
    """The dtype of what is added to in place, for the two last tensors: `d.addmm_(1, -2, x, y)`."""
    for made in context.results:
        if made.operation is not None and product_in_place(made.operation) and len(made.operands) > 2:
            changed, *_, one, other = (given.node for given in made.operands)
            _match(context, changed, [one, other])


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
