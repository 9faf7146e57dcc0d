"""What becomes of comments: those of statements that go, and those that only seem to belong to them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import libcst as cst

from amp_migrate.facts.tree import Block, Statement, Tree

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
_ABOUT_THE_FORM = re.compile(r"apex|\bamp\b|fp16|half|mixed|precision|loss.?scale", re.IGNORECASE)
_NAMES_OF_THE_FORM = re.compile(r"apex|amp\.\w|FP16_Optimizer|network_to_half", re.IGNORECASE)


def comment_behind(line: cst.CSTNode) -> cst.Comment | None:
    """The comment that stands on the line of simple statements."""
    return line.trailing_whitespace.comment if isinstance(line, cst.SimpleStatementLine) else None


def leading(line: Line) -> list[cst.EmptyLine]:
    """The comments and blank lines above a line."""
    return list(line.leading_lines)


def with_leading(line: Line, above: Sequence[cst.EmptyLine]) -> Line:
    """The line under other comments and blank lines."""
    return line.with_changes(leading_lines=list(above))


def split_leading(above: list[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """What stands above a statement, and the comments directly above it, which are about the statement."""
    first = len(above)
    while first and above[first - 1].comment is not None:
        first -= 1
    return above[:first], above[first:]


def about_other_things(found: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Lines without the comments about mixed precision; comment lines that follow each other are one comment."""
    kept: list[cst.EmptyLine] = []
    for is_comment, group in itertools.groupby(found, key=lambda line: line.comment is not None):
        lines = list(group)
        text = " ".join(line.comment.value for line in lines if line.comment is not None)
        if not is_comment or not _ABOUT_THE_FORM.search(text):
            kept.extend(lines)
    return kept


def name_what_goes(found: Sequence[cst.Comment]) -> bool:
    """True for comments about Apex, and for calls of it that are commented out."""
    return any(_NAMES_OF_THE_FORM.search(comment.value) for comment in found)


def join(first: Sequence[cst.EmptyLine], second: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Lines left over from a removed statement before those of the next: one gap, not the sum of two."""
    first, second = list(first), list(second)
    while first and second and first[-1].comment is None and second[0].comment is None:
        first.pop()
    if first and all(line.comment is None for line in first) and any(line.comment is None for line in second):
        first = []
    return [*first, *second]


def after_block(tree: Tree, block: Block) -> list[cst.EmptyLine]:
    """The lines at the end of a block that are about what follows it.

    A comment that is indented as the block makes everything before it part of the block, for the parser; for
    the reader, from the first comment at the left of the block on, they belong to what follows.
    """
    inner = after_statement(tree, block.statements[-1]) if block.statements else []
    if isinstance(block.node, cst.IndentedBlock):
        column = len(indentation(tree, block))
        inner = [line for line in inner if line.comment is None or len(line.whitespace.value) < column]
    return [*inner, *split_footer(tree, block)[1]]


def after_statement(tree: Tree, statement: Statement) -> list[cst.EmptyLine]:
    """The same for a whole statement: the lines at the end of its last block."""
    return after_block(tree, statement.blocks[-1]) if statement.blocks else []


def split_footer(tree: Tree, block: Block) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """The lines at the end of a block: its own, and those about what follows, which stay where they are."""
    footer = list(block.node.footer) if isinstance(block.node, cst.IndentedBlock) else []
    first = next((at for at, line in enumerate(footer) if line.comment is not None and not line.indent), len(footer))
    while 0 < first < len(footer) and footer[first - 1].comment is None:
        first -= 1
    return footer[:first], [_at_its_column(line, indentation(tree, block)) for line in footer[first:]]


def indentation(tree: Tree, block: Block) -> str:
    """The white space before each statement of a block."""
    text = ""
    current: Block | None = block
    while current is not None:
        if isinstance(current.node, cst.IndentedBlock):
            text = own_indent(current) + text
        owner = tree.owner_of(current)
        current = owner.block if owner is not None else None
    return text


def own_indent(block: Block) -> str:
    """How much deeper the statements of a block are than its header; at the top of a file, what is usual in it."""
    if isinstance(block.node, cst.IndentedBlock) and block.node.indent is not None:
        return block.node.indent
    module = block.function.root.node
    assert isinstance(module, cst.Module)
    return module.default_indent


def _at_its_column(line: cst.EmptyLine, outside: str) -> cst.EmptyLine:
    if not line.indent or line.comment is None:
        return line
    return line.with_changes(indent=False, whitespace=cst.SimpleWhitespace(outside + line.whitespace.value))


def with_header_comment(line: Line, header: cst.TrailingWhitespace | None) -> Line:
    """A comment behind a header that goes moves to the first line that stays, unless that line says the same."""
    if header is None or header.comment is None:
        return line
    own = comment_behind(line)
    if own is not None and own.value == header.comment.value:
        return line
    if isinstance(line, cst.SimpleStatementLine) and own is None:
        return line.with_changes(trailing_whitespace=header)
    comment = cst.EmptyLine(comment=header.comment)
    return with_leading(line, [comment, *leading(line)])


def said_of_the_only_line(blocks: list[Block]) -> list[cst.Comment]:
    """The comments above and behind the line of a block that has no other; of longer blocks none is taken over."""
    found: list[cst.Comment] = []
    for block in blocks:
        lines = block.node.body if isinstance(block.node, cst.IndentedBlock) else []
        if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine):
            found += [above.comment for above in lines[0].leading_lines if above.comment is not None]
            found += [lines[0].trailing_whitespace.comment] if lines[0].trailing_whitespace.comment is not None else []
    return found


def with_comments(line: Line, comments: list[cst.Comment]) -> Line:
    """A line below some comments; those that stand there stand there once."""
    above = leading(line)
    known = {one.comment.value for one in above if one.comment is not None}
    return with_leading(line, [*above, *(cst.EmptyLine(comment=one) for one in comments if one.value not in known)])
