"""What belongs to a test: it checks what it does, so that it must go on doing exactly that."""

from __future__ import annotations

from pathlib import PurePath

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement

_PACKAGES = frozenset(("pytest", "unittest"))
_FOLDERS = frozenset(("test", "tests", "testing", "unittests"))


def is_in_test(facts: Facts, statement: Statement) -> bool:
    """True by the folder, the name of the file, the class or the function that a statement stands in.

    A script that is only named like a test (`char_cnn_test.py`) has nothing that a runner of tests would run.
    """
    path = PurePath(facts.file_of(statement.node).path)
    in_folder = bool(_FOLDERS & set(path.parts[:-1]))
    is_named = path.name.startswith("test_") or path.stem.endswith("_test")
    return in_folder or (is_named and _has_tests(facts, statement.function.root)) or _is_test(facts, statement.function)


def _has_tests(facts: Facts, root: Function) -> bool:
    """True for a module with tests of its own, or that imports a package for them."""
    own = [function for function in facts.tree.functions if function.root is root]
    imported = {
        (variable.import_path or "").partition(".")[0] for variable in facts.names.scope_of(root).variables.values()
    }
    return any(_is_test(facts, function) for function in own) or bool(imported & _PACKAGES)


def _is_test(facts: Facts, function: Function) -> bool:
    if function.owner is not None:
        return any("TestCase" in facts.text(base.value) for base in function.owner.node.bases)
    return function.name.startswith("test_")
