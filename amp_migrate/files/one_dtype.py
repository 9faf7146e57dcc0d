"""What code of other files does where tensors of two types meet: half beside float32, under autocast.

Slices and single positions are copied, and cast on the way; masks and tensors of indices want equal dtypes. Products
of what was cast to float32 by hand were float32 under half weights, and autocast casts again.
"""

from __future__ import annotations

import ast

from amp_migrate.files.bindings import called_name
from amp_migrate.models import names
from amp_migrate.models.dtype_names import dtype_named
from amp_migrate.models.dtypes import Dtype
from amp_migrate.models.queries import in_half, is_product, product_in_place, takes_dtype, to_float32, writes
from amp_migrate.vocabulary import is_forward_again


def multiplies_in_place(code: ast.AST) -> bool:
    """True for code with a product in place."""
    return any(isinstance(node, ast.Call) and called_name(node) in names(product_in_place) for node in ast.walk(code))


def multiplies(code: ast.AST) -> bool:
    """True for code with a product of tensors that autocast runs in half; a layer has weights of its own."""
    return any(
        isinstance(node, ast.MatMult) or (isinstance(node, ast.Call) and called_name(node) in names(is_product))
        for node in ast.walk(code)
    )


def casts_to_float32(code: ast.AST) -> bool:
    """True for code with `x.float()` or `x.to(torch.float32)`."""
    calls = (node for node in ast.walk(code) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return any(
        called_name(call) in names(to_float32)
        or (called_name(call) in names(takes_dtype) and any(map(_is_float32, call.args)))
        for call in calls
    )


def _is_float32(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and dtype_named(f"torch.{node.attr}") is Dtype.SINGLE


def wants_one_dtype(code: ast.AST) -> bool:
    """True for code with a write by what may be a mask or a tensor of indices, or with a product in place."""
    return any(_wants_one(node) for node in ast.walk(code))


def _wants_one(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return called_name(node) in names(writes) | names(product_in_place)
    return isinstance(node, ast.Assign) and _writes_by_index(node)


def _writes_by_index(assignment: ast.Assign) -> bool:
    """True for `features[masked] = token`; a number is written into a tensor of any type."""
    targets = [target for target in assignment.targets if isinstance(target, ast.Subscript)]
    return not isinstance(assignment.value, ast.Constant) and any(map(_is_by_tensor, targets))


def _is_by_tensor(target: ast.Subscript) -> bool:
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return not all(isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)) for index in indices)


# Whether autograd functions in other files multiply matrices in a backward of their own.
#
# Under autocast their gradients come in half, and what they saved may be float32. Apex patched the products themselves,
# in a backward as well, and half weights had one type throughout; autocast ends before the backward. What a backward
# runs once more, as reversible layers do to save memory, has products that the code may not show: `ctx.layer(x)`.


def multiplies_in_backward(code: ast.AST) -> bool:
    """True for an autograd function whose backward has a product that autocast would run in half, or runs a forward."""
    if not isinstance(code, ast.ClassDef) or not any(ast.unparse(base).endswith("Function") for base in code.bases):
        return False
    backwards = (one for one in code.body if isinstance(one, ast.FunctionDef) and one.name == "backward")
    return any(_multiplies(one) and not _is_cast(one) for one in backwards)


def _multiplies(function: ast.FunctionDef) -> bool:
    parts = list(ast.walk(function))
    called = {called_name(node) for node in parts if isinstance(node, ast.Call)}
    return (
        is_forward_again(called)
        or bool(called & names(in_half))
        or any(isinstance(node, ast.MatMult) for node in parts)
    )


def _is_cast(function: ast.FunctionDef) -> bool:
    """True where a decorator already sees to the types."""
    return any("custom_bwd" in ast.unparse(one) or "_function" in ast.unparse(one) for one in function.decorator_list)
