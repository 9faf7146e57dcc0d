"""Calls, parameters, and values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structural.kinds import Change, kind
from tests.structural.roles import role
from tests.structural.syntax import FUNCTIONS, Source, changed, method_call, without

_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv}


def _calls(source: Source) -> Iterator[ast.Call]:
    """The calls that are not about precision."""
    return (node for node in source.every(ast.Call) if not _is_native(source, node))


def _is_native(source: Source, node: ast.Call) -> bool:
    """True for autocast, GradScaler and a scaler's update: their arguments are precision, `enabled` excepted."""
    if any(source.makes(node, name) for name in ("autocast", "GradScaler")):
        return True
    call = method_call(node, "update", "scale", "unscale_", "step")
    return call is not None and source.is_scaler(call.func.value)  # type: ignore[attr-defined]


def _in_native(source: Source, node: ast.AST) -> bool:
    outer = [node, *source.around(node)]
    return any(isinstance(one, ast.Call) and _is_native(source, one) for one in outer)


@kind
def argument_dropped(source: Source) -> Iterator[Change]:
    for node in _calls(source):
        if node.args:
            yield Change(node, {node: changed(node, args=node.args[:-1])})


@kind
def arguments_swapped(source: Source) -> Iterator[Change]:
    for node in _calls(source):
        for at, (one, other) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if ast.dump(one) != ast.dump(other):
                args = [*node.args[:at], other, one, *node.args[at + 2 :]]
                yield Change(node, {node: changed(node, args=args)})


@kind
def keyword_dropped(source: Source) -> Iterator[Change]:
    for node in _calls(source):
        for at in range(len(node.keywords)):
            yield Change(node, {node: changed(node, keywords=without(node.keywords, at))})


@kind
def keyword_renamed(source: Source) -> Iterator[Change]:
    for node in _calls(source):
        for one in node.keywords:
            if one.arg is not None:
                yield Change(node, {one: changed(one, arg=f"{one.arg}_2")})


@kind
def method_of_call_dropped(source: Source) -> Iterator[Change]:
    """`x.detach()` becomes `x`; casts to float32 are precision."""
    for node in _calls(source):
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, (ast.Name, ast.Attribute, ast.Call)):
            is_statement = isinstance(source.parents[node], ast.Expr)
            if not is_statement and not source.imports.get(ast.unparse(node.func.value).partition(".")[0]):
                if node.func.attr not in ("float", "to", "type") and not source.dotted(node.func).startswith("torch."):
                    yield Change(node, {node: node.func.value})


@kind
def parameter_dropped(source: Source) -> Iterator[Change]:
    """The last parameter of a function that reads it."""
    for node in source.every(*FUNCTIONS):
        args = node.args
        if args.args and any(isinstance(one, ast.Name) and one.id == args.args[-1].arg for one in ast.walk(node)):
            kept = changed(args, args=args.args[:-1], defaults=args.defaults[:-1])
            yield Change(node, {args: kept})


@kind
def parameters_swapped(source: Source) -> Iterator[Change]:
    """The last two parameters of a function."""
    for node in source.every(*FUNCTIONS):
        args = node.args
        if len(args.args) > 2 and not args.defaults:
            yield Change(node, {args: changed(args, args=[*args.args[:-2], args.args[-1], args.args[-2]])})


@kind
def default_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(*FUNCTIONS):
        if node.args.defaults:
            yield Change(node, {node.args: changed(node.args, defaults=node.args.defaults[1:])})


@kind
def number_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Constant):
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool) and not _in_native(source, node):
            yield Change(node, {node: ast.Constant(node.value + 1)})


@kind
def truth_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Constant):
        if isinstance(node.value, bool) and not _in_native(source, node):
            yield Change(node, {node: ast.Constant(not node.value)})


@kind
def operator_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.BinOp, ast.AugAssign):
        if type(node.op) in _OTHER and not _in_native(source, node):
            yield Change(node, {node: changed(node, op=_OTHER[type(node.op)]())})


@kind
def divisor_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.BinOp):
        if isinstance(node.op, ast.Div):
            yield Change(node, {node: node.left})


@kind
def index_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            yield Change(node, {node: changed(node, slice=ast.Constant(node.slice.value + 1))})


@kind
def key_dropped(source: Source) -> Iterator[Change]:
    """An entry of a dictionary: a checkpoint's, more often than not."""
    for node in source.every(ast.Dict):
        for at in range(len(node.keys)):
            rest = changed(node, keys=without(node.keys, at), values=without(node.values, at))
            yield Change(node.values[at], {node: rest})


@kind
def key_renamed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Dict):
        for one in node.keys:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield Change(one, {one: ast.Constant(f"{one.value}_2")})


@kind
def read_key_renamed(source: Source) -> Iterator[Change]:
    """The key in `checkpoint["model"]`."""
    for node in source.every(ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            yield Change(node, {node.slice: ast.Constant(f"{node.slice.value}_2")})


@kind
def clip_bound_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Expr):
        if role(source, node) == "clip" and len(node.value.args) > 1:
            bound = node.value.args[1]
            yield Change(node, {bound: ast.BinOp(bound, ast.Mult(), ast.Constant(2))})


@kind
def mode_exchanged(source: Source) -> Iterator[Change]:
    """`eval()` for `train()`, and the reverse."""
    for node in source.every(ast.Expr):
        call = method_call(node, "eval", "train")
        if call is not None and not call.args:
            func = call.func
            other = "train" if func.attr == "eval" else "eval"  # type: ignore[attr-defined]
            yield Change(node, {func: changed(func, attr=other)})


@kind
def base_class_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.ClassDef):
        if node.bases:
            yield Change(node, {node: changed(node, bases=node.bases[1:])})
