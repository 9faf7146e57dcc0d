"""Statements that have nothing to do with what is trained: in between, for a log, to be sure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.tensors import Tensors
from tests.metamorphic.walk import BlockPlace, blocks, fresh, start_of


def statements_between(program: Program, random: Random) -> bool:
    """`seen = 1` behind each statement"""
    name = fresh(program, "seen")
    return _between(program, ast.parse(f"{name} = 1").body[0])


def logging_between(program: Program, random: Random) -> bool:
    """`logger.debug("here")` behind each statement"""
    logging, logger = fresh(program, "logging"), fresh(program, "logger")
    done = _between(program, ast.parse(f"{logger}.debug('here')").body[0])
    for tree in program.files.values():
        start = start_of(tree)
        imported = "import logging" if logging == "logging" else f"import logging as {logging}"
        tree.body[start:start] = ast.parse(f"{imported}\n{logger} = {logging}.getLogger(__name__)").body
    return done


def prints_of_values(program: Program, random: Random) -> bool:
    """`print(loss is None, file=sys.stderr)` behind what binds `loss`"""
    system = fresh(program, "sys")
    done = _put_behind(_assignments(program), f"print({{0}} is None, file={system}.stderr)")
    for tree in program.files.values():
        imported = "import sys" if system == "sys" else f"import sys as {system}"
        tree.body[start_of(tree) : start_of(tree)] = ast.parse(imported).body
    return done


def asserts(program: Program, random: Random) -> bool:
    """`assert out is not None` behind `out = self.first(x)`"""
    return _behind_tensors(program, "assert {0} is not None", any_dimensions=True)


def asserts_of_shapes(program: Program, random: Random) -> bool:
    """`assert out.dim() > 0` behind `out = self.first(x)`"""
    return _behind_tensors(program, "assert {0}.dim() > 0, {0}.shape", any_dimensions=False)


def with_docstrings(program: Program, random: Random) -> bool:
    """A text at the start of each function that has none"""
    done = False
    for place in blocks(program):
        if place.function is not None and place.block is place.function.body and not ast.get_docstring(place.function):
            place.block.insert(0, ast.parse("'what it does'").body[0])
            done = True
    return done


def _between(program: Program, statement: ast.stmt) -> bool:
    for place in blocks(program):
        if place.is_in_class_body:
            continue
        start = start_of(place.tree) if place.block is place.tree.body else 0
        every = [part for one in place.block[start:] for part in (one, statement)]
        place.block[start:] = every[:-1] if every and _leaves(every[-2]) else every
    return True


def _behind_tensors(program: Program, text: str, *, any_dimensions: bool) -> bool:
    tensors = Tensors(program)

    def is_tensor(place: BlockPlace, index: int, name: str) -> bool:
        statement = place.block[index]
        return tensors.is_tensor(statement.value, statement, any_dimensions)  # type: ignore[attr-defined]

    return _put_behind((one for one in _assignments(program) if is_tensor(*one)), text)


def _put_behind(assignments: Iterable[tuple[BlockPlace, int, str]], text: str) -> bool:
    done = False
    for place, index, name in assignments:
        place.block.insert(index + 1, ast.parse(text.format(name)).body[0])
        done = True
    return done


def _assignments(program: Program) -> Iterator[tuple[BlockPlace, int, str]]:
    """The assignments to one name, the last of a block first, so that their places stay."""
    for place in [one for one in blocks(program) if not one.is_in_class_body]:
        for index in reversed(range(len(place.block))):
            node = place.block[index]
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                yield place, index, node.targets[0].id


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break))


REWRITES = {
    "statements in between": statements_between,
    "logging in between": logging_between,
    "values printed": prints_of_values,
    "asserts": asserts,
    "asserts of shapes": asserts_of_shapes,
    "docstrings": with_docstrings,
}
