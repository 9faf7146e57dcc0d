"""Products of sparse matrices, which CUDA has no kernels for in half ("addmm_sparse_cuda" not implemented for 'Half').

All of them end in products that autocast casts, `torch.sparse.mm` as well ([run]): the dense operand has to be float32,
outside of autocast.

    h = torch.spmm(adj, support)    =>    with autocast(enabled=False):
                                              h = torch.spmm(adj, support.float())
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models.queries import multiplies_sparse
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, is_single_alone, isolate_alone, tensors


def isolate_sparse_products(context: Context) -> None:
    """An island without autocast for each product of a sparse matrix. Raises Refusal."""
    for product in context.results:
        statement = context.facts.tree.statement_of(product.node)
        if statement in context.safety.islands or not _is_of_sparse(context, product):
            continue
        for operand in tensors(product):
            if not _stays_as_it_is(context, operand, is_first=operand == product.operands[0]):
                context.safety.keep_float32(operand.node)
        isolate_alone(context, product, "multiplies a sparse matrix")


def _is_of_sparse(context: Context, product: Made) -> bool:
    if product.operation is not None and multiplies_sparse(product.operation):
        return True
    return any(_is_sparse(context, one) for one in factors(context, product))


def _stays_as_it_is(context: Context, operand: Place, *, is_first: bool) -> bool:
    """True for what is float32 already. Of the two, the first is the sparse one: what a forward is given in it comes
    from no product, what it builds itself may hold half values.
    """
    kind = context.precisions.of(operand.node)
    if kind in (Precision.SINGLE, Precision.HALF):
        return is_single_alone(context, operand.node)
    if isinstance(operand.node, cst.Name) and context.precisions.value_before(operand.node) is not None:
        return kind is Precision.UNKNOWN
    return is_first or _is_sparse(context, operand)


def _is_sparse(context: Context, operand: Place) -> bool:
    """True for a value that some assignment, here or at a call, makes by a constructor of sparse tensors."""
    ways = context.trace(operand, moves, lambda made: made.is_a("sparse"))
    return any(one.is_a("sparse") for one in ways.ends) or any(_is_old_maker(context, one.node) for one in ways.open)


def _is_old_maker(context: Context, node: cst.BaseExpression) -> bool:
    """True for `torch.sparse.FloatTensor(indices, values, shape)`."""
    dotted = context.facts.names.dotted(node.func) or "" if isinstance(node, cst.Call) else ""
    return dotted.startswith("torch.sparse.") and dotted.endswith("Tensor")
