"""Whether code of other files may raise where tensors of two types meet: half beside float32, under autocast.

Slices and single positions are copied, and cast on the way; masks and tensors of indices want equal dtypes.
"""

from __future__ import annotations

import ast

from amp_migrate.files.bindings import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import product_in_place, writes


def multiplies_in_place(code: ast.AST) -> bool:
    """True for code with a product in place."""
    return any(isinstance(node, ast.Call) and called_name(node) in names(product_in_place) for node in ast.walk(code))


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
