"""Whether autograd functions in other files multiply matrices in a backward of their own.

Under autocast their gradients come in half, and what they saved may be float32. Apex patched the products themselves,
in a backward as well, and half weights had one type throughout; autocast ends before the backward. What a backward runs
once more, as reversible layers do to save memory, has products that the code may not show: `ctx.layer(x)`.
"""

from __future__ import annotations

import ast

from amp_migrate.files.bindings import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import in_half
from amp_migrate.vocabulary import is_forward_again


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
