"""What the proof came to."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Breach:
    """Something that the output must not do. `before` and `after` are lines (from 1) with their text; None where that
    side has none.
    """

    kind: str
    path: str
    function: str
    before: tuple[int, str] | None
    after: tuple[int, str] | None
    message: str


@dataclasses.dataclass(frozen=True, order=True)
class Assumption:
    """Something that was not shown: the file, the line (from 1) of the original, and what is assumed of it."""

    path: str
    line: int
    what: str


@dataclasses.dataclass(frozen=True)
class Proof:
    """What the output of a unit must not do and does, and what was not shown of it. Without breaches it is the same
    program, if what is assumed holds.
    """

    breaches: tuple[Breach, ...]
    assumptions: tuple[Assumption, ...]
