"""Whether a function of a file makes half of what it is given, and does nothing else."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping

from amp_migrate.files.bindings import called_name
from amp_migrate.files.syntax import tree_of
from amp_migrate.models import names
from amp_migrate.models.dtype_names import dtype_named
from amp_migrate.models.queries import copies, takes_dtype

# Questions, and what puts values into containers and takes them out.
_CARRIES = frozenset(
    "isinstance issubclass hasattr is_tensor is_floating_point tuple list dict map zip enumerate items append".split()
)
_COMPUTES = (ast.BinOp, ast.AugAssign, ast.Slice, ast.USub)
_ASKS = (ast.If, ast.IfExp, ast.For, ast.comprehension, ast.Tuple, ast.List, ast.Dict, ast.BoolOp, ast.Try)
_ATTRIBUTES = _CARRIES | frozenset("data dtype Tensor cuda autograd nn Parameter".split())

_Functions = Mapping[str, ast.FunctionDef]


class Casting(enum.Enum):
    """What a function makes half of."""

    FLOATS = "what it finds to be of a type that can be cast, or may have looked for in a container"
    WHATEVER = "all that it is given: `return value.half()`, which integers become, too"


def casting_of(name: str, source: str) -> Casting | None:
    """What a function at the top of a file casts to half, itself or by others there; None where it does anything
    else.
    """
    if "half" not in source and "float16" not in source:
        return None
    functions = {one.name: one for one in tree_of(source).body if isinstance(one, ast.FunctionDef)}
    if name not in functions or not _makes_half(functions[name]) or not _only_carries(functions, name, set()):
        return None
    asks = any(isinstance(node, _ASKS) for node in ast.walk(functions[name]))
    return Casting.FLOATS if asks else Casting.WHATEVER


def _makes_half(function: ast.FunctionDef) -> bool:
    """True for `x.half()` and `x.to(torch.float16)`, and nothing like `x.float()`."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(map(_casts, calls)) and not any(called_name(call) == "float" for call in calls)


def _casts(call: ast.Call) -> bool:
    """HalfTensor is the name of a device as well."""
    if not isinstance(call.func, ast.Attribute):
        return False
    types = [*call.args, *(one.value for one in call.keywords)]
    to_half = len(types) == 1 and isinstance(types[0], ast.Attribute) and types[0].attr in ("half", "float16")
    return to_half if call.func.attr in names(takes_dtype) else call.func.attr == "half" and not types


def _only_carries(functions: _Functions, name: str, seen: set[str]) -> bool:
    """True where nothing is computed: values are asked for their types, cast, and put back where they were."""
    if name in seen:
        return True
    seen.add(name)
    nodes = list(ast.walk(functions[name]))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if not _is_of_types(node.attr):
                return False
        elif isinstance(node, _COMPUTES) or _leaves_out(node):
            return False
        elif isinstance(node, ast.Call):
            called = called_name(node)
            is_there = called in functions and _only_carries(functions, called, seen)
            if called not in _CARRIES | own and not is_there and not _casts(node) and not _is_of_type(node):
                return False
    return True


def _is_of_types(name: str) -> bool:
    return name in _ATTRIBUTES or name in names(copies) or dtype_named(f"torch.{name}") is not None


def _leaves_out(node: ast.AST) -> bool:
    """True for `batch["image"]`, `image, label = batch` and a comprehension with a condition: there may be more in what
    is given than in what is returned.
    """
    if isinstance(node, ast.comprehension):
        return bool(node.ifs)
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], (ast.Name, ast.Subscript))
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


def _is_of_type(call: ast.Call) -> bool:
    """`type(value)`, and with it a container of the same kind, `type(value)(...)`."""
    made = call.func if isinstance(call.func, ast.Call) else call
    return isinstance(made.func, ast.Name) and made.func.id == "type"
