"""The words for what a proof has shown and what it has assumed: the same in every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.check.proof import Assumption, Proof

STEPS = "steps"  # of native AMP: scale, unscale_, step and update in their order

# What is proved, and by which kinds of breaches it would not be.
_PROVED: dict[str, tuple[str, ...]] = {
    "same program with and without mixed precision": ("not the same program", "switch", "lost", "wrapper"),
    STEPS: (STEPS,),
    "names": ("name",),
    "without Apex": ("needs Apex",),
    "float32 weights": ("half weights",),
    "unscaled gradients": ("scaled gradients",),
}
# What an assumption is about, by the end of its words.
_ABOUT = (
    ("does not look at gradients", "call out of sight", "calls out of sight"),
    ("is false where mixed precision is off", "condition", "conditions"),
    ("is torch's in any case", "class", "classes"),
    ("gets a gradient in each iteration", "wrapped model", "wrapped models"),
)
_OTHER = ("place", "places")


def proved(breaches: Collection[str] = ()) -> list[str]:
    """What is proved where breaches of these kinds were found."""
    return [words for words, kinds in _PROVED.items() if not set(kinds) & set(breaches)]


def in_words(shown: Iterable[str], assumptions: Iterable[Assumption]) -> str:
    """One line: `proved: same program with and without mixed precision, steps; assumed: 2 calls out of sight`."""
    return f"proved: {', '.join(shown) or 'nothing'}; assumed: {assumed(assumptions)}"


def assumed(assumptions: Iterable[Assumption]) -> str:
    """How much is assumed of what."""
    counts = Counter(_about(one.what) for one in assumptions)
    return ", ".join(f"{count} {many if count > 1 else one}" for (one, many), count in counts.items()) or "nothing"


def _about(what: str) -> tuple[str, str]:
    return next(((one, many) for end, one, many in _ABOUT if what.endswith(end)), _OTHER)


def line(proof: Proof) -> str:
    """What was shown of a unit that is migrated, in one line."""
    return in_words(proved(), proof.assumptions)
