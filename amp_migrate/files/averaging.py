"""Code that averages gradients over processes, and does nothing else with them.

    for param in model.parameters():
        dist.all_reduce(param.grad.data)
        param.grad.data /= dist.get_world_size()

A sum of scaled gradients is a scaled sum: such code is no use of them. It has to run before they are unscaled, since
the scaler of each process looks for overflows itself: those of another process come with the sum, and all of them skip
the same steps and keep the same scale only if they look after it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import definitions_in
from amp_migrate.files.definitions import definitions
from amp_migrate.models import names
from amp_migrate.models.queries import carries, describes, scales
from amp_migrate.models.traits import named

SUMS = frozenset(
    "all_reduce all_reduce_coalesced all_reduce_multigpu allreduce allreduce_ allreduce_async_ grouped_allreduce_ "
    "flat_dist_call".split()
)
# What else such code calls: whether and how it sums, how gradients become one tensor and are put back, and Python's.
_HARMLESS = frozenset(
    "get_world_size get_rank is_initialized is_available current_stream synchronize wait barrier "
    "parameters named_parameters values items keys zip enumerate range len list dict tuple reversed sorted filter "
    "append extend setdefault split_by_type OrderedDict defaultdict isinstance hasattr getattr "
    "_flatten_dense_tensors _unflatten_dense_tensors _take_tensors copy_ no_grad print cast_to sum ceil format".split()
)
_SAYS = re.compile(r"(?:log|info|debug|warn)(?:ing|ger|_|$)")
_STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.If, ast.With, ast.Return, ast.Continue, ast.Pass,
    ast.Import, ast.ImportFrom, ast.Nonlocal, ast.Global, ast.FunctionDef, ast.Assert,
)  # fmt: skip
_SCALINGS = (ast.Div, ast.Mult, ast.FloorDiv)


def sums_over_processes(code: ast.AST) -> bool:
    """True where something is summed over processes."""
    return any(called_name(node) in SUMS for node in ast.walk(code) if isinstance(node, ast.Call))


def averages_gradients(resolved: str) -> bool:
    """True where a function is found, and averages gradients over processes and does nothing else with them."""
    found = list(definitions(resolved))
    return bool(found) and all(only_averages(one, definitions_in(file)) for file, one in found)


def only_averages(code: ast.AST, functions: Mapping[str, ast.AST]) -> bool:
    """True for code that sums gradients over processes, and is linear in them; `functions` are those it may call."""
    summing = [name for name, one in functions.items() if one is not code and sums_over_processes(one)]
    calls = [node for node in ast.walk(code) if isinstance(node, ast.Call)]
    called = {called_name(node) for node in calls if not _only_says(node, code)}
    helpers = called & set(summing)
    inner = {node.name for node in ast.walk(code) if isinstance(node, ast.FunctionDef)}
    if not (called & SUMS or helpers) or not called <= SUMS | _harmless() | helpers | inner:
        return False
    rest = {name: one for name, one in functions.items() if one is not code}
    return _is_linear(code) and all(only_averages(rest[name], rest) for name in helpers)


def _harmless() -> frozenset[str]:
    made = named("like") - named("chance") | named("list") | named("clearing")
    return _HARMLESS | made | names(carries) | names(scales) | names(describes)


def _only_says(call: ast.Call, code: ast.AST) -> bool:
    """True for a log of how a function is called: `log_once(f"gradients are combined by {kind}")`, of `kind="sum"`."""
    if _SAYS.match(called_name(call)) is None:
        return False
    options = {
        arg.arg
        for node in ast.walk(code)
        if isinstance(node, ast.FunctionDef)
        for arg, value in zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
        if isinstance(value, ast.Constant) and value.value is not None
    }
    said = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {part.id for one in said for part in ast.walk(one) if isinstance(part, ast.Name)} <= options


def _is_linear(code: ast.AST) -> bool:
    counters = _counters(code)
    for node in ast.walk(code):
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            return False
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) not in counters:
            if not isinstance(node.op, _SCALINGS) or _speaks_of_gradients(node.value):
                return False
        if isinstance(node, ast.BinOp) and not isinstance(node.op, _SCALINGS) and _speaks_of_gradients(node):
            return False
        if isinstance(node, ast.BinOp) and _speaks_of_gradients(node.right):
            return False
        if isinstance(node, ast.Compare) and not _asks_for_none(node) and _speaks_of_gradients(node):
            return False
        if isinstance(node, ast.Return) and node.value is not None and _speaks_of_gradients(node.value):
            return False
    return True


def _counters(code: ast.AST) -> set[str]:
    """The names that begin as a number: `offset = 0`."""
    assigned = (
        node for node in ast.walk(code) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    )
    return {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}


def _speaks_of_gradients(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in ast.walk(node))


def _asks_for_none(node: ast.Compare) -> bool:
    return all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
