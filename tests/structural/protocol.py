"""Mistakes with autocast and GradScaler, and what is left of Apex."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structural.kinds import Change, kind
from tests.structural.roles import role
from tests.structural.syntax import LOOPS, Source, changed, is_docstring, method_call, negation, statement, without


def _scaled(source: Source) -> Iterator[ast.Call]:
    """`scaler.scale(loss)`, where that does something."""
    for node in source.every(ast.Call) if source.has_scaler else ():
        call = method_call(node, "scale")
        if call is not None and len(call.args) == 1 and source.is_scaler(call.func.value):  # type: ignore[attr-defined]
            yield call


def _statements(source: Source, *roles: str) -> Iterator[ast.Expr]:
    return (node for node in source.every(ast.Expr) if source.has_scaler and role(source, node) in roles)


@kind
def enabled_dropped(source: Source) -> Iterator[Change]:
    """Not where training was in float32 before: `enabled` says whether a GPU is used, and without one autocast and
    GradScaler for it do nothing by themselves.
    """
    for node, at in _enabled(source) if not source.is_plain else ():
        yield Change(node, {node: changed(node, keywords=without(node.keywords, at))})


@kind
def enabled_negated(source: Source) -> Iterator[Change]:
    for node, at in _enabled(source):
        value = node.keywords[at].value
        yield Change(node, {value: negation(value)})


def _enabled(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """The switches; an island in float32 and a scaler that is off are precision."""
    for node in source.every(ast.Call):
        if source.makes(node, "autocast") or source.makes(node, "GradScaler"):
            for at, one in enumerate(node.keywords):
                if one.arg == "enabled" and not isinstance(one.value, ast.Constant):
                    yield node, at


@kind
def scale_dropped(source: Source) -> Iterator[Change]:
    return (Change(call, {call: call.args[0]}) for call in _scaled(source))


@kind
def scaled_twice(source: Source) -> Iterator[Change]:
    return (Change(call, {call.args[0]: call}) for call in _scaled(source))


@kind
def bare_step(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Call) if source.has_scaler else ():
        call = method_call(node, "step")
        if call is not None and call.args and source.is_scaler(call.func.value):  # type: ignore[attr-defined]
            func = ast.Attribute(call.args[0], "step", ast.Load())
            yield Change(call, {call: changed(call, func=func, args=call.args[1:])})


@kind
def step_of_another_optimizer(source: Source) -> Iterator[Change]:
    return _with_another_optimizer(source, "step")


@kind
def unscale_of_another_optimizer(source: Source) -> Iterator[Change]:
    return _with_another_optimizer(source, "unscale_")


def _with_another_optimizer(source: Source, name: str) -> Iterator[Change]:
    """`scaler.step(b)` for `scaler.step(a)`, in a function where both are stepped."""
    for node in _statements(source, name):
        function = source.function_of(node)
        steps = [one for one in _statements(source, "step") if source.function_of(one) is function]
        own = node.value.args[0]  # type: ignore[attr-defined]
        others = {ast.unparse(one.value.args[0]): one.value.args[0] for one in steps}  # type: ignore[attr-defined]
        for text, other in sorted(others.items()):
            if text != ast.unparse(own):
                yield Change(node, {own: other})


@kind
def unscale_behind_the_clip(source: Source) -> Iterator[Change]:
    for node in _statements(source, "unscale_"):
        for one in source.following(node)[:2]:
            if isinstance(one, ast.Expr) and role(source, one) == "clip":
                yield Change(node, {node: [], one: [one, node]})


@kind
def unscale_in_every_round(source: Source) -> Iterator[Change]:
    """`unscale_` before the `if` of an accumulation."""
    for node in _statements(source, "unscale_"):
        outer = source.parents[node]
        asks = isinstance(outer, ast.If) and "%" in ast.unparse(outer.test) and outer.body[0] is node
        if asks and any(isinstance(one, LOOPS) for one in source.around(outer)):
            body = outer.body[1:] or [ast.Pass()]
            yield Change(node, {outer: [node, changed(outer, body=body)]})


@kind
def update_per_optimizer(source: Source) -> Iterator[Change]:
    """Behind the first of several steps as well."""
    for node in _statements(source, "step"):
        following = source.following(node)
        if following and isinstance(following[0], ast.Expr) and role(source, following[0]) == "step":
            scaler = node.value.func.value  # type: ignore[attr-defined]
            yield Change(node, {node: [node, statement(f"{ast.unparse(scaler)}.update()")]})


@kind
def backward_in_the_region(source: Source) -> Iterator[Change]:
    for node in source.every(ast.With):
        following = source.following(node)[:1]
        is_region = any(source.makes(one.context_expr, "autocast") for one in node.items)
        if is_region and following and isinstance(following[0], ast.Expr):
            one = following[0]
            if role(source, one) == "backward" and any(call in ast.walk(one) for call in _scaled(source)):
                yield Change(one, {node: changed(node, body=[*node.body, one]), one: []})


@kind
def scaler_made_in_the_loop(source: Source) -> Iterator[Change]:
    """Once more in the first loop behind it that uses it."""
    for node in source.every(ast.Assign):
        if source.makes(node.value, "GradScaler") and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            for loop in source.following(node):
                if isinstance(loop, LOOPS) and f"{name}.step(" in ast.unparse(loop) and _is_made_before(source, loop):
                    yield Change(node, {loop: changed(loop, body=[node, *loop.body])})
                    break


def _is_made_before(source: Source, loop: ast.stmt) -> bool:
    """False for a loop that makes its own optimizer in every round."""
    return "parameters()" not in "".join(ast.unparse(one) for one in ast.walk(loop) if isinstance(one, ast.Assign))


@kind
def state_of_scaler_lost(source: Source) -> Iterator[Change]:
    """None in a checkpoint, in place of it."""
    for node in source.every(ast.Call):
        call = method_call(node, "state_dict")
        if call is not None and source.is_scaler(call.func.value):  # type: ignore[attr-defined]
            yield Change(call, {call: ast.Constant(None)})


# -- what is left of Apex -------------------------------------------------------------------------------


def _at_the_top(source: Source, *new: ast.stmt) -> Iterator[Change]:
    """Statements before the first one that is no docstring and no `from __future__`."""
    for node in source.tree.body:
        if not is_docstring(node) and getattr(node, "module", "") != "__future__":
            yield Change(node, {node: [*new, node]})
            return


@kind
def import_of_apex_left_in(source: Source) -> Iterator[Change]:
    if "apex" in source.original and "apex" not in source.text:
        yield from _at_the_top(source, statement("from apex import amp"))


@kind
def error_without_apex_left_in(source: Source) -> Iterator[Change]:
    if "apex" in source.original and "apex" not in source.text:
        raised = "raise ImportError('Please install apex from https://www.github.com/nvidia/apex')"
        yield from _at_the_top(source, statement(f"try:\n    from apex import amp\nexcept ImportError:\n    {raised}"))


@kind
def assertion_of_apex_left_in(source: Source) -> Iterator[Change]:
    if "apex" in source.original and "apex" not in source.text:
        tried = statement("try:\n    from apex import amp\nexcept ImportError:\n    amp = None")
        yield from _at_the_top(source, tried, statement("assert amp is not None, 'apex is required'"))


@kind
def half_left_in(source: Source) -> Iterator[Change]:
    """The model of an optimizer in half, before the optimizer is made."""
    for node in source.every(ast.Assign) if source.has_scaler else ():
        call = node.value
        if isinstance(call, ast.Call) and source.dotted(call.func).rpartition(".")[0].endswith("optim") and call.args:
            given = method_call(call.args[0], "parameters")
            if given is not None:
                model = ast.unparse(given.func.value)  # type: ignore[attr-defined]
                yield Change(node, {node: [statement(f"{model}.half()"), node]})
