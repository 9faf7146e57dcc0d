"""Which pairs of files belong together, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from amp_migrate.units.reach import Reach, Use


class Link(NamedTuple):
    """Two files of one unit; `why_one` is said where `one` is there because of `other`, and the other way round.

    `through` are the files that only pass `name` on from one to the other; `caller` is the file that uses both, where
    neither uses the other.
    """

    one: Path
    other: Path
    name: str
    through: frozenset[Path]
    caller: Path | None
    why_one: str
    why_other: str


def find_links(reach: Reach, named: Callable[[Path], str]) -> Iterator[Link]:
    """The links of all amp files: with what they use that comes to a handle, and among halves with a common caller.

    Files between two amp files are linked to both. Files that only pass a name on link nothing: an `__init__` may
    do that for many trainings.
    """
    for file in sorted(reach.files):
        yield from (_used(use, reach, named) for use in reach.uses_below(file))
    for caller in reach.reaching_files:
        yield from _halves(caller, reach, named)


def _used(use: Use, reach: Reach, named: Callable[[Path], str]) -> Link:
    how = "uses" if use.used in reach.touching else "comes to"
    return Link(
        use.user.file,
        use.used.file,
        use.used.name,
        use.through,
        None,
        f"uses {use.used.name} of {named(use.used.file)}, which {how} {reach.tie.title}",
        f"its {use.used.name}, which {how} {reach.tie.title}, is used by {named(use.user.file)}",
    )


def _halves(caller: Path, reach: Reach, named: Callable[[Path], str]) -> Iterator[Link]:
    """Files that one caller uses, where one of them does not both set up a training and scale its losses: what it
    lacks may be in the other (a handle hung on an object in one file, used in another).
    """
    used = {use.used.file: use for use in reach.uses_of(caller) if use.used.file in reach.files}
    for one, other in combinations(sorted(used), 2):
        if not (reach.is_whole(one) and reach.is_whole(other)):
            yield Link(
                one,
                other,
                used[one].used.name,
                frozenset(),
                caller,
                f"its {used[one].used.name} and {used[other].used.name} of {named(other)} are used by {named(caller)}",
                f"its {used[other].used.name} and {used[one].used.name} of {named(one)} are used by {named(caller)}",
            )
