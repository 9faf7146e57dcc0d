"""The text of a module that comes with one of its names.

A script lends a function to another one: `from rank import evaluate` brings `evaluate` along, and the code on module
level, but none of what else `rank` defines. What `evaluate` calls there is a name of its own.
"""

from __future__ import annotations

import ast
import re

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
    for node in tree_of(source).body:
        if _is_other(node, name) or _runs_as_script(node):
            lines[node.lineno - 1 : node.end_lineno] = [b""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return b"".join(lines)


def _is_other(node: ast.stmt, name: str) -> bool:
    return isinstance(node, Definition) and node.name != name and not node.decorator_list


def _runs_as_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') == '__name__ == "__main__"'
