"""Blocks of statements, and the places in them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import (
    FUNCTIONS,
    blocks_of,
    bound,
    certainly_bound,
    headers,
    local_names,
    parameters,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True, eq=False)
class BlockPlace:
    """A block of statements, with what stands around it: functions and classes, outermost first;
    `before` are the names that have a value where it starts.
    """

    path: str
    tree: ast.Module
    block: list[ast.stmt]
    scopes: tuple[Function | ast.ClassDef, ...]
    before: frozenset[str]
    loops: int  # around it, in its function

    @property
    def function(self) -> Function | None:
        """The function whose names are those of the block; None in a module, or in the body of a class."""
        return self.scopes[-1] if self.scopes and isinstance(self.scopes[-1], FUNCTIONS) else None

    @property
    def is_in_class_body(self) -> bool:
        return bool(self.scopes) and isinstance(self.scopes[-1], ast.ClassDef)

    def known_at(self, index: int) -> set[str]:
        """The names that have a value before the statement of this number."""
        return {*self.before, *certainly_bound(self.block[:index])}


def blocks(program: Program) -> list[BlockPlace]:
    """All blocks of a program."""
    return [place for path, tree in program.files.items() for place in _in_module(path, tree)]


def _in_module(path: str, tree: ast.Module) -> Iterator[BlockPlace]:
    yield from _in_block(BlockPlace(path, tree, tree.body, (), frozenset(), 0))


def _in_block(place: BlockPlace) -> Iterator[BlockPlace]:
    yield place
    for index, statement in enumerate(place.block):
        known = frozenset(place.known_at(index))
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            before = known
            if isinstance(statement, FUNCTIONS):
                before = (known - local_names(statement)) | {arg.arg for arg in parameters(statement.args)}
            scopes = (*place.scopes, statement)
            yield from _in_block(
                dataclasses.replace(place, block=statement.body, scopes=scopes, before=before, loops=0)
            )
            continue
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        for block in blocks_of(statement):
            is_body = block is getattr(statement, "body", None)
            names = known | (bound(headers(statement)) if is_body else set())
            loops = place.loops + (is_loop and is_body)
            yield from _in_block(dataclasses.replace(place, block=block, before=frozenset(names), loops=loops))


def fresh(program: Program, word: str) -> str:
    """A name that stands nowhere in a program, as near to a word as may be."""
    taken = {text for node in program.nodes() for text in _texts(node)}
    names = (word if number == 0 else f"{word}{number}" for number in range(10_000))
    return next(name for name in names if name not in taken)


def _texts(node: ast.AST) -> Iterator[str]:
    for _, value in ast.iter_fields(node):
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))


def start_of(tree: ast.Module) -> int:
    """Where a statement may be put first in a module: behind its docstring and `from __future__`."""
    for index, statement in enumerate(tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_text and not is_future:
            return index
    return len(tree.body)


def is_plain_name(node: ast.AST | None) -> bool:
    """True for `model` and `self.model`, whose evaluation does nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
