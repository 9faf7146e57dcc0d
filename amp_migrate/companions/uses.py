"""Where a file uses Apex beside amp: every name that comes from it, followed through the file's own imports only.

What other files make of these names is asked about elsewhere, so that a file's migration does not depend on which
files are looked at together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.companions.table import COMPANIONS, WITHOUT_NATIVE_FORM, canonical
from amp_migrate.facts import Facts
from amp_migrate.facts.names import bound_name, dotted_text
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.facts.variables import Variable


@dataclasses.dataclass(frozen=True, eq=False)
class Use:
    """One place: `node` is the expression that means the companion `path`, `name` what its file calls it or its module.

    `variable` is that name's.
    """

    node: cst.BaseExpression
    path: str
    statement: Statement
    name: cst.Name
    variable: Variable


@dataclasses.dataclass(frozen=True, eq=False)
class ApexImport:
    """One name that an import statement brings from Apex.

    What a star import brings has no alias; a star import of a module that is not known has no variable either.
    """

    statement: Statement
    path: str
    alias: cst.ImportAlias | None
    variable: Variable | None


def imports_of_apex(facts: Facts, root: Function) -> Iterator[ApexImport]:
    """The imports of Apex in one file, name by name."""
    for statement in statements_of(facts, root):
        node = statement.node
        if isinstance(node, cst.ImportFrom):
            module = "" if node.relative or node.module is None else dotted_text(node.module)
            if not _is_apex(module):
                continue
            if isinstance(node.names, cst.ImportStar):
                yield from _star(facts, statement, module)
                continue
            for alias in node.names:
                variable = facts.names.variable_at(bound_name(alias))
                yield ApexImport(statement, canonical(f"{module}.{dotted_text(alias.name)}"), alias, variable)
        elif isinstance(node, cst.Import):
            for alias in node.names:
                if _is_apex(dotted_text(alias.name)):
                    variable = facts.names.variable_at(bound_name(alias))
                    path = dotted_text(alias.name) if alias.asname is not None else "apex"
                    yield ApexImport(statement, path, alias, variable)


def uses_of_apex(facts: Facts, root: Function) -> Iterator[Use]:
    """Every use in one file of what it imports from Apex, amp included, in source order of the blocks."""
    imports = list(imports_of_apex(facts, root))
    paths = {one.variable: one.path for one in imports if one.variable is not None}
    for statement in statements_of(facts, root):
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            continue
        for name in facts.tree.expressions(statement):
            if not isinstance(name, cst.Name) or facts.tree.is_label(name):
                continue
            variable = facts.names.variable_at(name)
            if variable is not None and variable in paths and name in variable.loads:
                yield _use(facts, statement, name, paths[variable], variable)


def _star(facts: Facts, statement: Statement, module: str) -> Iterator[ApexImport]:
    if module not in APEX_EXPORTS:
        yield ApexImport(statement, module, None, None)
    for variable in facts.names.variables_of(statement):
        yield ApexImport(statement, canonical(f"{module}.{variable.name}"), None, variable)


def is_known(path: str) -> bool:
    """True for what the table has: a companion, or something of Apex that has no native form."""
    return path in COMPANIONS or hint_of(path) is not None


def hint_of(path: str) -> str | None:
    """What to do about something without a native form, by itself or by the package that holds it."""
    parts = path.split(".")
    heads = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
    return next((WITHOUT_NATIVE_FORM[head] for head in heads if head in WITHOUT_NATIVE_FORM), None)


def statements_of(facts: Facts, root: Function) -> Iterator[Statement]:
    """Every statement of one file."""
    return (statement for statement in facts.tree.all_statements() if statement.function.root is root)


def _use(facts: Facts, statement: Statement, name: cst.Name, path: str, variable: Variable) -> Use:
    """The use that a name begins: `apex.parallel.LARC` for `apex`, and no further than what the table has."""
    node: cst.BaseExpression = name
    parent = facts.tree.parents.get(node)
    while isinstance(parent, cst.Attribute) and parent.value is node and not is_known(path):
        node, path = parent, canonical(f"{path}.{parent.attr.value}")
        parent = facts.tree.parents.get(node)
    return Use(node, path, statement, name, variable)


def _is_apex(dotted: str) -> bool:
    return dotted == "apex" or dotted.startswith("apex.")
