"""Statements that do several things at once, taken apart as their author would have to (AMP922).

    loss = F.binary_cross_entropy(net(x), y)    =>    output = net(x)
                                                      loss = F.binary_cross_entropy(output, y)

    criterion(net(x), y).backward()             =>    loss = criterion(net(x), y)
                                                      loss.backward()

Everything runs in the order in which it ran: what the statement evaluates before the part that goes first may call
nothing but what has no effect.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, walk
from amp_migrate.findings import Inseparable
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Step
from amp_migrate.interp.steps import Steps
from amp_migrate.models.queries import is_pure
from amp_migrate.native.comments import comment_behind
from amp_migrate.native.edits import Edits
from amp_migrate.native.nodes import named_in
from amp_migrate.plain_attributes import bare

_SIMPLE = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr, cst.Return)
_THROUGH = (cst.Call, cst.Arg, cst.Attribute, cst.BinaryOperation, cst.UnaryOperation)


def taken_apart(facts: Facts, refusal: Inseparable, ours: Collection[str]) -> tuple[Edits, str] | None:
    """The edits that give a part of a statement a line of its own, and the name that it gets: none that the file uses,
    or one of `ours`, which name such parts already. None where that would change what runs, or in which order.
    """
    part = refusal.apart
    if part is None or not _goes_first(facts, part):
        return None
    statement = facts.tree.statement_of(part)
    named, value = named_in(part)
    name = named or _name(
        facts, refusal, {one.value for one in walk(statement.node) if isinstance(one, cst.Name)}, ours
    )
    edits = Edits()
    _give_a_line(facts, part, name, value, edits)
    return edits, name


@dataclasses.dataclass(frozen=True)
class NameApart:
    """`(loss := f(x)).backward()` of a file, and the two lines that it is read as."""

    path: str
    text: str
    lines: tuple[str, str]

    def put_back(self, output: str, source: str) -> str:
        """The output with the statement as it stood, where its lines did not change."""
        first, second = map(re.escape, self.lines)
        found = re.compile(rf"^([ \t]*){first}(\r?\n)\1{second}(?=\r?$)", re.MULTILINE)
        return output if found.search(source) else found.sub(lambda one: f"{one[1]}{self.text}", output)


def names_given_apart(facts: Facts) -> tuple[Edits, list[NameApart]]:
    """The edits that give such statements two lines, wherever a name is given before all else is done."""
    edits, found = Edits(), dict[Statement, NameApart]()
    for part, statement in facts.tree.every(cst.NamedExpr):
        name, value = named_in(part)
        own = {*walk(part)}
        is_alone = all(one in own or not isinstance(one, cst.Name) or one.value != name for one in walk(statement.node))
        is_plain = comment_behind(statement.line) is None and "\n" not in facts.text(statement.node)
        if name is not None and statement not in found and is_alone and is_plain and _goes_first(facts, part):
            lines = _give_a_line(facts, part, name, value, edits)
            found[statement] = NameApart(facts.file_of(part).path, facts.text(statement.node), lines)
    return edits, [*found.values()]


def _give_a_line(
    facts: Facts, part: cst.BaseExpression, name: str, value: cst.BaseExpression, edits: Edits
) -> tuple[str, str]:
    statement = facts.tree.statement_of(part)
    rest = statement.node.deep_replace(part, cst.Name(name))
    assert isinstance(rest, cst.BaseSmallStatement)
    edits.remove(statement)  # its comments stand above both
    lines = _assignment(name, facts.text(bare(value))), cst.Module([]).code_for_node(rest)
    for line in lines:
        edits.insert_before(statement, line)
    return lines


def _goes_first(facts: Facts, part: cst.BaseExpression) -> bool:
    """True where nothing with an effect runs before a part of its statement, and the part always runs, once."""
    statement = facts.tree.statement_of(part)
    line = facts.tree.parents.get(statement.node)
    if not isinstance(statement.node, _SIMPLE) or (isinstance(line, cst.SimpleStatementLine) and len(line.body) > 1):
        return False
    child: cst.CSTNode = part
    parent = facts.tree.parents.get(part)
    while parent is not None and parent is not statement.node:
        if not isinstance(parent, _THROUGH):
            return False
        before: list[cst.CSTNode] = []
        if isinstance(parent, cst.Call) and child is not parent.func:
            before = [parent.func, *parent.args[: parent.args.index(child)]]
        elif isinstance(parent, cst.BinaryOperation) and child is parent.right:
            before = [parent.left]
        if not all(_has_no_effect(facts, one) for one in before):
            return False
        child, parent = parent, facts.tree.parents.get(parent)
    return parent is statement.node


def _has_no_effect(facts: Facts, node: cst.CSTNode) -> bool:
    steps = facts.analysis(Steps)
    calls = (one for one in walk(node) if isinstance(one, cst.Call))
    return all(_only_computes(steps.of(Place(call))) or _is_criterion(facts, call) for call in calls)


def _only_computes(step: Step) -> bool:
    """True for operations that draw no random numbers and change nothing, and for numbers of Python."""
    rows = [one.operation for one in step.made]
    are_pure = all(row is not None and is_pure(row) for row in rows)
    return (bool(rows) or step.is_constant) and are_pure and not step.is_lost and not step.same


def _is_criterion(facts: Facts, call: cst.Call) -> bool:
    """True for an instance of one of torch's losses that is called, and for what makes one."""
    made = facts.objects.calls_behind(call.func) if isinstance(call.func, (cst.Name, cst.Attribute)) else [call.func]
    names = [facts.names.dotted(one.func) or "" for one in (call, *made) if isinstance(one, cst.Call)]
    return any(name.startswith("torch.nn.") and name.endswith("Loss") for name in names)


def _name(facts: Facts, refusal: Inseparable, here: set[str], ours: Collection[str]) -> str:
    taken = {name for name, _ in facts.objects.all_stores()}
    taken |= {one.value for one, _ in facts.tree.every(cst.Name) if not facts.tree.is_label(one)}
    numbered = (f"{refusal.names[0]}_{number}" for number in itertools.count(2))
    names = itertools.chain(refusal.names, numbered)
    return next(name for name in names if name not in taken or (name in ours and name not in here))


def _assignment(name: str, text: str) -> str:
    try:
        cst.parse_statement(f"{name} = {text}")
    except cst.ParserSyntaxError:
        return f"{name} = ({text})"
    return f"{name} = {text}"
