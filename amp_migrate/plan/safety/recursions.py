"""Tensors that a loop fills again and again with what it computes in float32 from them: they start in float32.

    partition = first[:, start].clone()        =>    partition = first[:, start].clone().float()
    for word, scores in steps:
        after = torch.logsumexp(scores + partition.unsqueeze(2), 1)
        partition.masked_scatter_(known[word], after.masked_select(known[word]))

Where it starts from a product it is half, and what comes back is float32, which raises (`indexed.py`; [run]).
Cast back to half, the sum over a whole sequence would be rounded in each round.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.models import names
from amp_migrate.models.queries import in_float32
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.freshness import is_fresh
from amp_migrate.plan.safety.indexed import writes_by_index
from amp_migrate.plan.safety.precision import Precision

# What such a write takes is a tensor, and of the source's dtype: where nothing is known it may be half.
_NEVER_HALF = (Precision.SINGLE, Precision.OTHER, Precision.NUMBER)


def keep_recursions(context: Context) -> None:
    """Float32 for what such a tensor starts from."""
    for into, source, call in writes_by_index(context):
        if not isinstance(into, cst.Name) or (call is not None and not called_name(call).endswith("_")):
            continue
        start = context.precisions.value_before(into)
        loops = [one for one in context.facts.tree.statement_of(source).path() if one.is_loop]
        if start is None or _is_in(context, start, loops) or not is_fresh(context.precisions, into):
            continue
        if context.precisions.of(start) in _NEVER_HALF:
            continue
        computed = list(_computed(context, source, loops))
        if _mention(context, into, computed) and any(_is_in_float32(context, node) for node in computed):
            context.safety.keep_float32(start)


def _is_in(context: Context, node: cst.BaseExpression, loops: list[Statement]) -> bool:
    """True where an expression stands in the innermost of the loops, or where there is none."""
    return not loops or context.facts.tree.statement_of(node).inside(loops[-1])


def _computed(context: Context, source: cst.BaseExpression, loops: list[Statement]) -> Iterator[cst.BaseExpression]:
    """An expression, and what the innermost loop assigns to the names in it, and to those in that."""
    seen: set[cst.BaseExpression] = set()
    pending = [source]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        for part in walk(node):
            variable = context.facts.names.variable_at(part) if isinstance(part, cst.Name) else None
            assigned = [one for one in variable.bindings if one.kind == "assign"] if variable is not None else []
            values = [one.value for one in assigned if one.value is not None]
            pending += [value for value in values if _is_in(context, value, loops)]


def _mention(context: Context, name: cst.Name, nodes: list[cst.BaseExpression]) -> bool:
    variable = context.facts.names.variable_at(name)
    parts = (part for node in nodes for part in walk(node) if isinstance(part, cst.Name))
    return variable is not None and any(context.facts.names.variable_at(part) is variable for part in parts)


def _is_in_float32(context: Context, node: cst.BaseExpression) -> bool:
    """True where autocast runs an operation of the expression, or of a function that it calls, in float32."""
    calls = [part for part in walk(node) if isinstance(part, cst.Call)]
    functions = [context.facts.objects.called_function(call) for call in calls]
    returned = [one for each in functions if each is not None for one in context.facts.objects.returned_by(each)]
    calls += [part for value in returned for part in walk(value) if isinstance(part, cst.Call)]
    return any(called_name(call) in names(in_float32) for call in calls)
