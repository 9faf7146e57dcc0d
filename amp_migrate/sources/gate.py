"""The fast look at the syntax that follows the byte search: most words of a large package stand in its docstrings.

Python's own parser takes a seventh of the time of LibCST's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.files.syntax import parsed
from amp_migrate.sources.screen import (
    NATIVE_NAMES,
    may_hold_apex_amp,
    may_hold_native_amp,
    may_import_apex,
    may_train,
    may_use_fp16_utils,
)

_NATIVE = frozenset((*NATIVE_NAMES, "amp"))


def trains(source: bytes) -> bool:
    """False for a file without a call of `backward`, gradients given by hand and a word of apex.fp16_utils, and as
    `may_train` says.
    """
    return may_train(source) and (may_use_fp16_utils(source) or _holds(source, _makes_gradients))


def imports_apex(source: bytes) -> bool:
    """False for a file without an import of apex outside of texts and comments ("the way from apex to base")."""
    return may_import_apex(source) and _holds(source, _is_import_of_apex)


def holds_apex_amp(source: bytes) -> bool:
    """False for a file that certainly uses no apex.amp."""
    return may_hold_apex_amp(source) and imports_apex(source)


def holds_native_amp(source: bytes) -> bool:
    """False for a file without a name of native AMP outside of texts and comments."""
    return may_hold_native_amp(source) and _holds(source, _is_native)


def _holds(source: bytes, wanted: Callable[[ast.AST], bool]) -> bool:
    """True, too, for what does not parse: it is reported later."""
    try:
        return any(map(wanted, ast.walk(parsed(source))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _makes_gradients(node: ast.AST) -> bool:
    is_given = isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store)
    return is_given or _is_named(node, "backward")


def _is_named(node: ast.AST, name: str) -> bool:
    """True for `x.name`, and for an import of the name."""
    if isinstance(node, ast.ImportFrom):
        return any(one.name == name for one in node.names)
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_import_of_apex(node: ast.AST) -> bool:
    """True, too, for `from .compat import apex` and `import_module("apex.amp")`."""
    if isinstance(node, ast.ImportFrom) and "apex" in (node.module or "").split("."):
        return True
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any("apex" in alias.name.split(".") for alias in node.names)
    return isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func)


def _is_native(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return "amp" in (node.module or "").split(".")
    if isinstance(node, ast.alias):
        return not _NATIVE.isdisjoint(node.name.split(".")) or node.name == "*"
    return getattr(node, "attr", getattr(node, "id", None)) in _NATIVE
