"""Products of sparse matrices, which CUDA has no kernels for in half ("addmm_sparse_cuda" not implemented for 'Half').

All of them end in products that autocast casts, `torch.sparse.mm` as well ([run]): the dense operand has to be float32,
outside of autocast.

    h = torch.spmm(adj, support)    =>    with autocast(enabled=False):
                                              h = torch.spmm(adj, support.float())
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, is_single_alone
from amp_migrate.rules.safety import LINEAR_ALGEBRA

_SPARSE_PRODUCTS = {"torch.spmm": 2, "torch.smm": 2, "torch.hspmm": 2, "torch.sparse.mm": 2, "torch.sparse.addmm": 3}
_MADE_SPARSE = frozenset("sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor to_sparse to_sparse_csr".split())
_STILL_SPARSE = frozenset("cuda cpu to coalesce float t transpose detach requires_grad_".split())


def isolate_sparse_products(context: Context) -> None:
    """An island without autocast for each product of a sparse matrix. Raises Refusal."""
    for statement in context.reach.statements:
        for part in context.facts.tree.expressions(statement):
            operands = _operands(context, part) if isinstance(part, cst.BaseExpression) else []
            if operands and statement not in context.safety.islands:
                assert isinstance(part, cst.BaseExpression)
                if not context.can_be_island(statement, part):
                    text = context.facts.text(part)
                    raise Refusal(
                        LINEAR_ALGEBRA, part, f"{text} multiplies a sparse matrix, beside what needs autocast"
                    )
                for operand in operands:
                    if not _stays_as_it_is(context, operand):
                        context.safety.keep_float32(operand)
                context.safety.isolate(statement)


def _operands(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a product of a sparse matrix takes; nothing for other expressions."""
    if isinstance(node, cst.Call):
        count = _SPARSE_PRODUCTS.get(context.facts.names.dotted(node.func) or "")
        if count is not None:
            return [arg.value for arg in node.args if not arg.star][:count]
    pair = factors(context.facts, node)
    return pair if any(_is_sparse(context, one) for one in pair) else []


def _stays_as_it_is(context: Context, operand: cst.BaseExpression) -> bool:
    """True for what is float32 already. Of the two, the first is the sparse one: what a forward is given in it comes
    from no product, what it builds itself may hold half values.
    """
    kind = context.precisions.of(operand)
    if kind in (Precision.SINGLE, Precision.HALF):
        return is_single_alone(context, operand)
    if isinstance(operand, cst.Name) and context.precisions.value_before(operand) is not None:
        return kind is Precision.UNKNOWN
    parent = context.facts.tree.parents.get(operand)
    call = context.facts.tree.parents.get(parent) if isinstance(parent, cst.Arg) else None
    is_first = isinstance(call, cst.Call) and call.args[0] is parent
    return is_first or _is_sparse(context, operand)


def _is_sparse(context: Context, node: cst.BaseExpression) -> bool:
    """True for a value that some assignment, here or at a call, makes by a constructor of sparse tensors."""
    return any(_is_made_sparse(context, one) for one in each_once([node], partial(_values, context)))


def _is_made_sparse(context: Context, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call):
        return False
    dotted = context.facts.names.dotted(node.func) or ""
    name = called_name(node)
    return name in _MADE_SPARSE or (dotted.startswith("torch.sparse.") and name.endswith("Tensor"))


def _values(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a value may be that is sparse if this is."""
    if isinstance(node, cst.Call):
        if called_name(node) in _STILL_SPARSE and isinstance(node.func, cst.Attribute):
            return [node.func.value]
        function = context.facts.objects.called_function(node)
        return context.facts.objects.returned_by(function) if function is not None else []
    return context.facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else []
