"""Code on disk that computes a binary cross entropy, which raises under autocast."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import Definition
from amp_migrate.files.definitions import definitions, values_of
from amp_migrate.files.syntax import names_in
from amp_migrate.models.queries import refused


def computes_bce(resolved: str) -> bool:
    """True where a function or class is found and computes a binary cross entropy, itself or by another one that it
    names, outside of any autocast of its own.
    """
    return any(computes(*found) for found in definitions(resolved, and_what_they_name=True))


@cache
def computes(file: Path, definition: Definition) -> bool:
    """True for a binary cross entropy, and for the name of one that stands at the top of a file."""
    if "autocast" in _names_called(definition):
        return False
    names = names_in(definition)
    values = (value for name in names for value in values_of(file, name))
    called = (_names_called(definition), *map(_names_in, values))
    return any(one & refused() for one in called)


def _names_called(node: ast.AST) -> set[str]:
    return {called_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}


def _names_in(value: ast.expr) -> set[str]:
    """Of `nn.BCELoss()`, `F.binary_cross_entropy` and `partial(F.binary_cross_entropy, reduction="sum")`."""
    return names_in(value) | {part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute)}
