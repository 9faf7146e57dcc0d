"""What some things lead to, each looked at once: forks that join again, and circles, cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

_Thing = TypeVar("_Thing", bound=Hashable)


def each_once(things: Iterable[_Thing], following: Callable[[_Thing], Iterable[_Thing]]) -> Iterator[_Thing]:
    """The things and all that follows from them, one after the other, with what follows before the next one."""
    seen: set[_Thing] = set()
    waiting = [*reversed([*things])]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            yield current
            waiting += reversed([*following(current)])
