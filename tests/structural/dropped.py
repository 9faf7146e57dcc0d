"""Statements that are lost."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structural.dependence import is_pure, is_read
from tests.structural.kinds import Change, dropped, kind
from tests.structural.roles import is_cast, is_precision, role
from tests.structural.syntax import FUNCTIONS, Source, changed, without


def _of_role(source: Source, *roles: str) -> Iterator[Change]:
    return (dropped(node) for node in source.every(ast.Expr) if role(source, node) in roles)


@kind
def statement_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Expr, ast.Assert, ast.Global, ast.Nonlocal):
        if not isinstance(node, ast.Expr) or not (role(source, node) or is_pure(node.value) or is_cast(node)):
            yield dropped(node)


@kind
def callback_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "callback")


@kind
def clip_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "clip")


@kind
def scheduler_step_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "scheduler step")


@kind
def zero_grad_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "zero_grad")


@kind
def load_state_dict_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "load_state_dict")


@kind
def mode_dropped(source: Source) -> Iterator[Change]:
    """`model.eval()`, `model.train()`."""
    return _of_role(source, "mode")


@kind
def seed_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "seed")


@kind
def backward_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "backward")


@kind
def step_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "step", "bare step")


@kind
def unscale_dropped(source: Source) -> Iterator[Change]:
    return _of_role(source, "unscale_") if source.has_scaler else iter(())


@kind
def update_dropped(source: Source) -> Iterator[Change]:
    """Where its function has no other one: one for all optimizers of a round is as good as one for each."""
    updates = list(_of_role(source, "update")) if source.has_scaler else []
    for change in updates:
        scaler = ast.unparse(change.node.value.func.value)  # type: ignore[attr-defined]
        others = (
            one.node
            for one in updates
            if one is not change and source.function_of(one.node) is source.function_of(change.node)
        )
        if not any(ast.unparse(one.value.func.value) == scaler for one in others):  # type: ignore[attr-defined]
            yield change


@kind
def assignment_dropped(source: Source) -> Iterator[Change]:
    return _assignments(source, ast.Name, ast.Tuple, ast.List)


@kind
def attribute_dropped(source: Source) -> Iterator[Change]:
    return _assignments(source, ast.Attribute)


@kind
def item_dropped(source: Source) -> Iterator[Change]:
    """`state["epoch"] = epoch`."""
    return _assignments(source, ast.Subscript)


def _assignments(source: Source, *targets: type[ast.expr]) -> Iterator[Change]:
    """The assignments of some kinds of targets; not those of a value that nothing reads."""
    for node in source.every(ast.Assign, ast.AnnAssign):
        first = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(first, targets) and node.value is not None and not is_cast(node):
            if not is_pure(node.value) or is_read(source, node, first):
                yield dropped(node)


@kind
def augmented_assignment_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.AugAssign):
        if not is_pure(node.value) or is_read(source, node, node.target):
            yield dropped(node)


@kind
def import_dropped(source: Source) -> Iterator[Change]:
    """One of the names of an import, where something reads it and nothing else imports it."""
    bound = [_bound_by(one) for node in source.every(ast.Import, ast.ImportFrom) for one in node.names]
    for node in source.every(ast.Import, ast.ImportFrom):
        for at, one in enumerate(node.names):
            name = ast.Name(_bound_by(one), ast.Store())
            is_new = getattr(node, "module", "") != "__future__" and bound.count(name.id) == 1
            if is_new and one.name != "*" and is_read(source, node, name):
                rest = without(node.names, at)
                yield Change(node, {node: changed(node, names=rest) if rest else []})


def _bound_by(one: ast.alias) -> str:
    return one.asname or one.name.partition(".")[0]


@kind
def helper_dropped(source: Source) -> Iterator[Change]:
    return (dropped(node) for node in source.every(*FUNCTIONS) if not isinstance(source.parents[node], ast.ClassDef))


@kind
def method_dropped(source: Source) -> Iterator[Change]:
    return (dropped(node) for node in source.every(*FUNCTIONS) if isinstance(source.parents[node], ast.ClassDef))


@kind
def class_dropped(source: Source) -> Iterator[Change]:
    return map(dropped, source.every(ast.ClassDef))


@kind
def decorator_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(*FUNCTIONS, ast.ClassDef):
        for at, one in enumerate(node.decorator_list):
            if not is_precision(source, one):
                yield Change(one, {node: changed(node, decorator_list=without(node.decorator_list, at))})


@kind
def context_dropped(source: Source) -> Iterator[Change]:
    """`with torch.no_grad():`, `with open(...) as file:`."""
    for node in source.every(ast.With, ast.AsyncWith):
        for at, one in enumerate(node.items):
            if not is_precision(source, one.context_expr):
                rest = without(node.items, at)
                yield Change(node, {node: changed(node, items=rest) if rest else node.body})


@kind
def handler_dropped(source: Source) -> Iterator[Change]:
    """The `except` of a `try`."""
    for node in source.every(ast.Try):
        yield Change(node, {node: [*node.body, *node.orelse, *node.finalbody]})


@kind
def return_value_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Return):
        if node.value is not None and ast.unparse(node.value) != "None":
            yield Change(node, {node: changed(node, value=None)})


@kind
def returned_element_dropped(source: Source) -> Iterator[Change]:
    """The last of several values."""
    for node in source.every(ast.Return):
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) > 1:
            yield Change(node, {node.value: changed(node.value, elts=node.value.elts[:-1])})


@kind
def jump_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Break, ast.Continue, ast.Raise, ast.Return):
        if getattr(node, "value", None) is None and (source.following(node) or not _ends(source, node)):
            yield dropped(node)


def _ends(source: Source, node: ast.stmt) -> bool:
    """True for a `return` at the end of its function and a `continue` at the end of its loop's body: they do nothing."""
    outer = source.parents[node]
    is_own = FUNCTIONS if isinstance(node, ast.Return) else (ast.For, ast.While)
    while isinstance(outer, (ast.If, ast.With)) and not source.following(outer):
        outer = source.parents[outer]
    return isinstance(outer, is_own) and isinstance(node, (ast.Return, ast.Continue))
