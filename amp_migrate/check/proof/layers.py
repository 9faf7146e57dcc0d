"""Classes of a model that leave parameters of their own without a gradient, in some iterations or in all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice

from amp_migrate.check.proof.flow import Flow
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Def, Scope
from amp_migrate.models import function

_ROOTS = ("torch.nn.Module", "torch.nn.modules.Module", "abc.ABC", "object")
_DRAWING = ("random.", "numpy.random.")  # modules of functions that draw
_OTHER_WAYS = frozenset("children named_children _modules __dict__ __getattr__ getattr vars eval exec".split())
_MOST_CLASSES = 200


def classes_of(flow: Flow, scope: Scope, model: ast.expr) -> list[Scope]:
    """The classes that are made for a model: by what gives a variable its value above, and by what that calls."""
    values = [model]
    for place, target, value in scope.file.assigned:
        is_it = isinstance(target, ast.Name) and isinstance(model, ast.Name) and target.id == model.id
        if is_it and place.function is scope.function and value.lineno < model.lineno:
            values.append(value)
    waiting: list[tuple[Scope, ast.AST]] = [(scope, value) for value in values]
    found: dict[Scope, None] = {}
    while waiting and len(found) < _MOST_CLASSES:
        place, node = waiting.pop()
        for made in _called(flow, place, node):
            if made not in found:
                found[made] = None
                waiting.append((made, made.node))
    return [one for one in found if isinstance(one.node, ast.ClassDef)]


def _called(flow: Flow, scope: Scope, node: ast.AST) -> Iterator[Scope]:
    """The functions and classes of the program that some code calls by their names."""
    for call in (one for one in walk(node) if isinstance(one, ast.Call)):
        full = scope.file.dotted(call.func)
        yield from flow.defined(full, scope.file) if full is not None else ()


class Made:
    """A class whose instances are in a model, with its bases."""

    def __init__(self, flow: Flow, scope: Scope) -> None:
        self.flow = flow
        self.classes = [scope]
        for one in self.classes:
            self.classes += [base for base in flow.bases(one) if base not in self.classes]
        self.methods: dict[str, list[Scope]] = {}
        for owner in self.classes:
            for inner in owner.body:
                if isinstance(inner, Def):
                    self.methods.setdefault(inner.name, []).append(owner.file.scope_of[inner])

    @property
    def name(self) -> str:
        return self.classes[0].name

    def run_later(self) -> list[Scope]:
        """The methods that run in a training, and not already where an instance is made."""
        names = self._run_by(["train", "forward"]) - self._run_by(["__init__"])
        return [one for name in names for one in self.methods[name]]

    def skips_at_random(self) -> bool:
        """True where chance decides in a forward which layers run."""
        methods = [one for name in self._run_by(["forward"]) for one in self.methods[name]]
        return any(
            self._layers_in(node.body) != self._layers_in(node.orelse)
            for scope in methods
            for node in walk(scope.node)
            if isinstance(node, (ast.If, ast.IfExp)) and _draws(scope, node.test)
            if not isinstance(node, ast.If) or not isinstance(node.body[-1], (ast.Return, ast.Continue))
        )

    def unread(self) -> str | None:
        """The name of a layer with parameters that nobody in the program speaks of but where it is made."""
        full = {one: [one.file.dotted(base) or "" for base in one.node.bases] for one in self.classes}  # type: ignore[attr-defined]
        outside = [name for one, bases in full.items() for name in bases if not self.flow.defined(name, one.file)]
        words = {_word(part) for one in self.classes for part in walk(one.node)}
        walked = {
            _word(part) for name in self._run_by(["forward"]) for one in self.methods[name] for part in walk(one.node)
        }
        if not set(outside) <= set(_ROOTS) or words & _OTHER_WAYS or walked & {"modules", "named_modules"}:
            return None
        return next((name for name in self.layers if not self._is_mentioned(name)), None)

    @cached_property
    def layers(self) -> list[str]:
        """The attributes that are given layers with parameters."""
        return [
            target.attr
            for owner in self.methods.values()
            for scope in owner
            for node in walk(scope.node)
            if isinstance(node, ast.Assign) and len(node.targets) == 1
            for target in node.targets
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
            if self._has_parameters(scope, node.value, frozenset())
        ]

    def _has_parameters(self, scope: Scope, value: ast.AST, seen: frozenset[Scope]) -> bool:
        for call in (one for one in walk(value) if isinstance(one, ast.Call)):
            full = scope.file.dotted(call.func) or ""
            row = function(full)
            if row is not None and (row.parameters or row.result == "weight"):
                return True
            made = set(self.flow.defined(full, scope.file)) - seen if full else set()
            if any(self._has_parameters(one, one.node, seen | {one}) for one in made):
                return True
        return False

    def _layers_in(self, code: ast.AST | list[ast.stmt]) -> set[str]:
        """The layers of its own that some code calls."""
        nodes = [part for one in (code if isinstance(code, list) else [code]) for part in walk(one)]
        called = {ast.unparse(one.func) for one in nodes if isinstance(one, ast.Call)}
        return called & {f"self.{name}" for name in self.layers}

    def _run_by(self, names: Iterable[str]) -> set[str]:
        """Some methods, and those that they speak of on their object."""
        waiting, found = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            if name in self.methods and name not in found:
                found.add(name)
                nodes = [node for one in self.methods[name] for node in walk(one.node)]
                waiting += [
                    one.attr for one in nodes if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self"
                ]
        return found

    def _is_mentioned(self, name: str) -> bool:
        """True where a program speaks more than once of an attribute of that name, of whatever object."""
        own = [self.classes[0].file]
        others = (one for one in self.flow.program.files.values() if one is not own[0] and name.encode() in one.source)
        nodes = (node for file in chain(own, others) if file.tree is not None for node in walk(file.tree))
        mentions = (one for one in nodes if isinstance(one, (ast.Attribute, ast.Constant)) and _word(one) == name)
        return len(list(islice(mentions, 2))) == 2


def _draws(scope: Scope, test: ast.expr) -> bool:
    """True for a test of what is drawn, there or for a variable of the function."""
    names = {one.id for one in walk(test) if isinstance(one, ast.Name)}
    values = [one for name in names for one in scope.bound.get(name, ()) if isinstance(one, ast.expr)]
    calls = [part for one in (test, *values) for part in walk(one) if isinstance(part, ast.Call)]
    return any(_is_drawing(scope.file.dotted(one.func) or "") for one in calls)


def _is_drawing(full: str) -> bool:
    row = function(full)
    return full.startswith(_DRAWING) or (row is not None and row.is_a("chance"))


def _word(node: ast.AST) -> object:
    """What a piece of syntax says: a name, an attribute, a text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, ast.Constant) else getattr(node, "name", None)
