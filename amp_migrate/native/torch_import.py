"""The name that torch is bound to, and an import of it where there is none (rule J1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, names_in
from amp_migrate.native.edits import Edits
from amp_migrate.plan.model import Recognition


def torch_name(facts: Facts, root: Function) -> str | None:
    """What a module calls torch at its top level; None where it does not import it, and no star import brings it."""
    for variable in facts.names.scope_of(root).variables.values():
        if variable.import_path == "torch" and all(binding.kind == "import" for binding in variable.bindings):
            if not all(_for_type_checkers(binding.statement) for binding in variable.bindings):
                return variable.name
    return next((name for name in _read_of_stars(facts, root) if _is_brought(facts, root, name)), None)


def _read_of_stars(facts: Facts, root: Function) -> Iterator[str]:
    """What a module may have torch's name from by a star: that itself, and whatever it reads and does not bind."""
    yield "torch"
    if root in facts.names.star_imports:
        for part, statement in facts.tree.every(cst.Attribute):
            if statement.function.root is root and isinstance(part.value, cst.Name):
                yield part.value.value


def _is_brought(facts: Facts, root: Function, name: str) -> bool:
    functions = (one for one in facts.tree.functions if one.root is root)
    if any(name in facts.names.scope_of(function).variables for function in functions):
        return False  # of another meaning somewhere: `for t in range(steps)`
    if name != "torch" and any(_binds(facts, module, name) for module in facts.names.star_imports.get(root, [])):
        return False
    brought = facts.names.star_imported(name, root)
    return brought is not None and brought.import_path == "torch"


def _binds(facts: Facts, module: str, name: str) -> bool:
    """True where a module, of the unit or not, has a value of its own by that name: `t = time.time()`."""
    return facts.elsewhere.source_of(f"{module}.{name}") is not None


def _for_type_checkers(statement: Statement | None) -> bool:
    """True below `if TYPE_CHECKING:`, which never runs."""
    outer = statement.path()[:-1] if statement is not None else []
    return any(isinstance(one.node, cst.If) and "TYPE_CHECKING" in names_in(one.node.test) for one in outer)


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
