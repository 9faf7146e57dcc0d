"""Whether chance decides in a forward which layers run.

if torch.rand(1) < self.p: x = self.layer(x)        one arm has a layer that the other has not
if random.random() < self.p: return x               the rest of the block is the other arm
for layer in self.layers:                           layers of a list
    if np.random.rand() > self.p: x = layer(x)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from amp_migrate.files.syntax import names_in
from amp_migrate.models import function

_Resolve = Callable[[ast.AST], str | None]

_DRAWING = ("random.", "numpy.random.")  # modules of functions that draw
_JUMPS = (ast.Return, ast.Continue, ast.Break)


class Layers:
    """The layers that code runs, by the methods of a class and the attributes that hold layers with parameters."""

    def __init__(self, methods: Mapping[str, list[tuple[Path, ast.FunctionDef]]], held: set[str]) -> None:
        self._methods = methods
        self._held = held

    def of_lists(self, function: ast.AST) -> set[str]:
        """The variables of loops over layers."""
        loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
        return {name for loop in loops if self._attributes(loop.iter) & self._held for name in names_in(loop.target)}

    def run(self, code: Iterable[ast.AST], listed: set[str], seen: frozenset[str] = frozenset()) -> set[str]:
        """What some code calls of them, in the methods that it calls as well."""
        found = set[str]()
        for call in (node for one in code for node in ast.walk(one) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in listed:
                found.add(call.func.id)
            for name in self._attributes(call.func):
                if name in self._methods and name not in seen:
                    inner = [one for _, one in self._methods[name]]
                    found |= self.run(inner, listed.union(*map(self.of_lists, inner)), seen | {name})
                elif name in self._held:
                    found.add(ast.unparse(call.func))
        return found

    @staticmethod
    def _attributes(node: ast.AST) -> set[str]:
        """The attributes of the object itself."""
        attributes = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
        return {one.attr for one in attributes if isinstance(one.value, ast.Name) and one.value.id == "self"}


def skips_at_random(function: ast.FunctionDef, resolve: _Resolve, layers: Layers) -> bool:
    """True where a test of what is drawn has layers on one side that are not on the other."""
    drawn = _drawn(function, resolve)
    listed = layers.of_lists(function)
    return any(
        layers.run(one, listed) != layers.run(other, listed)
        for test, one, other in _choices(function)
        if names_in(test) & drawn or _draws(test, resolve)
    )


def _drawn(function: ast.AST, resolve: _Resolve) -> set[str]:
    """The variables that hold what was drawn."""
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and _draws(node.value, resolve)]
    return {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}


def _draws(node: ast.AST, resolve: _Resolve) -> bool:
    return any(_is_drawing(resolve(part.func) or "") for part in ast.walk(node) if isinstance(part, ast.Call))


def _is_drawing(name: str) -> bool:
    row = function(name)
    return name.startswith(_DRAWING) or (row is not None and row.is_a("chance"))


def _choices(function: ast.AST) -> Iterator[tuple[ast.expr, Sequence[ast.AST], Sequence[ast.AST]]]:
    """The tests in a function, each with what runs by either answer."""
    for node in ast.walk(function):
        if isinstance(node, ast.IfExp):
            yield node.test, [node.body], [node.orelse]
        blocks = [getattr(node, field, None) for field in ("body", "orelse", "finalbody")]
        for block in (one for one in blocks if isinstance(one, list)):
            for index, one in enumerate(block):
                if isinstance(one, ast.If):
                    rest = block[index + 1 :] if isinstance(one.body[-1], _JUMPS) else []
                    yield one.test, one.body, [*one.orelse, *rest]
