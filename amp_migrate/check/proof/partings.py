"""All places where two functions part: behind a difference both sides go on where they are the same again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.check.proof.compare import Comparison, Parting
from amp_migrate.check.proof.normal import is_pure

_BLOCKS = ("body", "orelse", "finalbody")


def partings(comparison: Comparison, before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Iterator[Parting]:
    """Each difference between two blocks, once. Of statements that hold blocks, the differences in those."""
    first, second = list(before), list(after)
    while (parting := comparison.advance(first, second)) is not None:
        if parting.before is not None and parting.after is not None and _same_head(comparison, first[0], second[0]):
            one, other = first.pop(0), second.pop(0)
            for field in _BLOCKS:
                yield from partings(comparison, getattr(one, field, []), getattr(other, field, []))
            continue
        lost, new = _until_same(comparison, first, second)
        lines = next(iter(first[:lost]), None), next(iter(second[:new]), None)
        yield Parting(*lines, tuple(first[:lost]), tuple(second[:new]))
        del first[:lost], second[:new]


def _same_head(comparison: Comparison, one: ast.stmt, other: ast.stmt) -> bool:
    """True for two statements of one kind that are the same but for their blocks."""
    if type(one) is not type(other) or not hasattr(one, "body"):
        return False
    heads = [field for field in one._fields if field not in (*_BLOCKS, "type_comment")]
    return all(comparison.same(getattr(one, field, None), getattr(other, field, None)) for field in heads)


def _until_same(comparison: Comparison, first: list[ast.stmt], second: list[ast.stmt]) -> tuple[int, int]:
    """How many statements of each side come before the next that are the same, or have blocks with differences only."""
    for total in range(1, len(first) + len(second)):
        for lost in range(max(0, total - len(second) + 1), min(total, len(first) - 1) + 1):
            one, other = first[lost], second[total - lost]
            if comparison.stmt(one, other) is None or _same_head(comparison, one, other):
                return lost, total - lost
    return len(first), len(second)


def is_new_class(parting: Parting) -> bool:
    """True for classes that the output has besides: they do nothing by themselves."""
    return not parting.lost and bool(parting.new) and all(isinstance(one, ast.ClassDef) for one in parting.new)


def uncompared(parting: Parting, others: Sequence[Parting]) -> str | None:
    """Why one of the differences of a function need not be one; None where it is."""
    calls = [call for one in others for call in _helpers(one, others)]
    own = _helpers(parting, others) or (calls if _is_step(parting) else [])
    if own:
        return f"the step goes through `{own[0]}`, which was not compared with the original's"
    if parting.lost and not parting.new and all(map(_puts_back, parting.lost)):
        return "a loop that puts back what it takes is gone; who reads its variables behind it was not compared"
    return None


def single(parting: Parting) -> Iterator[Parting]:
    """The statements of a difference one by one: those of both sides together that give one name a value, or call one
    function.
    """
    new = list(parting.new)
    for one in parting.lost:
        other = next((each for each in new if _about(each) == _about(one)), None)
        if other is not None:
            new.remove(other)
        yield Parting(one, other, (one,), (other,) if other is not None else ())
    yield from (Parting(None, one, (), (one,)) for one in new)
    if not parting.lost and not parting.new:
        yield parting


def _about(node: ast.stmt) -> str:
    """What a statement gives a value, or calls; of others their kind."""
    if isinstance(node, ast.Assign):
        return ", ".join(map(ast.unparse, node.targets))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return f"{ast.unparse(node.value.func)}()"
    return type(node).__name__


def changed_calls(parting: Parting) -> Iterator[Parting]:
    """The statements of a difference, in whatever block, that call one function with other arguments on both sides."""
    lost, new = (list(map(_call_statements, side)) for side in (parting.lost, parting.new))
    old = [one for found in lost for one in found]
    for one in (one for found in new for one in found):
        same = [each for each in old if _about(each) == _about(one)]
        if same and all(ast.unparse(each) != ast.unparse(one) for each in same):
            yield Parting(same[0], one, (same[0],), (one,))


def _call_statements(node: ast.stmt) -> list[ast.stmt]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]


def _puts_back(node: ast.stmt) -> bool:
    """True for a loop of `optimizer = optimizers[i]` and `optimizers[i] = optimizer`."""
    if not isinstance(node, ast.For) or node.orelse or not is_pure(node.iter):
        return False
    taken: dict[str, str] = {}
    for one in node.body:
        if not isinstance(one, ast.Assign) or len(one.targets) != 1:
            return False
        target, value = ast.unparse(one.targets[0]), ast.unparse(one.value)
        if isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Subscript):
            taken[target] = value
        elif taken.get(value) != target:
            return False
    return True


def _helpers(parting: Parting, others: Sequence[Parting]) -> list[str]:
    """What the output gives an optimizer to that steps by itself in the original: `loss_scaler(loss, optimizer)`, which
    may make a whole step of the training.
    """
    calls = [call for one in others for call in _calls(one.lost)]
    stepped = {ast.unparse(_unmarked(one.func.value)) for one in calls if _is_method(one, "step")}  # type: ignore[attr-defined]
    old = {ast.unparse(one.func) for one in calls}
    found = []
    for one in _calls(parting.new):
        given = {ast.unparse(arg) for arg in [*one.args, *(each.value for each in one.keywords)]}
        func = ast.unparse(one.func)
        if given & stepped and func not in old and not func.startswith("<"):
            found.append(func)
    return found


def _is_step(parting: Parting) -> bool:
    """True where only a backward, a clip or a step is gone."""
    calls = [[*_calls([one])] for one in parting.lost]
    return bool(calls) and not parting.new and all(any(map(_is_of_step, one)) for one in calls)


def _is_of_step(node: ast.Call) -> bool:
    return _is_method(node, "backward", "step") or "clip_grad" in ast.unparse(node.func)


def _calls(statements: Sequence[ast.stmt]) -> list[ast.Call]:
    return [one for stmt in statements for one in ast.walk(stmt) if isinstance(one, ast.Call)]


def _is_method(node: ast.Call, *names: str) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in names


def _unmarked(node: ast.expr) -> ast.expr:
    """What a scaler steps or scales, of `<by the scaler>(optimizer)`."""
    is_marked = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("<")
    return node.args[0] if is_marked and node.args else node  # type: ignore[attr-defined]
