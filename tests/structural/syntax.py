"""The syntax of a file, for those who make another file of it. Nodes are replaced, never changed."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

Replacements = Mapping[ast.AST, Any]  # what stands in the place of a node: another one, or a list of statements
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_NEVER_EMPTY = ("body",)


class Source:
    """One file of a tree; `original` is the text that it was migrated from, `others` are the texts of the other files,
    which may use what it has. `is_plain` says that nothing in the original is about mixed precision.
    """

    def __init__(self, text: str, original: str = "", others: str = "", *, is_plain: bool = False) -> None:
        self.text = text
        self.original = original
        self.others = others
        self.is_plain = is_plain
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def every(self, *types: type[ast.AST]) -> Iterator[Any]:
        return (node for node in self.nodes if isinstance(node, types))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        """The innermost function that a node stands in, or the module."""
        return next(one for one in self.around(node) if isinstance(one, (*FUNCTIONS, ast.Module)))

    def blocks(self) -> Iterator[list[ast.stmt]]:
        for node in self.nodes:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    yield block

    @cached_property
    def _following(self) -> dict[ast.stmt, list[ast.stmt]]:
        return {one: block[at + 1 :] for block in self.blocks() for at, one in enumerate(block)}

    def following(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements behind one in its block."""
        return self._following[statement]

    @cached_property
    def imports(self) -> dict[str, str]:
        """The dotted names that the file's imports bind, by what they are called here."""
        found: dict[str, str] = {}
        for node in self.every(ast.Import, ast.ImportFrom):
            for one in node.names:
                if isinstance(node, ast.ImportFrom):
                    found[one.asname or one.name] = f"{node.module}.{one.name}"
                elif one.asname:
                    found[one.asname] = one.name
        return found

    def dotted(self, node: ast.AST) -> str:
        """What an expression names, as it would be imported; empty for what is no name."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return ""
        first, _, rest = ast.unparse(node).partition(".")
        first = self.imports.get(first, first)
        return f"{first}.{rest}" if rest else first

    @cached_property
    def functions(self) -> dict[str, ast.AST]:
        """The functions and methods of the file by their last names."""
        return {node.name: node for node in self.every(*FUNCTIONS)}

    @cached_property
    def scalers(self) -> set[str]:
        """What holds a GradScaler, by its last name: `scaler` of `self.scaler`."""
        made = (node for node in self.every(ast.Assign) if self.makes(node.value, "GradScaler"))
        found = {_last(target) for node in made for target in node.targets}
        for node in self.every(ast.Attribute):
            if node.attr == "unscale_" or (node.attr == "scale" and isinstance(self.parents[node], ast.Call)):
                found.add(_last(node.value))
        return found - {""} | {"scaler"}

    @cached_property
    def has_scaler(self) -> bool:
        """True where a GradScaler of the tree may be enabled: without one, scaling is nothing."""
        made = re.findall(r"GradScaler\(([^()]*(?:\([^()]*\)[^()]*)*)", f"{self.text}\n{self.others}")
        return any("enabled=False" not in arguments for arguments in made)

    def is_scaler(self, node: ast.AST) -> bool:
        return _last(node) in self.scalers

    def makes(self, node: ast.AST, name: str) -> bool:
        """True for a call of what is imported by this last name."""
        return isinstance(node, ast.Call) and self.dotted(node.func).rpartition(".")[2] == name


def _last(node: ast.AST) -> str:
    """The last name of `a.b.c`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def method_call(node: ast.AST, *names: str) -> ast.Call | None:
    """The call of a method of one of these names that a statement is, or that an expression is."""
    value = node.value if isinstance(node, ast.Expr) else node
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in names:
        return value
    return None


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def changed(node: Any, **fields: Any) -> Any:
    """A copy of a node with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def without(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def negation(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def rebuilt(node: Any, new: Replacements) -> Any:
    """The node with replacements in it; a body that loses all its statements passes."""
    if node in new:
        return new[node]
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            fields[name] = rebuilt(value, new)
        elif isinstance(value, list):
            made = [rebuilt(one, new) if isinstance(one, ast.AST) else one for one in value]
            flat = [part for one in made for part in (one if isinstance(one, list) else [one])]
            fields[name] = flat or ([ast.Pass()] if value and name in _NEVER_EMPTY else [])
    return changed(node, **fields)
