"""Lines that move into a block, or out of one, and how deep a new block is."""

from __future__ import annotations

import re
from collections import Counter

import libcst as cst

from amp_migrate.facts.tree import Block, walk
from amp_migrate.native.comments import Line, own_indent


def indent_below(block: Block) -> str:
    """How much deeper a new block is than the one that it stands in: as that one, or as those that stand in it.

    Where these differ, what is usual in the file decides; the bodies of functions and classes do not count, since they
    are indented by eight columns in files where everything else is indented by four.
    """
    own = own_indent(block)
    nested = [inner for statement in block.statements for inner in statement.blocks]
    found = [own, *(own_indent(inner) for inner in nested if isinstance(inner.node, cst.IndentedBlock))]
    if len(set(found)) == 1:
        return own
    usual = _indents(block.function.root.node)
    return max(found, key=lambda indent: usual[indent])


def _indents(module: cst.CSTNode) -> Counter[str]:
    """How often the statements of a file that hold others are indented by how much."""
    assert isinstance(module, cst.Module)
    bodies = (getattr(node, "body", None) for node in walk(module) if not isinstance(node, _DEFINITIONS))
    blocks = (body for body in bodies if isinstance(body, cst.IndentedBlock))
    return Counter(module.default_indent if block.indent is None else block.indent for block in blocks)


_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def shifted(line: Line, indent: str, *, deeper: bool) -> Line:
    """A line with another indentation; one continued with a backslash carries it in the text."""
    shifted = line.visit(_Shifted(indent, deeper))
    assert isinstance(shifted, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return shifted


class _Shifted(cst.CSTTransformer):
    def __init__(self, indent: str, deeper: bool) -> None:
        super().__init__()
        self._indent = indent
        self._deeper = deeper

    def leave_EmptyLine(self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine) -> cst.EmptyLine:
        """A blank line that moves loses its white space: where it was, it would be changed as well."""
        if updated_node.comment is not None:
            return updated_node
        return updated_node.with_changes(indent=False, whitespace=cst.SimpleWhitespace(""))

    def leave_SimpleWhitespace(
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.SimpleWhitespace:
        value = updated_node.value
        if "\n" not in value and "\r" not in value:
            return updated_node
        before, newline, rest = re.split(r"(\r\n|\n|\r)", value, maxsplit=1)
        rest = self._indent + rest if self._deeper else rest.removeprefix(self._indent)
        return updated_node.with_changes(value=before + newline + rest)
