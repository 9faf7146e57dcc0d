"""Methods of an optimizer and a loss that are named before they are called, put in place.

    step = optimizer.step
    for x in batches:                           for x in batches:
        ...                              =>         ...
        step()                                      optimizer.step()

The migration writes `scaler.step(optimizer)`, and needs what the method is of where it is called. A method whose calls
it leaves as they are keeps its name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import overlaps, path_of, writes
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.native.comments import comment_behind
from amp_migrate.native.edits import Edits
from amp_migrate.result import Result

_METHODS = ("backward", "step")  # what a migration writes anew


@dataclasses.dataclass(frozen=True)
class NamedMethod:
    """A variable that holds a method and nothing else, and its `calls`."""

    path: str
    text: str
    statement: Statement
    calls: tuple[cst.Name, ...]

    def is_called_anew(self, results: Iterable[Result]) -> bool:
        """True where some calls of the method, put in place, are others in what was written."""
        written = f"{self.text}(".encode()
        result = next(one for one in results if one.path == self.path)
        return result.output.count(written) < result.source.count(written) + len(self.calls)


def in_place(methods: Iterable[NamedMethod]) -> Edits:
    """The edits that call methods by their own names."""
    edits = Edits()
    for one in methods:
        for load in one.calls:
            edits.replace(load, one.text)
        if comment_behind(one.statement.line) is None:
            edits.remove(one.statement)
    return edits


def named_methods(facts: Facts) -> list[NamedMethod]:
    """The methods that are named and called, where each is still that of the same object when it is called."""
    return [
        NamedMethod(facts.file_of(method).path, facts.text(method), statement, tuple(variable.loads))
        for variable, statement, method in _named(facts)
    ]


def _named(facts: Facts) -> Iterator[tuple[Variable, Statement, cst.Attribute]]:
    for variable in (one for scope in facts.names.scopes.values() for one in scope.variables.values()):
        binding = variable.bindings[0] if len(variable.bindings) == 1 else None
        method = binding.value if binding is not None and binding.kind == "assign" else None
        if binding is None or not isinstance(method, cst.Attribute) or method.attr.value not in _METHODS:
            continue
        node = binding.statement.node if binding.statement is not None else None
        if not isinstance(node, cst.Assign) or node.value is not method or len(node.targets) > 1:
            continue
        is_same = all(_is_called_with_the_same(facts, load, binding, method) for load in variable.loads)
        if variable.loads and is_same and binding.statement is not None:
            yield variable, binding.statement, method


def _is_called_with_the_same(facts: Facts, load: cst.Name, binding: Binding, method: cst.Attribute) -> bool:
    """True for a call in the same function, where nothing was assigned to what the method is of since it was named."""
    call, named, path = facts.tree.call_of(load), binding.statement, path_of(method.value)
    if named is None or call is None:
        return False
    called = facts.tree.statement_of(load)
    if path is None:  # what `criterion(out).backward` is of, is made where it stands
        return called.block is named.block and called.index == named.index + 1 and not called.blocks
    if called.function is not named.function or not named.runs_before(called):
        return False
    loops = [one for one in called.path() if one.is_loop and not named.inside(one)]
    between = [one for one in called.function.descendants() if named.order < one.order < called.order]
    run = [*between, *(inner for one in loops for inner in (one, *one.descendants()))]
    return not any(overlaps(path, written) for one in run for written in writes(one))
