"""What imports bind and calls name, in the trees of `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import binds, with the dotted names behind them; nothing for other nodes and for `*`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name, _below(_module(node), alias.name)


def stars_of(node: ast.AST) -> Iterator[str]:
    """The module, as it is written, whose names a star import takes over."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        yield _module(node)


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _below(module: str, name: str) -> str:
    return module + name if module.endswith(".") else f"{module}.{name}"


def called_name(call: ast.Call) -> str:
    """The last name of what is called: `all_reduce` for `dist.all_reduce(...)`; empty for what has none."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
