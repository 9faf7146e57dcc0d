"""The text of a module that comes with one of its names.

A script lends a function to another one: `from rank import evaluate` brings `evaluate` along, and the code on module
level, but none of what else `rank` defines. What `evaluate` calls there is a name of its own.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from amp_migrate.files.contents import Definition
from amp_migrate.files.syntax import tree_of

# Names that are put together at run time may mean whatever a file defines.
_ANY_NAME = re.compile(rb"(?<![.\w])(?:eval|globals|locals|vars|getattr)\(|__dict__")


def text_with(source: bytes, name: str) -> bytes:
    """The lines of a module without its other functions and classes, and without its part as a script; all of them
    where it is used as a whole (no name), or may look anything up. A decorator may put what it decorates anywhere.
    """
    if not name or _ANY_NAME.search(source):
        return source
    lines = source.splitlines(keepends=True)
    for apart, first, end in _apart(source):
        if apart != name:
            lines[first:end] = [b""] * (end - first)
    return b"".join(lines)


@lru_cache(maxsize=256)  # each name that is used of a file asks
def _apart(source: bytes) -> tuple[tuple[str | None, int, int], ...]:
    """What stays behind with the other names: definitions, and the part as a script (None), with their lines from 0."""
    found: list[tuple[str | None, int, int]] = []
    for node in tree_of(source).body:
        is_definition = isinstance(node, Definition) and not node.decorator_list
        if is_definition or _runs_as_script(node):
            found.append((getattr(node, "name", None), node.lineno - 1, node.end_lineno or node.lineno))
    return tuple(found)


def _runs_as_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') == '__name__ == "__main__"'
