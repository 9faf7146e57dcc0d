"""Names that are put together when the script runs, as far as the code shows them.

eval("Decoder{}".format(kind))      every name of this file that begins with Decoder
globals()[f"{kind}_loss"]            every name of this file that ends in _loss
getattr(nets, "make_%s" % name)     every name of the module that begins with make_
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name


def looks_up_global(node: cst.Subscript) -> bool:
    """True for `globals()[name]`."""
    return (
        isinstance(node.value, cst.Call)
        and isinstance(node.value.func, cst.Name)
        and called_name(node.value) == "globals"
    )


def text_looked_up(node: cst.Call | cst.Subscript) -> cst.BaseExpression | None:
    """`name` of `eval(name)`, `getattr(nets, name)` and `globals()[name]`."""
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        return index.value if isinstance(index, cst.Index) else None
    place = 0 if called_name(node) == "eval" else 1
    return node.args[place].value if isinstance(node.func, cst.Name) and len(node.args) > place else None


def texts(node: cst.BaseExpression) -> Iterator[str | None]:
    """The parts of a text that is put together: what is constant in it, None for anything else."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        yield from texts(node.left)
        yield from texts(node.right)
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        yield from _pieces(_constant(node.left), r"%[-0-9.]*[a-z]")
    elif isinstance(node, cst.FormattedString):
        yield from (part.value if isinstance(part, cst.FormattedStringText) else None for part in node.parts)
    elif isinstance(node, cst.Call) and called_name(node) == "format" and isinstance(node.func, cst.Attribute):
        yield from _pieces(_constant(node.func.value), r"\{[^{}]*\}")
    else:
        yield _constant(node)


def _constant(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else None
    return value if isinstance(value, str) else None


def _pieces(text: str | None, gap: str) -> Iterator[str | None]:
    pieces = re.split(gap, text) if text is not None else []
    for index, piece in enumerate(pieces):
        yield from ([None] if index else [])
        yield from ([piece] if piece else [])
    if not pieces:
        yield None


def pattern_of(parts: list[str | None]) -> re.Pattern[str]:
    """The names that such a text may be."""
    return re.compile("".join(r"\w*" if part is None else re.escape(part) for part in parts))


def pattern_meant(values: list[cst.BaseExpression]) -> re.Pattern[str] | None:
    """The names that a text may be that has one of these values; None where all of one is open."""
    found = [list(texts(value)) for value in values]
    if not found or not all(any(parts) for parts in found):
        return None
    return re.compile("|".join(pattern_of(parts).pattern for parts in found))
