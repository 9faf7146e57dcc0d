"""Edits as values, applied to a module in one pass.

Nothing changes while it is decided: edits name nodes of the parsed module and are collected first. The pass
rebuilds the blocks that change and leaves every other node alone, comments and whitespace included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from amp_migrate.facts.tree import Statement

Expressions = Callable[[cst.CSTNode], cst.CSTNode]


@dataclasses.dataclass(frozen=True)
class Wrap:
    """`header` (`with ...` or `if ...`) around the statements `first` to `last` of one block; `tail` ends it, the lines
    `behind` come after it.
    """

    first: Statement
    last: Statement
    header: str
    tail: str | None = None
    behind: Sequence[str] = ()


@dataclasses.dataclass
class Edits:
    """Everything that is to change in one module.

    Code to insert is given as source text, one statement each. `before` and `after` keep their order.
    """

    expressions: dict[cst.CSTNode, Expressions] = dataclasses.field(default_factory=dict)
    removed: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    before: dict[cst.CSTNode, list[str]] = dataclasses.field(default_factory=dict)
    after: dict[cst.CSTNode, list[str]] = dataclasses.field(default_factory=dict)
    pulled: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    unwrapped: dict[cst.CSTNode, list[str]] = dataclasses.field(default_factory=dict)
    kept_arms: dict[cst.CSTNode, str] = dataclasses.field(default_factory=dict)
    equal_arms: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    wraps: list[Wrap] = dataclasses.field(default_factory=list)

    def replace(self, node: cst.CSTNode, text: str) -> None:
        """Write `text` for an expression, in its place and with its parentheses' meaning kept."""
        self.expressions[node] = lambda updated: cst.parse_expression(text)

    def transform(self, node: cst.CSTNode, change: Expressions) -> None:
        """Apply `change` to a node after everything below it has been edited."""
        earlier = self.expressions.get(node)
        self.expressions[node] = change if earlier is None else lambda updated: change(earlier(updated))

    def transform_first(self, node: cst.CSTNode, change: Expressions) -> None:
        """The same, before what else is done to the node itself."""
        later = self.expressions.get(node)
        self.expressions[node] = change if later is None else lambda updated: later(change(updated))

    def remove(self, statement: Statement) -> None:
        self.removed.add(statement.node)

    def insert_before(self, statement: Statement, code: str) -> None:
        self.before.setdefault(statement.node, []).append(code)

    def pull_before(self, statement: Statement, code: str) -> None:
        """Write what was a part of a statement before it: comments above it are about both."""
        self.insert_before(statement, code)
        self.pulled.add(statement.node)

    def insert_after(self, statement: Statement, code: str) -> None:
        self.after.setdefault(statement.node, []).append(code)

    def unwrap(self, statement: Statement, first: list[str] | None = None) -> None:
        """Put the body of a `with` in its place, after the statements `first`."""
        self.unwrapped[statement.node] = first or []

    def keep_arm(self, node: cst.CSTNode, arm: str, *, stands_for_both: bool = False) -> None:
        """Put one arm of an `if` ("body" or "else") or the body of a `try` in its place.

        What stands for both arms takes over what the other one says of it in comments.
        """
        self.kept_arms[node] = arm
        if stands_for_both:
            self.equal_arms.add(node)

    def nodes(self) -> Iterator[cst.CSTNode]:
        """Every node that an edit is about."""
        for edited in (self.expressions, self.removed, self.before, self.after, self.unwrapped, self.kept_arms):
            yield from edited
        yield from (wrap.first.node for wrap in self.wraps)

    @property
    def is_empty(self) -> bool:
        changes = (self.expressions, self.removed, self.before, self.after, self.unwrapped, self.kept_arms, self.wraps)
        return not any(changes)
