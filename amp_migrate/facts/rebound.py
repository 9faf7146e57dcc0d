"""Names that are a module first and then something made by it.

import model
...
model = model.NCF(users, items)      reads up to here mean the module
model.cuda()                         and the others what it made, also behind `global model` in a function called later
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from amp_migrate.facts.tree import Statement, Tree
from amp_migrate.facts.variables import Binding, Variable


@dataclasses.dataclass(frozen=True)
class Module:
    """What the variable is at first: the imports that bind it, and the reads that mean the module."""

    bindings: list[Binding]
    loads: list[cst.Name]


def module_at_first(tree: Tree, variable: Variable, has_attribute: Callable[[str], bool]) -> Module | None:
    """What belongs to the module; None where the variable is not one first, or it is not clear up to where.

    `has_attribute` says whether the module has something of a name.
    """
    imports = [one for one in variable.bindings if one.kind == "import"]
    others = [one.statement for one in variable.bindings if one.kind != "import"]
    if len(imports) != 1 or not others or imports[0].statement is None or None in others:
        return None
    bound = [one for one in others if one is not None]
    own = [one for one in bound if one.function is imports[0].statement.function]
    turn = _turning_point(imports[0].statement, own)
    if turn is None or not all(one in own or _is_late(tree, one, turn) for one in bound):
        return None
    loads = []
    for load in variable.loads:
        is_early = _is_early(tree, load, turn, bound)
        if is_early is None:  # in a function that may be called at any time
            parent = tree.parents.get(load)
            if isinstance(parent, cst.Attribute) and has_attribute(parent.attr.value):
                return None
        if is_early:
            loads.append(load)
    return Module(imports, loads)


def _turning_point(imported: Statement, bound: Sequence[Statement]) -> Statement | None:
    """The statement beside an import that certainly binds the name to what a call makes, where it is the first one."""
    first = next((one for one in imported.next_siblings() if any(inner.inside(one) for inner in bound)), None)
    return first if first is not None and _binds(first, bound) else None


def _is_late(tree: Tree, bound: Statement, turn: Statement) -> bool:
    """True for `global model` in a function that nothing calls before: only the rest of the module speaks of it."""
    if bound.function.parent is not turn.function:
        return False
    function = bound.function
    mentions = [statement for name, statement in tree.every(cst.Name) if name.value == function.name]
    calls = [one for one in mentions if one.node is not function.node]
    return all(one.function is turn.function and _is_before(turn, one) for one in calls)


def _binds(statement: Statement, bound: Sequence[Statement]) -> bool:
    if statement in bound:
        return isinstance(statement.node, cst.Assign) and isinstance(statement.node.value, cst.Call)
    if not isinstance(statement.node, cst.If) or len(statement.blocks) != 2:
        return False
    return all(
        any(_binds(inner, bound) or isinstance(inner.node, cst.Raise) for inner in block.statements)
        for block in statement.blocks
    )


def _is_early(tree: Tree, load: cst.Name, turn: Statement, bound: Sequence[Statement]) -> bool | None:
    """True for a read of the module; None where it depends on when a function is called."""
    statement = tree.statement_of(load)
    inner = statement
    while statement.function is not turn.function and not statement.function.is_module:
        statement = tree.statements[statement.function.node]  # its definition
    beside = next((one for one in statement.path() if one.block is turn.block), None)
    if beside is None:
        return None
    if beside is not turn:
        return beside.index < turn.index if inner is statement or beside.index > turn.index else None
    return inner is statement and not any(_is_before(one, statement) for one in bound)


def _is_before(one: Statement, other: Statement) -> bool:
    """True where a statement has certainly run before another one does."""
    return any(outer.block is one.block and outer.index > one.index for outer in other.path())
