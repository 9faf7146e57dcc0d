"""The one pass that applies edits: blocks are rebuilt statement by statement, comments travel along."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import dropwhile

import libcst as cst

from amp_migrate.facts.conditions import negated
from amp_migrate.facts.tree import Block, Function, Statement, Tree
from amp_migrate.native.comments import (
    Line,
    about_other_things,
    after_statement,
    join,
    leading,
    name_what_goes,
    own_indent,
    said_of_the_only_line,
    split_footer,
    split_leading,
    with_comments,
    with_header_comment,
    with_leading,
)
from amp_migrate.native.edits import Edits, Wrap
from amp_migrate.native.expressions import Rewriter
from amp_migrate.native.indentation import indent_below, shifted

_LINES = (cst.SimpleStatementLine, cst.SimpleStatementSuite)


def apply_edits(tree: Tree, root: Function, edits: Edits) -> cst.Module:
    """One of the modules with all its edits made."""
    return _Applier(tree, root, edits).module()


@dataclasses.dataclass
class _Output:
    """New lines in the place of one old statement, and comments left over after them."""

    lines: list[Line]
    rest: list[cst.EmptyLine] = dataclasses.field(default_factory=list)
    index: int = 0
    last: int = 0


class _Applier:
    def __init__(self, tree: Tree, root: Function, edits: Edits) -> None:
        assert isinstance(root.node, cst.Module)
        self.tree = tree
        self.root = root
        self.original = root.node
        self.edits = edits
        self.config = root.node.config_for_parsing
        self._wraps: dict[Block, list[Wrap]] = {}
        for wrap in sorted(edits.wraps, key=lambda wrap: wrap.last.index - wrap.first.index):
            self._wraps.setdefault(wrap.first.block, []).append(wrap)
        self._touched = self._statements_touched()

    def module(self) -> cst.Module:
        module = self.original
        lines, footer = self._block_lines(self.root.body)
        if footer:
            module = module.with_changes(footer=[*footer, *module.footer])
        if not lines and not module.header and not module.footer:
            return module.with_changes(body=[], has_trailing_newline=False)
        if lines:
            module = module.with_changes(header=self._top(leading(lines[0])))
            lines[0] = with_leading(lines[0], [])
        return module.with_changes(body=lines)

    def _top(self, above: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
        """The lines above the first statement, which may have been another one: no blank line begins the file."""
        if not self.original.header:
            above = list(dropwhile(lambda line: line.comment is None, above))
        return join(self.original.header, above)

    def _statements_touched(self) -> set[Statement]:
        """The statements with an edit in them, and everything around those."""
        touched: set[Statement] = set()
        for node in self.edits.nodes():
            self._touch(self.tree.statement_of(node), touched)
        return touched

    def _touch(self, statement: Statement, touched: set[Statement]) -> None:
        current: Statement | None = statement
        while current is not None and current not in touched:
            touched.add(current)
            current = self.tree.owner_of(current.block)

    # -- blocks -----------------------------------------------------------------------------------------

    def _block_lines(self, block: Block) -> tuple[list[Line], list[cst.EmptyLine]]:
        """The new lines of a block and the comments left over at its end."""
        outputs = self._outputs(block)
        for wrap in self._wraps.get(block, []):
            inside = [one for one in outputs if wrap.first.index <= one.last and one.index <= wrap.last.index]
            at = outputs.index(inside[0])
            outputs[at : at + len(inside)] = [self._wrapped(wrap, inside, block)]
        lines, pending = self._sequence(outputs)
        if lines and block is not self.root.body and not outputs[0].lines:
            first = [line for line in leading(lines[0]) if line.comment is not None]
            lines[0] = with_leading(lines[0], first)  # no blank line at the top of a body
        return lines, [line for line in pending if line.comment is not None]

    def _sequence(self, outputs: list[_Output]) -> tuple[list[Line], list[cst.EmptyLine]]:
        """Outputs one after the other; what is left over of one goes above the next."""
        lines: list[Line] = []
        pending: list[cst.EmptyLine] = []
        for output in outputs:
            if output.lines:
                lines.append(with_leading(output.lines[0], join(pending, leading(output.lines[0]))))
                lines.extend(output.lines[1:])
                pending = list(output.rest)
            else:
                pending = join(pending, output.rest)
        return lines, pending

    def _outputs(self, block: Block) -> list[_Output]:
        outputs = []
        statements = block.statements
        index = 0
        while index < len(statements):
            statement = statements[index]
            if isinstance(statement.node, cst.BaseSmallStatement):
                shared = [other for other in statements[index:] if other.line is statement.line]
                output = self._small_line(shared)
                index += len(shared)
            else:
                output = self._compound(statement)
                index += 1
            output.index, output.last = statement.index, index - 1
            outputs.append(output)
        return outputs

    def _wrapped(self, wrap: Wrap, outputs: list[_Output], block: Block) -> _Output:
        lines, pending = self._sequence(outputs)
        if wrap.tail is not None:
            lines.append(self._parse(wrap.tail))
        header = self._parse(f"{wrap.header}:\n    pass")
        assert isinstance(header, (cst.With, cst.If))
        above = leading(lines[0])
        lines[0] = with_leading(lines[0], [])
        indent = indent_below(block)  # that of its neighbours: a file may be indented in several ways
        lines = [shifted(line, indent, deeper=True) for line in lines]
        body = cst.IndentedBlock(body=lines, indent=None if indent == self.original.default_indent else indent)
        header = header.with_changes(body=body, leading_lines=above)
        return _Output([header, *map(self._parse, wrap.behind)], pending, outputs[0].index, outputs[-1].last)

    # -- small statements -------------------------------------------------------------------------------

    def _small_line(self, statements: list[Statement]) -> _Output:
        """A line of small statements; what is inserted joins it unless it needs a line of its own."""
        line = statements[0].line
        if not any(statement in self._touched for statement in statements):
            return _Output([self._as_line(line)])
        as_line = self._as_line(line)
        if len(statements) == 1:
            return self._single(statements[0], as_line)
        lines: list[Line] = []
        for statement in statements:
            lines.extend(self._single(statement, _line_of(statement.node)).lines)
        if not lines:
            return _Output([], about_other_things(as_line.leading_lines))
        return _Output(self._rejoined(as_line, lines))

    def _rejoined(self, old: cst.SimpleStatementLine, lines: list[Line]) -> list[Line]:
        """`a; b` stays on one line if only small statements remain."""
        smalls = [small for line in lines if isinstance(line, cst.SimpleStatementLine) for small in line.body]
        if any(not isinstance(line, cst.SimpleStatementLine) for line in lines):
            return [with_leading(lines[0], leading(old)), *lines[1:]]
        separated = [
            small.with_changes(semicolon=cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" ")))
            for small in smalls[:-1]
        ]
        last = smalls[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return [old.with_changes(body=[*separated, last])]

    def _single(self, statement: Statement, line: cst.SimpleStatementLine) -> _Output:
        before = [self._parse(code) for code in self.edits.before.get(statement.node, [])]
        after = [self._parse(code) for code in self.edits.after.get(statement.node, [])]
        if statement.node in self.edits.removed:
            lines = [*before, *after]
            if not lines:
                return _Output([], about_other_things(line.leading_lines))
            trailing = line.trailing_whitespace
            if trailing.comment is not None and isinstance(lines[-1], cst.SimpleStatementLine):
                if trailing.whitespace.empty:  # the space before the comment was that of a semicolon
                    trailing = trailing.with_changes(whitespace=cst.SimpleWhitespace("  "))
                lines[-1] = lines[-1].with_changes(trailing_whitespace=trailing)
            return _Output([with_leading(lines[0], leading(line)), *lines[1:]])
        changed = self._expressions(statement.node)
        assert isinstance(changed, cst.BaseSmallStatement)
        if _says_nothing(changed) and not _says_nothing(statement.node) and not before and not after:
            return _Output([], about_other_things(line.leading_lines))  # `x = x.half()` without its cast
        line = line.with_changes(body=[changed])
        if self._last_line(changed) != self._last_line(statement.node):
            line = _without_trailing_blanks(line)
        if before:
            above, own = split_leading(leading(line))
            before[0] = with_leading(before[0], above)
            line = line.with_changes(leading_lines=own)
        return _Output([*before, line, *after])

    def _last_line(self, node: cst.CSTNode) -> str:
        return self.original.code_for_node(node).rpartition("\n")[2]

    def _as_line(self, line: cst.CSTNode) -> cst.SimpleStatementLine:
        """A suite (`if x: y`) as a line of its own, for when it has to stand alone."""
        if isinstance(line, cst.SimpleStatementSuite):
            return cst.SimpleStatementLine(body=line.body, trailing_whitespace=line.trailing_whitespace)
        assert isinstance(line, cst.SimpleStatementLine)
        return line

    # -- compound statements ----------------------------------------------------------------------------

    def _compound(self, statement: Statement) -> _Output:
        node = statement.node
        assert isinstance(node, cst.BaseCompoundStatement)
        if statement not in self._touched:
            return _Output([node])
        before = [self._parse(code) for code in self.edits.before.get(node, [])]
        after = [self._parse(code) for code in self.edits.after.get(node, [])]
        if node in self.edits.removed:
            middle = _Output([], after_statement(self.tree, statement))
        elif node in self.edits.kept_arms:
            middle = self._arm(statement, self.edits.kept_arms[node])
        elif node in self.edits.unwrapped:
            middle = self._unwrapped(statement, self.edits.unwrapped[node])
        else:
            middle = self._rebuilt(statement)
        if after and not middle.lines and isinstance(node, cst.If):  # it stands in the place of what was guarded
            kept = [line.comment for line in middle.rest]
            said = [comment for comment in said_of_the_only_line(statement.blocks) if comment not in kept]
            after[0] = with_comments(after[0], said if not name_what_goes(said) else [])
        lines = [*before, *middle.lines, *after]
        if not lines:
            return _Output([], join(about_other_things(node.leading_lines), middle.rest))
        if before or not middle.lines:
            above = list(node.leading_lines)
            if middle.lines:
                above, own = split_leading(above) if node not in self.edits.pulled else (above, [])
                if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and statement.block.owner is None:
                    own = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False), *own]
                middle_first = with_leading(middle.lines[0], own)
                lines = [*before, middle_first, *middle.lines[1:], *after]
            lines[0] = with_leading(lines[0], [*above, *leading(lines[0])])
        return _Output(lines, middle.rest)

    def _arm(self, statement: Statement, arm: str) -> _Output:
        """One arm in the place of the whole statement; comments at the end of the last are about what follows."""
        node = statement.node
        assert isinstance(node, (cst.If, cst.Try))
        block = next((block for block in statement.blocks if block.arm == arm), None)
        if block is None:
            return _Output([], after_statement(self.tree, statement))
        output = self._dedented(statement, block)
        if node in self.edits.equal_arms and output.lines:
            others = [other for other in statement.blocks if other is not block]
            output.lines[-1] = with_comments(output.lines[-1], said_of_the_only_line(others))
        if block is statement.blocks[-1]:
            return output
        own, _ = split_footer(self.tree, statement.blocks[-1])
        return _Output(output.lines, [*output.rest, *about_other_things(own), *after_statement(self.tree, statement)])

    def _unwrapped(self, statement: Statement, first: list[str]) -> _Output:
        return self._dedented(statement, statement.blocks[0], [self._parse(code) for code in first])

    def _dedented(self, statement: Statement, block: Block, first: Sequence[Line] = ()) -> _Output:
        """The lines of a block in the place of its statement: the comments of its header and footer stay with them."""
        node = statement.node
        assert isinstance(node, (cst.If, cst.With, cst.Try))
        lines, rest = self._block_lines(block)
        lines = [*first, *lines]
        footer, following = split_footer(self.tree, block)
        rest = [*rest, *footer, *following]
        if not lines:
            return _Output([], rest)
        header = block.node.header if isinstance(block.node, cst.IndentedBlock) else None
        lines = [shifted(line, own_indent(block), deeper=False) for line in lines]
        lines = [with_header_comment(lines[0], header), *lines[1:]]
        own = [line for line in leading(lines[0]) if line.comment is not None]
        lines[0] = with_leading(lines[0], [*node.leading_lines, *own])
        return _Output(lines, rest)

    def _emptied(self, statement: Statement, left: Sequence[cst.EmptyLine]) -> _Output:
        """Nothing but comments, where the blocks of a statement were rebuilt and nothing is in them any more."""
        return _Output([], [*left, *split_footer(self.tree, statement.blocks[-1])[1]])

    def _rebuilt(self, statement: Statement) -> _Output:
        """The statement with its header edited and its blocks rebuilt; what became empty goes."""
        node = self._header(statement)
        suites: dict[str, tuple[cst.BaseSuite, bool]] = {}
        left: list[cst.EmptyLine] = []
        for block in self._blocks_of(statement):
            if isinstance(block.node, cst.If):
                continue
            lines, rest = self._block_lines(block)
            left += rest
            suites[block.arm] = (self._suite(block, lines, rest), not lines)
        if isinstance(node, cst.If):
            return self._rebuilt_if(statement, node, suites, left)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            arm = "body" if isinstance(node, cst.FunctionDef) else "class"
            return _Output([node.with_changes(body=suites[arm][0])])
        if isinstance(node, cst.With):
            if suites["body"][1]:
                return self._emptied(statement, left)
            return _Output([node.with_changes(body=suites["body"][0])])
        if isinstance(node, (cst.For, cst.While)):
            if suites["body"][1] and "else" not in suites and isinstance(node, cst.For):
                return self._emptied(statement, left)
            node = node.with_changes(body=suites["body"][0])
            if "else" in suites:
                assert node.orelse is not None
                orelse = None if suites["else"][1] else node.orelse.with_changes(body=suites["else"][0])
                node = node.with_changes(orelse=orelse)
            return _Output([node])
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self._rebuilt_try(statement, node, suites, left)
        if isinstance(node, cst.Match):
            cases = [case.with_changes(body=suites[f"case {number}"][0]) for number, case in enumerate(node.cases)]
            return _Output([node.with_changes(cases=cases)])
        return _Output([node])

    def _blocks_of(self, statement: Statement) -> list[Block]:
        if isinstance(statement.node, cst.FunctionDef):
            return [self.tree.function_at[statement.node].body]
        return statement.blocks

    def _rebuilt_if(
        self,
        statement: Statement,
        node: cst.If,
        suites: dict[str, tuple[cst.BaseSuite, bool]],
        left: list[cst.EmptyLine],
    ) -> _Output:
        orelse = node.orelse
        if isinstance(orelse, cst.If):
            inner = self._compound(statement.blocks[1].statements[0])
            if len(inner.lines) == 1 and isinstance(inner.lines[0], cst.If):
                orelse = inner.lines[0]
            elif inner.lines:
                orelse = cst.Else(body=cst.IndentedBlock(body=inner.lines))
            else:
                orelse = None
        elif orelse is not None:
            orelse = None if suites["else"][1] else orelse.with_changes(body=suites["else"][0])
        body, is_empty = suites["body"]
        has_lost_else = orelse is None and node.orelse is not None
        is_else_idle = orelse is None or (isinstance(orelse, cst.Else) and _only_passes(orelse.body))
        if is_else_idle and (is_empty or (has_lost_else and _only_passes(body))):
            return self._emptied(statement, left)
        if not is_empty or orelse is None:
            return _Output([node.with_changes(body=body, orelse=orelse)])
        if isinstance(orelse, cst.If) and orelse.orelse is not None:
            return _Output([node.with_changes(body=body, orelse=orelse)])  # keeps its arm, with a `pass`
        test = negated(node.test)
        if isinstance(orelse, cst.If):
            joined = cst.BooleanOperation(_in_and(test), cst.And(), _in_and(orelse.test))
            return _Output([orelse.with_changes(test=joined, leading_lines=node.leading_lines)])
        return _Output([node.with_changes(test=test, body=orelse.body, orelse=None)])

    def _rebuilt_try(
        self,
        statement: Statement,
        node: cst.Try | cst.TryStar,
        suites: dict[str, tuple[cst.BaseSuite, bool]],
        left: list[cst.EmptyLine],
    ) -> _Output:
        if suites["body"][1]:
            return self._emptied(statement, left)
        handlers = [
            handler.with_changes(body=suites[f"except {number}"][0]) for number, handler in enumerate(node.handlers)
        ]
        node = node.with_changes(body=suites["body"][0], handlers=handlers)
        if "else" in suites:
            assert node.orelse is not None
            node = node.with_changes(
                orelse=None if suites["else"][1] else node.orelse.with_changes(body=suites["else"][0])
            )
        if "finally" in suites:
            assert node.finalbody is not None
            node = node.with_changes(finalbody=node.finalbody.with_changes(body=suites["finally"][0]))
        return _Output([node])

    def _suite(self, block: Block, lines: list[Line], rest: list[cst.EmptyLine]) -> cst.BaseSuite:
        """The new suite of a block; an emptied block that must stay gets a `pass`."""
        old = block.node
        if not lines:
            lines = [self._parse("pass")]
        if isinstance(old, cst.IndentedBlock):
            footer = [*rest, *old.footer] if rest else old.footer
            return old.with_changes(body=lines, footer=footer)
        assert isinstance(old, cst.SimpleStatementSuite)
        if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine):
            return old.with_changes(body=lines[0].body)
        return cst.IndentedBlock(body=lines)

    def _header(self, statement: Statement) -> cst.BaseCompoundStatement:
        """The statement with the expressions of its header edited, its blocks as they were."""
        rewriter = Rewriter(self.edits, stop=True)
        changed = statement.node.visit(rewriter)
        assert isinstance(changed, cst.BaseCompoundStatement)
        return changed

    def _expressions(self, node: cst.CSTNode) -> cst.CSTNode:
        changed = node.visit(Rewriter(self.edits, stop=False))
        assert isinstance(changed, cst.CSTNode)
        return changed

    def _parse(self, code: str) -> Line:
        parsed = cst.parse_statement(code, config=self.config)
        assert isinstance(parsed, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        return parsed


def _in_and(node: cst.BaseExpression) -> cst.BaseExpression:
    loose = isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or)
    if (loose or isinstance(node, (cst.IfExp, cst.Lambda, cst.NamedExpr))) and not node.lpar:
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


def _line_of(node: cst.CSTNode) -> cst.SimpleStatementLine:
    assert isinstance(node, cst.BaseSmallStatement)
    return cst.SimpleStatementLine(body=[node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def _without_trailing_blanks(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    trailing = line.trailing_whitespace
    if trailing.comment is not None:
        return line
    return line.with_changes(trailing_whitespace=trailing.with_changes(whitespace=cst.SimpleWhitespace("")))


def _only_passes(suite: cst.BaseSuite) -> bool:
    lines = suite.body if isinstance(suite, cst.IndentedBlock) else [suite]
    smalls = [small for line in lines for small in (line.body if isinstance(line, _LINES) else [line])]
    return all(isinstance(small, cst.Pass) for small in smalls)


def _says_nothing(node: cst.CSTNode) -> bool:
    """True for `x = x`, also of several."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return False
    target, value = node.targets[0].target, node.value
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        pairs = zip(target.elements, value.elements, strict=False)
        same = all(one.value.deep_equals(other.value) for one, other in pairs)
        return same and len(target.elements) == len(value.elements)
    return isinstance(value, (cst.Name, cst.Attribute)) and target.deep_equals(value)
