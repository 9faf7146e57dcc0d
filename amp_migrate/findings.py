"""What is said to the user: a rule's code, a place, and what was found there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # files with nothing to do never wait for LibCST, nor for the rules
    import libcst as cst

    from amp_migrate.rules.rule import Rule


@dataclasses.dataclass(frozen=True, order=True)
class Span:
    """From a line and a column to another line and the column behind the last character, all from 1."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """One thing to know about one line (from 1) of a file; its rule says why and what to do.

    `path` is that of the file as it was given, empty where there is none. In a notebook, `cell` is the number of the
    cell and the line in it, both from 1, and `line` that of the file. `case` is one of its rule, where its cause asks
    for other words than the rule has for the rest. `because` is the path and the code of the finding without which
    there would be none here: the file only goes with another one. `span` is where exactly, None where that is not
    known, or a whole block: it decides about no order and no sameness.
    """

    path: str
    line: int
    code: str
    message: str
    cell: tuple[int, int] | None = None
    case: str = ""
    because: tuple[str, str] | None = dataclasses.field(default=None, compare=False)
    span: Span | None = dataclasses.field(default=None, compare=False)

    @property
    def rule(self) -> Rule:
        """What kind of finding this is."""
        from amp_migrate.rules.catalogue import RULES

        return RULES[self.code]

    @property
    def why(self) -> str:
        """Why it matters."""
        return self.rule.of(self.case).why

    @property
    def what_to_do(self) -> str:
        """What to do by hand."""
        return self.rule.of(self.case).what_to_do


class Refusal(Exception):
    """The unit is left alone: something on the line of `node` cannot be migrated with certainty.

    `unread` are the names of other local modules that the forward reaches, and that may show more. `case` is as in
    `Finding`.
    """

    def __init__(
        self, rule: Rule, node: cst.CSTNode, message: str, unread: tuple[str, ...] = (), case: str = ""
    ) -> None:
        super().__init__(f"{rule.code}: {message}")
        self.rule = rule
        self.node = node
        self.message = message
        self.unread = unread
        self.case = case


class Inseparable(Refusal):
    """A statement of which one part has to run under autocast and another one outside of it.

    With a line of its own before the statement, as one of some `names`, what is `apart` can be told from the rest.
    """

    def __init__(
        self, node: cst.CSTNode, message: str, apart: cst.BaseExpression | None, names: tuple[str, ...]
    ) -> None:
        from amp_migrate.rules.regions import INSEPARABLE

        super().__init__(INSEPARABLE, node, message)
        self.apart = apart
        self.names = names
