"""What a rule is: one kind of finding, with its words and what follows from it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Literal

Kind = Literal["note", "attention", "breach", "refusal", "silence", "error"]


class Help(enum.Enum):
    """Which other files could lift a refusal, once they are in the unit."""

    CALLERS = "what imports the unit, or is imported by it"
    FAR_CALLERS = "what is further up that chain: a setup, a scaler or a device may come from far away"
    OTHER_PART = "a setup of mixed precision for what scales its losses, or the other way round"
    MAKERS = "what makes its optimizer: a class around that has the step"
    GPU = "what moves something to a GPU"
    CASTS = "what casts that which it trains: then it is a training in half"
    SCRIPTS = "the other scripts of its unit, of which each has what another one lacks"
    ALL_CALLS = "all that calls a function of the unit"


@dataclasses.dataclass(frozen=True)
class Case:
    """One cause of a finding, where it asks for other words than the rest of its rule; `title` says which one."""

    title: str
    why: str
    what_to_do: str


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """One kind of finding.

    A `note` is for information, an `attention` wants a look before merging, a `breach` is a mistake in a migration that
    somebody else made, a `refusal` says why a unit is left alone, an `error` that a file could not be read, parsed or
    written. A `silence` is why a unit is none of our business; it is never shown, but may be lifted by more files.
    `cases` are named by the places that raise them.

    `helped_by` says which files could lift it. It is `about` a line, a whole file, of which it names the first line, or
    the project, which asks for one thing in several files. One that `is_secondary` says nothing where another reason
    is known. One that `stops_what_it_uses` keeps a unit from being migrated although it is found in a file that only
    uses that unit. `judge` cannot tell what `is_undecided`, and what `explains_its_line` is all it says of that line.
    """

    code: str
    kind: Kind
    title: str
    why: str
    what_to_do: str
    cases: Mapping[str, Case] = dataclasses.field(default_factory=dict)
    helped_by: frozenset[Help] = frozenset()
    about: Literal["line", "file", "project"] = "line"
    is_secondary: bool = False
    stops_what_it_uses: bool = False
    is_undecided: bool = False
    explains_its_line: bool = False

    def of(self, case: str) -> Rule | Case:
        """Who has the words for a case; without one, the rule itself."""
        return self.cases[case] if case else self
