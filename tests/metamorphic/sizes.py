"""Code that never runs, in amounts and circles in which a search may not come to an end.

It stands under `if marks:`, where `marks` is an empty list: the program means the same, however a tool decides about it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import bound
from tests.metamorphic.walk import BlockPlace, Function, blocks, fresh, start_of

_FORMS = (
    "{0} = {0}.float()", "{0} = {0}.detach()", "{0} = -{0}", "{0} = {0} * 1.0", "{0} = {0}[0]", "{0} = ({0}, {0})[1]",
    "{0} = {0}.to({0}.dtype)", "{0} = {0} if marks else {0}", "{0} = {0} + {0}.mean()", "{0} = {0}.view(-1)", "{0} = {0} @ {0}",
    "{0} = [{0} for {0} in [{0}]]",
)  # fmt: skip


def bound_often(program: Program, random: Random) -> bool:
    """A dozen more values for each name that is assigned."""
    return _behind_assignments(program, lambda names, _: [form.format(name) for form in _FORMS for name in names])


def bound_in_circles(program: Program, random: Random) -> bool:
    """Each name bound to the one before, and that to it."""

    def circles(names: list[str], earlier: str | None) -> list[str]:
        chain = [one for one in (earlier, *names) if one]
        return [text for one, other in pairwise(chain) for text in (f"{one} = {other}", f"{other} = {one}")]

    return _behind_assignments(program, circles)


def many_jumps(program: Program, random: Random) -> bool:
    """A dozen options under which an iteration ends, or the function."""
    marks, done = fresh(program, "marks"), False
    for place in blocks(program):
        jump = "continue" if place.loops else "return" if place.function is not None else ""
        if not jump or place.is_in_class_body or _is_generator(place.function):
            continue
        options = [_statement(f"if {number} in {marks}:\n    {jump}") for number in range(12)]
        place.block[:0] = options[:6]
        place.block[-1:-1] = options[6:]
        done = True
    return done and _with_marks(program, marks)


def calls_itself(program: Program, random: Random) -> bool:
    """Each function calls itself and the one before, twice."""
    marks, done = fresh(program, "marks"), False
    for tree in program.files.values():
        before = ""
        for function in [one for one in tree.body if isinstance(one, ast.FunctionDef)]:
            names = ", ".join(arg.arg for arg in function.args.args)
            if function.args.vararg or function.args.kwonlyargs or _is_generator(function):
                continue
            calls = [f"{function.name}({names})"] * 2 + ([f"{before}()"] * 2 if before else [])
            function.body[-1:-1] = [_statement(f"if {marks}:\n    {call}") for call in calls]
            before, done = function.name, True
    return done and _with_marks(program, marks)


def _behind_assignments(program: Program, texts) -> bool:  # type: ignore[no-untyped-def]
    """Statements that never run behind each assignment to names; `texts` writes them for these and an earlier one."""
    marks, done = fresh(program, "marks"), False
    for place in blocks(program):
        if place.is_in_class_body:
            continue
        every: list[ast.stmt] = []
        earlier: str | None = None
        for statement in place.block:
            names = list(_names(statement)) if not _declared(place) else []
            more = [text.replace("marks", marks) for text in texts(names, earlier)] if names else []
            every += [statement, *(_statement(f"if {marks}:\n    {text}") for text in more)]
            earlier, done = names[-1] if names else earlier, done or bool(more)
        place.block[:] = every
    return done and _with_marks(program, marks)


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        yield from sorted(bound(statement.targets))


def _declared(place: BlockPlace) -> bool:
    """True in a function with global or nonlocal names."""
    around = place.function
    return around is not None and any(isinstance(one, (ast.Global, ast.Nonlocal)) for one in ast.walk(around))


def _is_generator(function: Function | None) -> bool:
    return function is not None and any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(function))


def _with_marks(program: Program, name: str) -> bool:
    for tree in program.files.values():
        tree.body.insert(start_of(tree), _statement(f"{name} = []"))
    return True


def _statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


REWRITES = {
    "names bound often": bound_often,
    "names bound in circles": bound_in_circles,
    "many jumps": many_jumps,
    "functions that call themselves": calls_itself,
}
