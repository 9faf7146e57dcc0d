"""What the code says: statements, names, objects, values, conditions, calls and paths of the files of a unit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar, cast

import libcst as cst

from amp_migrate.facts.calls import Calls
from amp_migrate.facts.conditions import Conditions
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.facts.identity import Identity
from amp_migrate.facts.names import Names
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.program import self_tests
from amp_migrate.facts.source_file import SourceFile
from amp_migrate.facts.tree import Class, Function, Statement, Tree
from amp_migrate.facts.values import Values
from amp_migrate.facts.variables import Variable
from amp_migrate.findings import Finding, Span
from amp_migrate.module_text import module_text
from amp_migrate.rules.rule import Rule

_Analysis = TypeVar("_Analysis")


def _of_their_own(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    """Files without a node in common: copies of a file are parsed once."""
    modules: set[cst.Module] = set()
    for file in files:
        is_copy = file.module in modules
        yield dataclasses.replace(file, module=file.module.deep_clone()) if is_copy else file
        modules.add(file.module)


class Facts:
    """Everything known about the files that are migrated together, computed once per parse, what things mean not before
    somebody asks; of what is `hidden` nothing is.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        elsewhere: Elsewhere | None = None,
        hidden: Collection[cst.CSTNode] = (),
    ) -> None:
        self.elsewhere = elsewhere or Elsewhere()
        files = [*_of_their_own(files)]
        self.tree = Tree([file.module for file in files], hidden)
        self.files = dict(zip(self.tree.roots, files, strict=True))
        self._quotes: dict[Function, str] = {}
        self._analyses: dict[Callable[[Facts], object], object] = {}
        self.names = Names(self.tree, files, self.elsewhere)

    @cached_property
    def calls(self) -> Calls:
        return Calls(self.tree, self.names, Objects(self.tree, self.names))

    @cached_property
    def objects(self) -> Objects:
        return self.calls.objects

    @cached_property
    def values(self) -> Values:
        return Values(self.tree, self.names, self.objects)

    @cached_property
    def identity(self) -> Identity:
        return Identity(self.names, self.objects)

    @cached_property
    def conditions(self) -> Conditions:
        return Conditions(self.identity, self.objects, self.values)

    def analysis(self, of: Callable[[Facts], _Analysis]) -> _Analysis:
        """What is built on the facts, once for all who ask: `facts.analysis(Steps)`."""
        if of not in self._analyses:
            self._analyses[of] = of(self)
        return cast("_Analysis", self._analyses[of])

    @cached_property
    def self_tests(self) -> list[Statement]:
        """The `if __name__ == "__main__":` of files that other files of the unit import."""
        return self_tests(self.tree, self.names)

    def without(self, hidden: Collection[cst.CSTNode]) -> Facts:
        """The facts of the same files without some statements."""
        return Facts(list(self.files.values()), self.elsewhere, hidden)

    @property
    def modules(self) -> list[cst.Module]:
        return [file.module for file in self.files.values()]

    @classmethod
    def of_module(cls, module: cst.Module) -> Facts:
        """The facts of one module, about which nothing else is known."""
        return cls([SourceFile(module)])

    def file_of(self, node: cst.CSTNode) -> SourceFile:
        """The file that holds a node."""
        return self.files[self.tree.root_of(node)]

    def name_of(self, function: Function) -> tuple[str, str]:
        """A function by the path of its file and its name, `Class.method` for a method."""
        name = f"{function.owner.name}.{function.name}" if function.owner is not None else function.name
        return self.file_of(function.node).path, name

    def is_used_outside(self, function: Function) -> bool:
        """True where files that are not looked at here refer to a function."""
        return self.elsewhere.use_function(*self.name_of(function))

    def is_seen_outside(self, path: str, name: str) -> bool:
        """True where such files may get what a function returns, or an attribute of a class keeps."""
        return self.elsewhere.use_function(path, name) or self.elsewhere.may_be_handed(path, name)

    def may_run(self, function: Function) -> bool:
        """False for a helper that nobody uses, and what is defined in it."""
        function = function.outermost
        if function.is_module or function.owner is not None or self.is_used_outside(function):
            return True
        return bool(self.calls.callers(function) or self.calls.value_uses(function))

    def made_by(self, node: cst.BaseExpression) -> list[str]:
        """The full names of what is imported and makes what a node may mean: `search = Architect(net)`."""
        calls = self.objects.calls_behind(node)
        return [path for call in calls for path in self.names.imported_as(call.func)]

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node, exactly as written."""
        return module_text(self.file_of(node).module).text(node)

    def says(self, words: re.Pattern[str]) -> bool:
        """True where some words stand in the text of a file, be it in a comment."""
        return any(words.search(module_text(module).code) for module in self.modules)

    def place(self, variable: Variable) -> tuple[str, str, str]:
        """A variable by file, functions and classes around it, and name: the same before and after a migration."""
        scope, around = variable.scope, []
        while scope.parent is not None:
            if isinstance(scope.owner, (Function, Class)):
                around.append(scope.owner.name)
            scope = scope.parent
        assert isinstance(scope.owner, Function)
        return self.files[scope.owner].path, ".".join(reversed(around)), variable.name

    def places(self, holds: Callable[[Variable], bool]) -> set[tuple[str, str, str]]:
        """Where something holds for a variable: for each, where a name that is bound again is several of one place.

        `from package import model` is not read because `model = Net()` below it is.
        """
        found: dict[bool, set[tuple[str, str, str]]] = {True: set(), False: set()}
        for variable in self.names.all_variables():
            found[holds(variable)].add(self.place(variable))
        return found[True] - found[False]

    def quote(self, node: cst.CSTNode) -> str:
        """The quotation mark that the file around a node mostly uses; without strings, that of the whole unit."""
        root = self.tree.root_of(node)
        if root not in self._quotes:
            own = _without_docstrings(module_text(self.files[root].module).code)
            if "'" not in own and '"' not in own:
                own = "".join(_without_docstrings(module_text(module).code) for module in self.modules)
            self._quotes[root] = "'" if own.count("'") > own.count('"') else '"'
        return self._quotes[root]

    def line(self, node: cst.CSTNode) -> int:
        """The line (from 1) of the file that a node starts on."""
        line = self._place(node)[0]
        lines = self.file_of(node).lines
        return lines[line - 1] if line <= len(lines) else line

    def column(self, node: cst.CSTNode) -> int:
        """The column (from 0) that a node starts in."""
        return self._place(node)[1]

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        return module_text(self.file_of(node).module).place(node)

    def finding(self, node: cst.CSTNode, rule: Rule, message: str, case: str = "") -> Finding:
        """A finding about the line of a node."""
        return Finding(self.file_of(node).path, self.line(node), rule.code, message, case=case, span=self.span(node))

    def span(self, node: cst.CSTNode) -> Span | None:
        """Where a node stands in its file; None for blocks, and where the module is not what stands there."""
        file = self.file_of(node)
        if file.lines or isinstance(node, (cst.Module, cst.BaseCompoundStatement)):
            return None
        first, end = module_text(file.module).span(node)
        return Span(first[0], first[1] + 1, end[0], end[1] + 1)


def _without_docstrings(code: str) -> str:
    return code.replace('"' * 3, "").replace("'" * 3, "")


__all__ = ["Facts", "SourceFile"]
