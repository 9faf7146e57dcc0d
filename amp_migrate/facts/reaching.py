"""Which of a local variable's bindings may have given it its value at a statement.

mask = outputs["mask"]            both bindings reach the loss: the second does not always run
if resize:
mask = F.interpolate(mask)
loss = bce(mask, target)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from amp_migrate.facts.tree import Block, Function, Statement
from amp_migrate.facts.variables import Binding, Variable

if TYPE_CHECKING:
    from amp_migrate.facts.names import Names


def reaching(variable: Variable, at: Statement) -> list[Binding]:
    """The bindings that may be the last before a statement; all of them where the variable is another function's."""
    owner = variable.scope.owner
    if not isinstance(owner, Function) or owner is not at.function:
        return list(variable.bindings)
    found = [one for one in variable.bindings if one.statement is not None and one.statement.function is not owner]
    if not _before(variable, at, found):  # besides what other functions set by `global` and `nonlocal`
        found += [one for one in variable.bindings if one.statement is None]  # parameters
    return list(dict.fromkeys(found))


def assignment(variable: Variable, at: Statement) -> Binding | None:
    """The one assignment that certainly gives a variable its value before a statement; None where there are others."""
    found = reaching(variable, at)
    return found[0] if len(found) == 1 and found[0].kind == "assign" else None


def stands_for(names: Names, node: cst.BaseExpression, at: Statement) -> cst.BaseExpression:
    """The expression that certainly gave a local name its value by a statement; any other expression is what it is."""
    variable = names.variable_at(node)
    only = assignment(variable, at) if variable is not None else None
    return only.value if only is not None and only.value is not None and not only.selector else node


def is_certain(variable: Variable, at: Statement) -> bool:
    """True where a variable of the function around a statement has a value by then, whatever way leads there."""
    return any(one.statement is None for one in variable.bindings) or _before(variable, at, [])


def _before(variable: Variable, at: Statement, found: list[Binding]) -> bool:
    """Collect what reaches `at` from its own function; True where nothing from before the function's code does."""
    current: Statement | None = at
    while current is not None:
        if _in_statements(variable, current.block.statements[: current.index], found):
            return True
        around = current.block.owner
        if around is not None and around.is_loop:
            own = _of(variable, around)
            found += own or _anywhere(variable, around)  # what an earlier round has left
            if own:
                return True
        elif around is not None and isinstance(around.node, cst.With):
            own = _of(variable, around)
            found += own
            if own:
                return True
        elif around is not None and isinstance(around.node, (cst.Try, cst.TryStar)) and current.block.arm != "body":
            found += _anywhere(variable, around)  # what the body has come to
        current = around
    return False


def _in_statements(variable: Variable, statements: list[Statement], found: list[Binding]) -> bool:
    return any(_in(variable, statement, found) for statement in reversed(statements))


def _in(variable: Variable, statement: Statement, found: list[Binding]) -> bool:
    """Collect what a statement leaves behind; True where it certainly gives the variable a value."""
    if isinstance(statement.node, cst.If):
        certain = [_leaves(block) or _in_statements(variable, block.statements, found) for block in statement.blocks]
        return len(certain) == 2 and all(certain)
    if isinstance(statement.node, cst.With):
        if any(_in_statements(variable, block.statements, found) for block in statement.blocks):
            return True
    elif isinstance(statement.node, (cst.Try, cst.TryStar)):
        found += _anywhere(variable, statement)
        return _tried(variable, {block.arm: block for block in statement.blocks})
    elif not isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)) and statement.blocks:
        found += _anywhere(variable, statement)
        return False
    own = _of(variable, statement)
    found += own
    return bool(own)


def _tried(variable: Variable, arms: dict[str, Block]) -> bool:
    """True where the body and all handlers give the variable a value, or leave."""

    def is_given(block: Block) -> bool:
        return _leaves(block) or _in_statements(variable, block.statements, [])

    if "finally" in arms and is_given(arms["finally"]):
        return True
    done = [block for arm, block in arms.items() if arm in ("body", "else")]
    return any(map(is_given, done)) and all(is_given(block) for arm, block in arms.items() if arm[:6] == "except")


def _leaves(block: Block) -> bool:
    return bool(block.statements) and block.statements[-1].leaves


def _of(variable: Variable, statement: Statement) -> list[Binding]:
    return [one for one in variable.bindings if one.statement is statement]


def _anywhere(variable: Variable, statement: Statement) -> list[Binding]:
    return [one for one in variable.bindings if one.statement is not None and one.statement.inside(statement)]
