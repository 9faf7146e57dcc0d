"""An import of torch where there is none (rule J1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.native.edits import Edits
from amp_migrate.plan.model import Recognition


def add_torch_import(facts: Facts, root: Function, found: Recognition, edits: Edits) -> None:
    """`import torch` before the imports of torch's parts, else in the place of the source form's import at the top,
    else among the other imports there, before those of the project's own modules.
    """
    statements = root.body.statements
    setups = [setup.statement.path()[0].index for setup in found.setups if setup.statement.function is root]
    parts = [
        statement
        for statement in statements[: min(setups, default=None)]
        if _is_import(statement) and _module_of(facts, statement) == "torch"
    ]
    leading = list(_leading(root))
    replaced = [place for statement in found.imports if (place := statement.path()[0]) in leading]
    imports = [statement for statement in leading if _is_import(statement)]
    if parts:
        edits.insert_before(parts[0], "import torch")
    elif replaced:
        edits.insert_after(replaced[0], "import torch")
    elif imports:
        _add_among(facts, root, imports, edits)
    else:
        edits.insert_before(statements[0], "import torch")


def _add_among(facts: Facts, root: Function, imports: list[Statement], edits: Edits) -> None:
    """Before the imports of the project's own modules; between those and the standard library's it is a group."""
    others = list(takewhile(lambda statement: not _is_of_project(facts, root, statement), imports))
    if others:
        is_group = _module_of(facts, others[-1]) in sys.stdlib_module_names and others != imports
        edits.insert_after(others[-1], "\nimport torch" if is_group else "import torch")
    else:
        edits.insert_before(imports[0], "import torch")


def _leading(root: Function) -> Iterator[Statement]:
    """The imports that a module begins with, those in a `try` or an `if` included."""
    for statement in root.body.statements:
        if _is_import(statement) or isinstance(statement.node, (cst.Try, cst.If)):
            yield statement
        elif not (isinstance(statement.node, cst.Expr) and isinstance(statement.node.value, cst.SimpleString)):
            return


def _is_of_project(facts: Facts, root: Function, statement: Statement) -> bool:
    """True for an import of what lies beside the file."""
    bound = [
        variable.import_path
        for variable in facts.names.scope_of(root).variables.values()
        if any(binding.statement is statement for binding in variable.bindings)
    ]
    return any(path is not None and facts.elsewhere.is_there(path) for path in bound)


def _is_import(statement: Statement) -> bool:
    return isinstance(statement.node, (cst.Import, cst.ImportFrom))


def _module_of(facts: Facts, statement: Statement) -> str:
    """The first name in `import torch.nn as nn` and `from torch.nn import Linear`."""
    return facts.text(statement.node).split()[1].split(".")[0]
