"""What only the source form used: `sys` after `if "apex" not in sys.modules` is gone, `opt_level = "O1"`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.names import Binding, Variable, bound_name
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.native.cleanup import remove_aliases
from amp_migrate.native.edits import Edits

# Calls that only look: a variable made by them can go with its last use.
_LOOKING = frozenset(
    "len enumerate range zip dict list tuple set str int float bool min max keys values items get".split()
)
_BY_NAME = frozenset("locals globals vars eval exec".split())
_IMPURE = (cst.Await, cst.Yield, cst.NamedExpr)
Place = tuple[str, str]


def drop_unused(after: Facts, before: Facts, *, is_program: bool) -> Edits:
    """Edits that remove the imports and variables that were read before the migration and are not after.

    Variables of the module go only with `is_program`: another file may import those of a library.
    """
    read = {_place(variable) for variable in before.names.all_variables() if variable.loads}
    reads_by_name = any(_reads_by_name(part) for part in walk(after.module))
    edits = Edits()
    for variable in after.names.all_variables():
        if variable.loads or _place(variable) not in read:
            continue
        if variable.import_path is not None:
            _remove_imports(variable, edits)
        elif (
            isinstance(variable.scope.owner, Function)
            and not reads_by_name
            and (is_program or not variable.scope.owner.is_module)
        ):
            for statement in _assignments(after, variable):
                edits.remove(statement)
    return edits


def _place(variable: Variable) -> Place:
    owner = variable.scope.owner
    return (owner.name if isinstance(owner, (Function, Class)) else "", variable.name)


def _reads_by_name(part: cst.CSTNode) -> bool:
    """`"...".format(**locals())` reads every variable."""
    return isinstance(part, cst.Call) and isinstance(part.func, cst.Name) and part.func.value in _BY_NAME


# -- imports --------------------------------------------------------------------------------------------


def _remove_imports(variable: Variable, edits: Edits) -> None:
    for binding in variable.bindings:
        if binding.statement is not None and isinstance(binding.node, (cst.Import, cst.ImportFrom)):
            assert not isinstance(binding.node.names, cst.ImportStar)
            goes = [alias for alias in binding.node.names if bound_name(alias).value == variable.name]
            remove_aliases(binding.statement, goes, edits)


# -- variables ------------------------------------------------------------------------------------------


def _assignments(facts: Facts, variable: Variable) -> list[Statement]:
    """The assignments of a variable, where all of them can go without anything else changing."""
    found = list(_removable(facts, variable))
    return found if len(found) == len(variable.bindings) else []


def _removable(facts: Facts, variable: Variable) -> Iterator[Statement]:
    for binding in variable.bindings:
        if _only_assigns(binding) and binding.statement is not None and _can_go(binding.statement):
            yield binding.statement


def _only_assigns(binding: Binding) -> bool:
    node = binding.statement.node if binding.statement is not None else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0].target, cst.Name):
        return False
    return _only_looks(node.value)


def _can_go(statement: Statement) -> bool:
    """Nothing but the statement goes: no comment behind it, and no block that means something without it."""
    if isinstance(statement.line, cst.SimpleStatementLine) and statement.line.trailing_whitespace.comment is not None:
        return False
    owner = statement.block.owner
    if len(statement.block.statements) > 1:
        return True
    return (
        owner is not None and isinstance(owner.node, cst.If) and not owner.node.orelse and _only_looks(owner.node.test)
    )


def _only_looks(node: cst.BaseExpression) -> bool:
    """True where evaluating an expression changes nothing."""
    calls = (called_name(part) in _LOOKING for part in walk(node) if isinstance(part, cst.Call))
    return all(calls) and not any(isinstance(part, _IMPURE) for part in walk(node))
