"""The name that torch is bound to in a file."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, names_in


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
