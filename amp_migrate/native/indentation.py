"""Lines that move into a block, or out of one."""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.native.comments import Line


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
