"""Writes by index into tensors of another dtype, which raise; so does an average in place.

    out = torch.zeros(n, d)
    out[mask] = self.project(x)                =>    out[mask] = self.project(x).to(out.dtype)

An assignment by a mask or by a tensor of indices, and scatter_, index_add_, index_copy_ and masked_scatter_, want equal
dtypes ("Index put requires the source and destination dtypes match"; [run], torch 2.13). Slices and single positions
are copied, and cast on the way. Under autocast the source is half where it comes from a product and the destination
float32 where it was made by torch.zeros, or the other way round. `.to(destination.dtype)` is what the other forms do by
themselves; it changes nothing where the dtypes agree, so it is exact with autocast off, and cannot be wrong with it on.

    self.average.lerp_(h.mean(0), 0.1)         =>    self.average.lerp_(h.mean(0).to(self.average.dtype), 0.1)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype, Operation, method
from amp_migrate.models.queries import creates, in_half, never_in_half, writes
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import Cast
from amp_migrate.rules.safety import FLOAT32_ONLY, INDEXED_WRITE


def match_indexed_writes(context: Context) -> None:
    """The dtype of its destination for each source that may have another."""
    for statement in context.reach.statements:
        if isinstance(statement.node, cst.Assign) and len(statement.node.targets) == 1:
            target = statement.node.targets[0].target
            if isinstance(target, cst.Attribute) and target.attr.value == "data":
                _keep_parameter(context, target.value, statement.node.value)
    for into, source, made in list(writes_by_index(context)):
        if made is None or not _is_half_for_unknown(context, made, into, source):
            _match(context, into, source)


def writes_by_index(
    context: Context,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, Made | None]]:
    """Destination and source of each write, with the result of its call: none for an assignment."""
    for statement in context.reach.statements:
        if isinstance(statement.node, cst.Assign) and len(statement.node.targets) == 1:
            target = statement.node.targets[0].target
            if isinstance(target, cst.Subscript) and _is_by_tensor(context, target):
                yield target.value, statement.node.value, None
    for made in context.results:
        row = made.operation
        if row is not None and writes(row) and method(row.bare) is not None and isinstance(made.node, cst.Call):
            source = _source(made, row)
            if source is not None:
                yield made.operands[0].node, source, made


def _keep_parameter(context: Context, tensor: cst.BaseExpression, source: cst.BaseExpression) -> None:
    """`v.data = normalized(torch.mv(w.t(), u))`: a parameter or buffer would be half from now on, where autocast is off
    as well.
    """
    ends = context.trace(Place(source), never_in_half).ends
    is_made_in_half = any(row and in_half(row) for one in ends for row in one.operations)
    if context.precisions.of(source).may_be_half or is_made_in_half:
        if isinstance(tensor, (cst.Name, cst.Attribute)):
            context.safety.casts.append(Cast(source, tensor))


def _is_half_for_unknown(context: Context, made: Made, into: cst.BaseExpression, source: cst.BaseExpression) -> bool:
    """True where the destination of a method that only tensors have may be anything: its dtype is asked for."""
    found = context.precisions.of(into), context.precisions.of(source)
    if found != (Precision.UNKNOWN, Precision.HALF) or not isinstance(into, (cst.Name, cst.Attribute)):
        return False
    if made.operation is None or not made.operation.in_place:
        return False
    context.safety.casts.append(Cast(source, into))
    return True


def _source(made: Made, row: Operation) -> cst.BaseExpression | None:
    """What is written: the second tensor of the operation."""
    args = made.node.args if isinstance(made.node, cst.Call) else ()
    named = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
    given = made.operands[row.second].node if len(made.operands) > row.second else None
    return given or named.get("src") or named.get("source") or named.get("values") or named.get("end")


def _is_by_tensor(context: Context, target: cst.Subscript) -> bool:
    """True where some index may be a tensor or a list: neither a slice nor a number."""
    for element in target.slice:
        if isinstance(element.slice, cst.Index):
            index = element.slice.value
            is_given = literal_value(index) is UNKNOWN or isinstance(index, cst.List)
            if is_given and not isinstance(index, cst.Ellipsis):
                if context.precisions.of(index) is not Precision.NUMBER:
                    return True
    return False


def _match(context: Context, destination: cst.BaseExpression, source: cst.BaseExpression) -> None:
    into, given = context.precisions.of(destination), context.precisions.of(source)
    if context.values.of(source).is_container or _may_be_array(context, destination):
        return  # what takes a tuple is no tensor, and NumPy casts
    if into is Precision.SINGLE and given is Precision.UNKNOWN and _is_half_or_float32(context, source):
        given = Precision.FLOATING
    if not into.is_tensor or not given.is_tensor:
        if into is not Precision.SINGLE or given is not Precision.UNKNOWN or literal_value(source) is not UNKNOWN:
            return
        message = f"{context.facts.text(source)} is written by index into a float32 tensor, and may be half"
        if not context.values.halves(Place(source), unseen=False):
            context.note(source, INDEXED_WRITE, message)
            return
        if not isinstance(source, cst.Subscript) and not context.values.of(source).is_open:  # `s = 0` on another way
            raise Refusal(FLOAT32_ONLY, source, f"{message}, or no tensor")
    if Precision.OTHER in (into, given) or into is given is Precision.SINGLE or into is given is Precision.HALF:
        return
    if Precision.SINGLE not in (into, given) and Precision.HALF not in (into, given):
        is_cast = any(made.cast is not None for made in context.values.steps.of(Place(source)).made)
        if is_cast or context.values.halves(Place(destination)) == context.values.halves(Place(source)):
            return  # `x.to(destination.dtype)`; of one origin; or neither is made here
    destination = _whole(context, destination)
    is_tensor = context.values.of(destination).is_tensor  # what is out of sight may be a dict, without a dtype
    if is_tensor and isinstance(destination, (cst.Name, cst.Attribute, cst.Subscript)):
        context.safety.casts.append(Cast(source, destination))
    elif into is Precision.SINGLE:
        context.safety.keep_float32(source)
    elif any(one.operation is not None and creates(one.operation) for one in context.made(destination)):
        context.safety.keep_float32(destination)
        if given is not Precision.SINGLE:
            context.safety.keep_float32(source)


def _may_be_array(context: Context, node: cst.BaseExpression) -> bool:
    """True for what a function of NumPy makes: `ret = np.empty(shape, dtype=data.dtype)`."""
    calls = (one.func for one in context.facts.objects.values_of(node) if isinstance(one, cst.Call))
    return any((context.facts.names.dotted(one) or "").startswith("numpy.") for one in calls)


def _is_half_or_float32(context: Context, source: cst.BaseExpression) -> bool:
    """True for a tensor that may be half: the write into float32 has worked, so that without autocast it is float32."""
    dtypes = context.values.of(source).dtypes
    return Dtype.HALF in dtypes and Dtype.NUMBER not in dtypes


def _whole(context: Context, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """What a tensor is a part or a copy of, as `x` of `x.clone()[0]`: it has the same dtype, and can be named again."""
    if isinstance(tensor, cst.Subscript) and context.precisions.of(tensor.value).is_tensor:
        return _whole(context, tensor.value)
    made = context.made(tensor) if isinstance(tensor, cst.Call) else ()
    is_copy = [one for one in made if one.operation is not None and one.operation.shape_only and one.cast is None]
    return _whole(context, made[0].operands[0].node) if made and len(is_copy) == len(made) else tensor
