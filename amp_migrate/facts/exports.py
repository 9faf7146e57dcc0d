"""What others may import from a module, whether they are known or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.facts.variables import Variable


def is_exported(facts: Facts, variable: Variable) -> bool:
    """True for a name in `__all__`, and for what an `__init__.py` imports from other modules to pass it on."""
    owner = variable.scope.owner
    if not isinstance(owner, Function) or not owner.is_module:
        return False
    if any(variable.name == name for name, _ in names_in_all(facts, owner)):
        return True
    is_package = PurePath(facts.files[owner].path).name == "__init__.py"
    return is_package and any(isinstance(binding.node, cst.ImportFrom) for binding in variable.bindings)


def names_in_all(facts: Facts, root: Function) -> Iterator[tuple[str, cst.BaseElement]]:
    """The names in the lists and tuples that a module assigns to `__all__`, with the elements that hold them."""
    variable = facts.names.scope_of(root).variables.get("__all__")
    for binding in variable.bindings if variable is not None else ():
        if isinstance(binding.value, (cst.List, cst.Tuple)):
            for element in binding.value.elements:
                if isinstance(element.value, cst.SimpleString):
                    yield str(element.value.evaluated_value), element
