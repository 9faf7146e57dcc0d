"""What one definition refers to, and how it treats a handle, optimizers and gradients."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from amp_migrate.files.bindings import imported
from amp_migrate.files.imports import canonical
from amp_migrate.units.definition import Definition
from amp_migrate.units.tie import Tie
from amp_migrate.vocabulary import IMPORTERS

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BUILTINS = frozenset(dir(builtins))
_STATES = frozenset(("state_dict", "load_state_dict"))


@dataclasses.dataclass(frozen=True)
class Names:
    """The names of one module: its imports (dotted, as written), what it defines, whether it has a star import."""

    file: Path
    module: str
    imports: Mapping[str, set[str]]
    defined: set[str]
    has_stars: bool

    def meanings(self, chain: list[str]) -> Iterator[str]:
        """The canonical names that a chain of attributes can mean, read in the module."""
        yield from self.through_import(self.imports, chain)
        if chain[0] in self.defined or (self.has_stars and chain[0] not in _BUILTINS):
            yield ".".join((self.module, *chain))

    def through_import(self, imports: Mapping[str, set[str]], chain: list[str]) -> Iterator[str]:
        for dotted in sorted(imports.get(chain[0], ())):
            yield canonical(self.file, ".".join((dotted, *chain[1:])))


def read_definition(node: ast.AST, names: Names, tie: Tie) -> Definition:
    """Read one definition; of a module only what is not in its functions and classes."""
    is_variable = isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
    reader = _Reader(names, tie, is_module=isinstance(node, ast.Module), is_variable=is_variable)
    reader.visit(node)
    return Definition(
        frozenset(reader.references),
        frozenset(reader.bases),
        frozenset(reader.annotations),
        frozenset(reader.called),
        reader.uses_handle or any(map(tie.joins, reader.references)),
        reader.takes_handle or (reader.takes_any_name and not reader.called.isdisjoint(_STATES)),
        reader.hands_on,
        is_variable and any(map(tie.is_itself, reader.references)),
        reader.trains,
        isinstance(node, _Function) and reader.calls_parameter,
        is_variable or (isinstance(node, _Function) and reader.looks_up),
        isinstance(node, _Function) and "half" in reader.called,
    )


class _Reader(ast.NodeVisitor):
    def __init__(self, names: Names, tie: Tie, *, is_module: bool, is_variable: bool) -> None:
        self.names = names
        self.tie = tie
        self.references: set[str] = set()
        self.bases: set[str] = set()
        self.annotations: set[str] = set()
        self.called: set[str] = set()
        self.takes_any_name = False
        self.uses_handle = self.takes_handle = self.hands_on = self.trains = self.calls_parameter = False
        self.looks_up = False
        self._looked_up: set[str] = set()  # the variables that hold what was
        self._is_module = is_module
        self._is_variable = is_variable
        self._scopes: list[tuple[dict[str, set[str]], set[str]]] = []
        self._parameters: set[str] = set()
        self._methods: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if self._is_module:
            return
        if not self._scopes:
            self._methods = {inner.name for inner in node.body if isinstance(inner, _Function)}
            self.bases |= {name for base in node.bases for name in self._meanings(_chain(base))}
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._scopes.append(({}, {argument.arg for argument in _arguments(node)}))
        self.generic_visit(node)
        self._scopes.pop()

    def visit_arg(self, node: ast.arg) -> None:
        self.takes_handle |= self.tie.is_like(node.arg)
        self._annotate(node.annotation)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.takes_handle |= self.tie.is_like(node.arg or "")
        self._hand(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        for argument in node.args:
            self._hand(argument)
        chain = _chain(node.func)
        name = chain[-1] if chain else getattr(node.func, "attr", "")
        self.called.add(name)
        if name in IMPORTERS and node.args:
            self._import(node.args[0])
        if name in self.tie.telling or name in self.tie.ordinary:
            self.uses_handle |= isinstance(node.func, ast.Attribute) and self._is_on_handle(node.func, name)
        self.trains |= _trains(node.func, name)
        self.calls_parameter |= len(chain) == 1 and name in self._parameters
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._hand(node.value)
        if self._is_looked_up(node.value):
            self._looked_up |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotate(node.annotation)
        self._hand(node.value)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        self._hand(node.value)
        self.looks_up |= self._is_looked_up(node.value)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for value in node.values:
            self._hand(value)
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        for element in node.elts if isinstance(node.ctx, ast.Load) else []:
            self._hand(element)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.trains |= node.attr == "grad" and isinstance(node.ctx, ast.Load)
        chain = _chain(node)
        self._refer(chain)
        if not chain:
            self.takes_handle |= self.tie.is_like(node.attr)
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or not self._is_variable:  # what `a, b = f()` makes is not what it uses
            self._refer([node.id])

    def _visit_function(self, node: _Function) -> None:
        if self._is_module:
            return
        for outside in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
            self._hand(outside)
        self._scopes.append(_scope(node))
        self.takes_any_name |= node.args.kwarg is not None
        self._parameters |= {argument.arg for argument in _arguments(node)}
        for argument in _arguments(node):
            self.visit(argument)
        self._annotate(node.returns)
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    def _refer(self, chain: list[str]) -> None:
        meanings = self._meanings(chain)
        self.references |= meanings
        self.takes_handle |= any(map(self.tie.is_like, chain)) and not any(map(self._is_foreign, meanings))

    def _is_looked_up(self, value: ast.expr | None) -> bool:
        """True for `TABLE[name]`, for a class or function of the project as a value, and for an instance of a class:
        who calls a function that returns one gets at what it can do.
        """
        if isinstance(value, ast.Tuple):
            return any(map(self._is_looked_up, value.elts))
        if isinstance(value, ast.IfExp):
            return self._is_looked_up(value.body) or self._is_looked_up(value.orelse)
        if isinstance(value, ast.Call):
            made = _chain(value.func)
            is_made = not made or made[-1][:1].isupper() or made[0] in self._looked_up
            return is_made and self._is_looked_up(value.func)
        chain = _chain(value)
        if not chain:
            return isinstance(value, ast.Subscript)
        return chain[0] in self._looked_up or any(map(os.path.isabs, self._meanings(chain)))

    def _import(self, argument: ast.expr) -> None:
        """A module of the project that is imported by its name in quotes is referred to as a whole."""
        said = argument.value if isinstance(argument, ast.Constant) else None
        if isinstance(said, str) and all(part.isidentifier() for part in said.lstrip(".").split(".")):
            module = canonical(self.names.file, said)
            self.references |= {module} if os.path.isabs(module) else set()

    def _annotate(self, annotation: ast.expr | None) -> None:
        for node in ast.walk(annotation) if annotation is not None else ():
            self.annotations |= self._meanings(_chain(node))

    def _meanings(self, chain: list[str]) -> set[str]:
        if not chain:
            return set()
        for imports, bound in reversed(self._scopes):
            if chain[0] in imports:
                return set(self.names.through_import(imports, chain))
            if chain[0] in bound:
                return set()
        return set(self.names.meanings(chain))

    def _is_on_handle(self, function: ast.Attribute, name: str) -> bool:
        """True for a method of a handle; what is imported is known by its canonical name instead."""
        chain = _chain(function)
        if chain == ["self", name] and name in self._methods:
            return False
        if any(not meaning.startswith(f"{self.names.module}.") for meaning in self._meanings(chain)):
            return False
        receiver = chain[-2] if chain else getattr(function.value, "attr", "")
        return name in self.tie.telling or self.tie.is_like(receiver)

    def _hand(self, value: ast.expr | None) -> None:
        """Look whether a value that goes somewhere else is a handle."""
        if isinstance(value, ast.IfExp):
            self._hand(value.body)
            self._hand(value.orelse)
            return
        chain = _chain(value)
        meanings = self._meanings(chain)
        if any(map(self.tie.is_itself, meanings)):
            self.hands_on = True
        elif chain and self.tie.is_like(chain[-1]) and not any(map(self._is_foreign, meanings)):
            self.hands_on |= bool(meanings) or len(chain) == 1 or chain[0] == "self"

    def _is_foreign(self, name: str) -> bool:
        """True for what comes from other packages than the handle's own."""
        return not os.path.isabs(name) and not self.tie.means(name)


def _chain(node: ast.AST | None) -> list[str]:
    """`a.b.c` as its names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _arguments(function: _Function | ast.Lambda) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]


def _scope(function: _Function) -> tuple[dict[str, set[str]], set[str]]:
    """The imports of a function, and its other local names."""
    imports: dict[str, set[str]] = {}
    bound = {argument.arg for argument in _arguments(function)}
    outer: set[str] = set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        for name, dotted in imported(node):
            imports.setdefault(name, set()).add(dotted)
        if isinstance(node, _Function | ast.ClassDef):
            bound.add(node.name)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outer |= set(node.names)
        waiting += ast.iter_child_nodes(node)
    return imports, bound - outer


def _trains(function: ast.expr, name: str) -> bool:
    if name in ("backward", "state_dict") or name.startswith("clip_grad"):
        return True
    chain = _chain(function)
    receiver = getattr(function.value, "attr", chain[0] if chain else "") if isinstance(function, ast.Attribute) else ""
    return (name == "step" and "opt" in receiver.lower()) or chain == ["torch", "save"]
