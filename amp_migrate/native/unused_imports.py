"""Imports whose last use went with the source form: `sys` after `if "apex" not in sys.modules` is gone."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.names import Variable
from amp_migrate.facts.tree import Class, Function
from amp_migrate.native.cleanup import remove_aliases
from amp_migrate.native.edits import Edits


def drop_unused_imports(after: Facts, before: Facts) -> Edits:
    """Edits that remove the imports that were used before the migration and are not after."""
    used = {_place(variable) for variable in before.names.all_variables() if variable.loads}
    edits = Edits()
    for variable in after.names.all_variables():
        if variable.loads or _place(variable) not in used or variable.import_path is None:
            continue
        for binding in variable.bindings:
            if binding.statement is not None and isinstance(binding.node, (cst.Import, cst.ImportFrom)):
                assert not isinstance(binding.node.names, cst.ImportStar)
                goes = [alias for alias in binding.node.names if _binds(alias, variable)]
                remove_aliases(binding.statement, goes, edits)
    return edits


def _place(variable: Variable) -> tuple[str, str]:
    owner = variable.scope.owner
    return (owner.name if isinstance(owner, (Function, Class)) else "", variable.name)


def _binds(alias: cst.ImportAlias, variable: Variable) -> bool:
    name: cst.BaseExpression = alias.asname.name if alias.asname is not None else alias.name
    while isinstance(name, cst.Attribute):
        name = name.value
    return isinstance(name, cst.Name) and name.value == variable.name
