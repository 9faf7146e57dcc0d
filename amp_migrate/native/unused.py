"""What only the source form used: `sys` after `if "apex" not in sys.modules` is gone, `opt_level = "O1"`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.exports import is_exported, names_in_all
from amp_migrate.facts.names import bound_name
from amp_migrate.facts.tree import Function, Statement, walk
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.native.cleanup import remove_aliases, remove_items
from amp_migrate.native.comments import comment_behind
from amp_migrate.native.edits import Edits
from amp_migrate.plan.purity import only_looks

_BY_NAME = frozenset("locals globals vars eval exec".split())


def drop_unused(after: Facts, before: Facts, programs: Collection[str]) -> Edits:
    """Edits that remove the imports and variables that were read before the migration and are not after.

    Variables of a module go only in `programs`, given by path: another file may import those of a library.
    """
    edits = Edits()
    _remove_imports(after, before, edits)
    _remove_exports(after, before, edits)
    _remove_answers(after, before, edits)
    read = before.places(lambda variable: variable.is_read)
    reads_by_name = any(_reads_by_name(part) for root in after.tree.roots for part in walk(root.node))
    for variable in after.names.all_variables():
        path, owner, _ = place = after.place(variable)
        if variable.is_read or place not in read or is_exported(after, variable):
            continue
        if isinstance(variable.scope.owner, Function) and not reads_by_name and (path in programs or owner):
            for statement in _assignments(after, variable):
                edits.remove(statement)
    return edits


def _is_loaded(variable: Variable) -> bool:
    return bool(variable.loads)


def _reads_by_name(part: cst.CSTNode) -> bool:
    """`"...".format(**locals())` reads every variable."""
    return isinstance(part, cst.Call) and isinstance(part.func, cst.Name) and part.func.value in _BY_NAME


# -- imports --------------------------------------------------------------------------------------------


def _remove_imports(after: Facts, before: Facts, edits: Edits) -> None:
    """Names that their file read and reads no more, and names that the module they came from has no more."""
    loaded = before.places(_is_loaded)
    goes: dict[Statement, list[cst.ImportAlias]] = {}
    for variable in after.names.all_variables():
        if variable.loads:
            continue
        was_read = after.place(variable) in loaded and variable.import_path is not None
        is_unused = was_read and not variable.importers and not is_exported(after, variable)
        for binding in variable.bindings:
            if (is_unused and binding.kind == "import") or _lost_its_source(binding, after, before):
                assert binding.statement is not None
                goes.setdefault(binding.statement, []).extend(_aliases(binding, variable.name))
    for statement, aliases in goes.items():
        if aliases:  # none of a star import, which goes as a whole or stays
            remove_aliases(statement, aliases, edits)


def _aliases(binding: Binding, name: str) -> Iterator[cst.ImportAlias]:
    assert isinstance(binding.node, (cst.Import, cst.ImportFrom))
    if isinstance(binding.node.names, cst.ImportStar):
        return iter(())
    return (alias for alias in binding.node.names if bound_name(alias).value == name)


def _lost_its_source(binding: Binding, after: Facts, before: Facts) -> bool:
    """True for an import from a module of the unit that defined the name before the migration."""
    if binding.path is None or after.names.variable_behind(binding.path) is not None:
        return False
    return before.names.variable_behind(binding.path) is not None


def _remove_exports(after: Facts, before: Facts, edits: Edits) -> None:
    """Names in `__all__` that the module has no more."""
    goes: dict[cst.CSTNode, list[cst.BaseElement]] = {}
    for old, new in zip(before.tree.roots, after.tree.roots, strict=True):
        had, has = before.names.scope_of(old).variables, after.names.scope_of(new).variables
        for name, element in names_in_all(after, new):
            if name in had and name not in has:
                goes.setdefault(after.tree.parents[element], []).append(element)
    for names, elements in goes.items():
        remove_items(names, "elements", elements, edits)


def _remove_answers(after: Facts, before: Facts, edits: Edits) -> None:
    """Functions that said whether Apex is there, `return _has_apex` before and `return True` now, which nobody in the
    project calls any more.
    """
    answers = [function for function in after.tree.functions if _says_true(function)]
    asked = before.places(_is_loaded) if answers else set()
    constant = {before.name_of(function) for function in before.tree.functions if answers and _says_true(function)}
    for function in answers:
        assert function.parent is not None
        variable = after.names.scope_of(function.parent).variables[function.name]
        is_new = after.place(variable) in asked and after.name_of(function) not in constant
        if is_new and len(variable.bindings) == 1 and not variable.is_read and not is_exported(after, variable):
            if not after.is_used_outside(function):
                edits.remove(after.tree.statement_of(function.node))


def _says_true(function: Function) -> bool:
    """True for a function of a module that is nothing but `return True`, without decorators."""
    node = function.node
    body = function.body.statements
    is_inner = function.parent is None or not function.parent.is_module or function.owner is not None
    if is_inner or not isinstance(node, cst.FunctionDef) or node.decorators or len(body) != 1:
        return False
    only = body[0].node
    return isinstance(only, cst.Return) and isinstance(only.value, cst.Name) and only.value.value == "True"


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
    return only_looks(node.value)


def _can_go(statement: Statement) -> bool:
    """Nothing but the statement goes: no comment behind it, and no block that means something without it."""
    if comment_behind(statement.line) is not None:
        return False
    owner = statement.block.owner
    if len(statement.block.statements) > 1:
        return True
    return (
        owner is not None and isinstance(owner.node, cst.If) and not owner.node.orelse and only_looks(owner.node.test)
    )
