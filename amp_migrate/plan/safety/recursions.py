"""Tensors that a loop fills again and again with what it computes in float32 from them: they start in float32.

    partition = first[:, start].clone()        =>    partition = first[:, start].clone().float()
    for word, scores in steps:
        after = torch.logsumexp(scores + partition.unsqueeze(2), 1)
        partition.masked_scatter_(known[word], after.masked_select(known[word]))

Where it starts from a product it is half, and what comes back is float32, which raises (`indexed.py`; [run]).
Cast back to half, the sum over a whole sequence would be rounded in each round.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import Statement
from amp_migrate.interp.place import Place
from amp_migrate.models import Operation
from amp_migrate.models.queries import in_float32
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.freshness import is_fresh
from amp_migrate.plan.safety.indexed import writes_by_index
from amp_migrate.plan.safety.precision import Precision

# What such a write takes is a tensor, and of the source's dtype: where nothing is known it may be half.
_NEVER_HALF = (Precision.SINGLE, Precision.OTHER, Precision.NUMBER)


def keep_recursions(context: Context) -> None:
    """Float32 for what such a tensor starts from."""
    for into, source, made in list(writes_by_index(context)):
        in_place = made is None or (made.operation is not None and made.operation.in_place)
        if not isinstance(into, cst.Name) or not in_place:
            continue
        start = context.precisions.value_before(into)
        loops = [one for one in context.facts.tree.statement_of(source).path() if one.is_loop]
        if start is None or _is_in(context, start, loops) or not is_fresh(context.precisions, into):
            continue
        if context.precisions.of(start) in _NEVER_HALF:
            continue
        if _is_computed_from(context, source, into):
            context.safety.keep_float32(start)


def _is_in(context: Context, node: cst.BaseExpression, loops: list[Statement]) -> bool:
    """True where an expression stands in the innermost of the loops, or where there is none."""
    return not loops or context.facts.tree.statement_of(node).inside(loops[-1])


def _is_computed_from(context: Context, source: cst.BaseExpression, into: cst.Name) -> bool:
    """True where an operation that autocast runs in float32 makes one of the other."""
    ways = context.trace(Place(source), _anything)
    variable = context.facts.names.variable_at(into)
    names = (one.node for one in ways.places if isinstance(one.node, cst.Name))
    return any(row is not None and in_float32(row) for made in ways.made for row in made.operations) and any(
        context.facts.names.variable_at(one) is variable for one in names
    )


def _anything(row: Operation) -> bool:
    return True
