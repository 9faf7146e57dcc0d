"""No half weights beside a GradScaler: what an optimizer updates is cast to half on no path (rules G2 and M)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.check.proof.erase import HALF_TYPES
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Scope
from amp_migrate.check.proof.result import Breach
from amp_migrate.check.proof.side import Side
from amp_migrate.files.syntax import names_in
from amp_migrate.models import names
from amp_migrate.models.queries import takes_dtype
from amp_migrate.models.traits import named

_OF_SCALER = ("scale", "step", "unscale_")
_DEFAULTS = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_MESSAGE = "half weights beside a GradScaler, which cannot unscale their gradients"


def half_weights(output: Side, original: Side) -> Iterator[Breach]:
    """Casts to half of what is trained beside a scaler, before a later step, but for those that were there before."""
    had = {(file, name, text) for file, name, (_, text) in _half_weights(original)}
    for file, name, place in _half_weights(output):
        if (file, name, place[1]) not in had:
            yield Breach("half weights", file, name, None, place, _MESSAGE)


def _half_weights(side: Side) -> Iterator[tuple[str, str, tuple[int, str]]]:
    """The file, the function and the line of each such cast."""
    if side.scalers.is_empty:
        return
    search = _Search(side)
    for file in side.flow.files:
        for scope, node in file.calls:
            if search.casts(scope, node) and search.trains_after(scope, node):
                yield file.path, scope.name, _line(scope, node)


def _line(scope: Scope, node: ast.Call) -> tuple[int, str]:
    return node.lineno, scope.file.lines[node.lineno - 1].strip()


class _Search:
    def __init__(self, side: Side) -> None:
        self.side = side
        self.flow = side.flow
        assigned = (one for file in self.flow.files for one in file.assigned)
        self.made = {_root(value) for scope, target, value in assigned if self.side.trained.holds(scope, target)}
        self.trains = {
            scope.function for file in self.flow.files for scope, one in file.calls if self._is_step(scope, one)
        }
        waiting = list(self.trains)
        while waiting:
            new = {at.function for at, _ in self.flow.callers.get(waiting.pop(), ())} - self.trains
            self.trains |= new
            waiting += new

    def casts(self, scope: Scope, node: ast.Call) -> bool:
        """True for a call that makes weights half which are trained."""
        func = node.func
        if (scope.file.dotted(func) or "") in _DEFAULTS:
            return any(_is_half(scope, one) for one in node.args)
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr == "apply" and len(node.args) == 1:
            return self._is_trained(scope, func.value) and any(
                self._halves(one) for one in self.flow.meant(scope, node.args[0])
            )
        given = [*node.args, *(one.value for one in node.keywords)]
        is_cast = (func.attr == "half" and not given) or (
            func.attr in names(takes_dtype) and any(_is_half(scope, one) for one in given)
        )
        return is_cast and self._is_trained(scope, func.value)

    def _is_trained(self, scope: Scope, node: ast.expr) -> bool:
        root = _root(node)
        return root in self.made or self.side.trained.holds(scope, root)

    def _halves(self, function: Scope) -> bool:
        """True for a function that casts what it is given."""
        names = set(function.bound)
        calls = (one for at, one in function.file.calls if at is function and isinstance(one.func, ast.Attribute))
        return any(
            one.func.attr == "half" and ast.unparse(one.func.value).partition(".")[0] in names  # type: ignore[attr-defined]
            for one in calls
        )

    def trains_after(self, scope: Scope, node: ast.Call, seen: frozenset[Scope] = frozenset()) -> bool:
        """True where a step may follow a call: below it, around it in a loop, or behind what calls its function. What
        is cast back below it does not count.
        """
        function = scope.function
        receiver = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        is_made_anew = False  # in each round
        for statements, index, in_loop in _path(function.body, node):
            made = [at for at, one in enumerate(statements[:index]) if _makes(one, receiver)]
            is_made_anew |= bool(made)
            again = statements[: made[-1] if made else index + (not is_made_anew)] if in_loop else []
            after = [*statements[index + 1 :], *again]
            if not in_loop and any(ast.unparse(one).startswith(f"{receiver}.float()") for one in after):
                return False
            around = _calls_of_result(statements[index], node)  # `Trainer(model).train()`
            if any(self._steps(function, one) for one in [*after, *around]):
                return True
        if function in seen or not function.name:
            return False
        if function.name.endswith(".__init__") and any(one.owner is function.owner for one in self.trains - {function}):
            return True  # an object is made to be used, whoever makes it
        return any(self.trains_after(at, one, seen | {function}) for at, one in self.flow.callers.get(function, ()))

    def _steps(self, function: Scope, statement: ast.AST) -> bool:
        for part in walk(statement):
            if isinstance(part, ast.Call):
                scope = function.file.scope_of.get(
                    next((n for n in ast.walk(part.func) if isinstance(n, ast.Name)), part), function
                )
                if self._is_step(scope, part) or any(one in self.trains for one in self.flow.callees(scope, part)):
                    return True
        return False

    def _is_step(self, scope: Scope, node: ast.Call) -> bool:
        """True for what a scaler does to the gradients, or is about to do."""
        func = node.func
        return (
            isinstance(func, ast.Attribute) and func.attr in _OF_SCALER and self.side.scalers.holds(scope, func.value)
        )


def _root(node: ast.expr) -> ast.expr:
    """What a chain of `.cuda()`, `.to(device)` and the like begins with."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in named("module"):
        node = node.func.value
    return node


def _path(body: list[ast.stmt], node: ast.AST, in_loop: bool = False) -> Iterator[tuple[list[ast.stmt], int, bool]]:
    """The blocks around a node, innermost first, each with the place in it, and whether it is the body of a loop."""
    for index, one in enumerate(body):
        if node is one or any(part is node for part in walk(one)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(one, field, None)
                if isinstance(inner, list) and not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    blocks = [each.body for each in inner] if field == "handlers" else [inner]
                    for block in blocks:
                        yield from _path(block, node, field == "body" and isinstance(one, (ast.For, ast.While)))
            yield body, index, in_loop


def _makes(statement: ast.stmt, name: str) -> bool:
    """True for `model = Net()`, which has nothing to do with what had the name before."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    return [ast.unparse(one) for one in statement.targets] == [name] and name not in names_in(statement.value)


def _calls_of_result(statement: ast.stmt, node: ast.Call) -> list[ast.Call]:
    """The calls of a simple statement that are made of what a call in it returns."""
    if getattr(statement, "body", None):
        return []
    calls = (part for part in walk(statement) if isinstance(part, ast.Call))
    return [one for one in calls if any(part is node for part in walk(one.func))]


def _is_half(scope: Scope, node: ast.expr) -> bool:
    return scope.file.dotted(node) in HALF_TYPES
