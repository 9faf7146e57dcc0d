"""Names that mean one thing first and then another.

import model
...
model = model.NCF(users, items)      reads up to here mean the module
model.cuda()                         and the others what it made, also behind `global model` in a function called later

from engine import do_train
...
def do_train(model, loader):         nothing means that of the engine from here on

def load_checkpoint(model, path):
    ...
def load_checkpoint(args, model):    so does the last of several definitions

import loss
...
for x in loader:
    loss = criterion(net(x))         reads that only this reaches mean what it made
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Function, Statement, Tree
from amp_migrate.facts.variables import Binding, Variable


@dataclasses.dataclass(frozen=True)
class First:
    """What the variable is at first: what binds it so, and the reads that mean this."""

    bindings: list[Binding]
    loads: list[cst.Name]


def meant_at_first(tree: Tree, variable: Variable, has_attribute: Callable[[str], bool]) -> First | None:
    """What belongs to the first import of the name; None where it is not clear up to where.

    `has_attribute` says whether a module that the name is first has something of a name.
    """
    first, others = variable.bindings[0], [one.statement for one in variable.bindings[1:]]
    if first.kind not in ("import", "def", "class") or not others or first.statement is None or None in others:
        return None
    bound = [one for one in others if one is not None]
    own = [one for one in bound if one.function is first.statement.function]
    turn = _turning_point(first.statement, own)
    if turn is None or not all(one in own or _is_late(tree, one.function, turn) for one in bound):
        return _never_later(tree, variable) if first.kind == "import" else None
    if first.kind != "import" and isinstance(turn.node, cst.Assign):
        return None  # `step = wrap(step)` runs what it was at first
    is_module = isinstance(first.node, cst.Import) or all(isinstance(one.node, cst.Assign) for one in own)
    loads = []
    for load in variable.loads:
        is_early = _is_early(tree, load, turn, bound)
        if is_early is None and not _is_late(tree, tree.function_of(load), turn):
            parent = tree.parents.get(load)
            if not is_module or (isinstance(parent, cst.Attribute) and has_attribute(parent.attr.value)):
                return None
        if is_early:
            loads.append(load)
    return First([first], loads)


def _never_later(tree: Tree, variable: Variable) -> First | None:
    """The same where no read may mean both, and all stand in one function."""
    first = variable.bindings[0]
    known = {load: reaching(variable, tree.statement_of(load)) for load in variable.loads}
    early = [load for load, found in known.items() if first in found]
    is_own = all(tree.function_of(one) is variable.scope.owner for one in known)
    is_sure = first.statement is not None and len(first.statement.path()) == 1 and len(early) < len(known)
    return First([first], early) if is_own and is_sure and all(len(known[one]) == 1 for one in early) else None


def _turning_point(before: Statement, bound: Sequence[Statement]) -> Statement | None:
    """The statement beside another that certainly binds the name to something else, where it is the first one."""
    first = next((one for one in before.next_siblings() if any(inner.inside(one) for inner in bound)), None)
    return first if first is not None and _binds(first, bound) else None


def _is_late(tree: Tree, function: Function, turn: Statement, seen: frozenset[Function] = frozenset()) -> bool:
    """True for a function that nothing calls before: only the rest of the module speaks of it, or what is late, too."""
    if function.parent is not turn.function or function.owner is not None:
        return False
    seen |= {function}
    mentions = [statement for name, statement in tree.every(cst.Name) if name.value == function.name]
    return all(
        turn.runs_before(one) if one.function is turn.function else _is_late(tree, one.function, turn, seen)
        for one in mentions
        if one.function.root is turn.function.root and one.node is not function.node and one.function not in seen
    )


def _binds(statement: Statement, bound: Sequence[Statement]) -> bool:
    if statement in bound:
        is_made = isinstance(statement.node, cst.Assign) and isinstance(statement.node.value, cst.Call)
        return is_made or isinstance(statement.node, (cst.FunctionDef, cst.ClassDef, cst.ImportFrom))
    if not isinstance(statement.node, cst.If) or len(statement.blocks) != 2:
        return False
    return all(
        any(_binds(inner, bound) or isinstance(inner.node, cst.Raise) for inner in block.statements)
        for block in statement.blocks
    )


def _is_early(tree: Tree, load: cst.Name, turn: Statement, bound: Sequence[Statement]) -> bool | None:
    """True for a read of what the name means first; None where it depends on when a function is called."""
    statement = tree.statement_of(load)
    inner = statement
    while statement.function is not turn.function and not statement.function.is_module:
        statement = tree.statements[statement.function.node]  # its definition
    beside = next((one for one in statement.path() if one.block is turn.block), None)
    if beside is None:
        return None
    if beside is not turn:
        return beside.index < turn.index if inner is statement or beside.index > turn.index else None
    return inner is statement and not any(one.runs_before(statement) for one in bound)
