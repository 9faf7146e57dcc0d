"""Conditions that are settled: what goes with them, and how a settled flag is folded into the code around it."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, walk
from amp_migrate.findings import Finding, Refusal
from amp_migrate.rules.apex import IMPORT_IN_USE


@dataclasses.dataclass
class Cleanup:
    """Statements that go, `try` statements of which the body alone stays, import names that go from statements that
    stay, and tests with a fixed answer.

    `kept_sides` are conditions of which only the left or the right operand stays, `made_bool` those among them
    whose value is used and must stay a bool.
    """

    statements: list[Statement] = dataclasses.field(default_factory=list)
    bodies: list[Statement] = dataclasses.field(default_factory=list)
    aliases: dict[Statement, list[cst.ImportAlias]] = dataclasses.field(default_factory=dict)
    tests: dict[Statement, bool] = dataclasses.field(default_factory=dict)
    kept_sides: dict[cst.BooleanOperation, str] = dataclasses.field(default_factory=dict)
    made_bool: set[cst.BooleanOperation] = dataclasses.field(default_factory=set)
    replaced: dict[cst.BaseExpression, str] = dataclasses.field(default_factory=dict)
    findings: list[Finding] = dataclasses.field(default_factory=list)


class Folding:
    """Folds reads of variables whose value is known (`facts.conditions.known`) into a Cleanup."""

    def __init__(self, facts: Facts, cleanup: Cleanup) -> None:
        self.facts = facts
        self.cleanup = cleanup

    def settle(self, statement: Statement, reads: list[cst.BaseExpression]) -> None:
        """The reads of one statement: its test has an answer, or loses an operand; else they are values."""
        node = statement.node
        if isinstance(node, (cst.Assert, cst.If)) and set(reads) <= set(walk(node.test)):
            answer = self.facts.conditions.constant(self.facts.conditions.compile(node.test))
            if isinstance(node, cst.Assert) and answer is True:
                self.cleanup.statements.append(statement)
                return
            if isinstance(node, cst.If) and answer is not None:
                self.cleanup.tests[statement] = answer
                return
            sides = dict(self.facts.conditions.settled_operands(node.test))
            if sides:
                self.cleanup.kept_sides.update(sides)
                return
        for read in reads:
            self.fold(read)

    def fold(self, read: cst.BaseExpression) -> None:
        """A settled flag or test used as a value: `use_amp = fp16 and APEX_AVAILABLE` -> `use_amp = fp16`."""
        node, parent = read, self.facts.tree.parents.get(read)
        while isinstance(parent, (cst.Comparison, cst.UnaryOperation, cst.BooleanOperation, cst.ComparisonTarget)):
            whole = parent if isinstance(parent, cst.BaseExpression) else self.facts.tree.parents[parent]
            assert isinstance(whole, cst.BaseExpression)
            if self._answer(whole) is None:
                break
            node, parent = whole, self.facts.tree.parents.get(whole)
        answer = self._answer(node)
        if answer is None:
            raise Refusal(IMPORT_IN_USE, read, f"{self.facts.text(read)} is used here as a value that cannot be told")
        if isinstance(parent, cst.BooleanOperation):
            self.cleanup.kept_sides[parent] = "right" if parent.left is node else "left"
            if parent.right is node and not self.facts.values.is_bool(parent.left) and not self._is_tested(parent):
                self.cleanup.made_bool.add(parent)
        else:
            self.cleanup.replaced[node] = str(answer)

    def _is_tested(self, node: cst.BaseExpression) -> bool:
        """True where only the truth of a value counts."""
        parent = self.facts.tree.parents.get(node)
        negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        holders = (cst.If, cst.While, cst.Assert, cst.IfExp)
        return negated or (isinstance(parent, holders) and parent.test is node)

    def _answer(self, node: cst.BaseExpression) -> bool | None:
        return self.facts.conditions.constant(self.facts.conditions.compile(node))
