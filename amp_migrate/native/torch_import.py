"""The name that torch is bound to, and an import of it where there is none (rule J1)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, names_in
from amp_migrate.native.edits import Edits
from amp_migrate.plan.model import Recognition


def torch_name(facts: Facts) -> str | None:
    """What the module calls torch at its top level; None where it does not import it."""
    for variable in facts.names.module_scope.variables.values():
        if variable.import_path == "torch" and all(binding.kind == "import" for binding in variable.bindings):
            if not all(_for_type_checkers(binding.statement) for binding in variable.bindings):
                return variable.name
    return None


def _for_type_checkers(statement: Statement | None) -> bool:
    """True below `if TYPE_CHECKING:`, which never runs."""
    outer = statement.path()[:-1] if statement is not None else []
    return any(isinstance(one.node, cst.If) and "TYPE_CHECKING" in names_in(one.node.test) for one in outer)


def add_torch_import(facts: Facts, found: Recognition, edits: Edits) -> None:
    """`import torch` in the place of the source form's import at the top, else after the other imports there."""
    leading = list(_leading_imports(facts))
    setups = [setup.statement.path()[0].index for setup in found.setups if setup.statement.function.is_module]
    replaced = [statement.path()[0] for statement in found.imports if statement.function.is_module]
    replaced = [place for place in replaced if all(place.index < setup for setup in setups)]
    place = replaced[0] if replaced else leading[-1] if leading else None
    if place is not None:
        edits.insert_after(place, "import torch")
    else:
        edits.insert_before(facts.tree.root.body.statements[0], "import torch")


def _leading_imports(facts: Facts) -> Iterator[Statement]:
    """The imports that the module begins with."""
    for statement in facts.tree.root.body.statements:
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            yield statement
        elif not isinstance(statement.node, (cst.Try, cst.If)) and not (
            isinstance(statement.node, cst.Expr) and isinstance(statement.node.value, cst.SimpleString)
        ):
            return
