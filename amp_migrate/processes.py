"""Independent pieces of work in processes of their own: largest first, results in order.

A piece and its result are pickled; what it works on is not, for processes are forked. Where they cannot be (Windows),
the pieces are worked on one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from amp_migrate.progress import Progress

if TYPE_CHECKING:
    from concurrent.futures import Future

_Piece = TypeVar("_Piece")
_Made = TypeVar("_Made")
_WORTHWHILE = 150_000  # bytes of source, below which starting processes takes longer than they save

_work: Callable[[Any], Any]  # what forked processes do with a piece


class Died(Exception):
    """The process that worked on a piece is gone."""

    def __str__(self) -> str:
        return "the process that worked on this was killed, ran out of memory, or crashed"


class Workers:
    """Up to `count` processes; `progress` hears how many bytes of source are done."""

    def __init__(self, count: int = 1, progress: Progress | None = None) -> None:
        self.count = count
        self.progress = progress or Progress()

    def map(
        self, what: str, work: Callable[[_Piece], _Made], pieces: Sequence[_Piece], size: Callable[[_Piece], int]
    ) -> list[_Made | Died]:
        """The results of some pieces, in their order; `size` is that of a piece in bytes of source, and `what` says
        what they are to whoever waits.

        What the work raises is raised here.
        """
        sizes = list(map(size, pieces))
        self.progress.begin(what, sum(sizes))
        if min(self.count, len(pieces)) < 2 or sum(sizes) < _WORTHWHILE or not hasattr(os, "fork"):
            return [self._here(work, piece, end) for piece, end in zip(pieces, accumulate(sizes), strict=True)]
        global _work
        _work = work
        order = sorted(range(len(pieces)), key=lambda number: -sizes[number])
        made = self._in_pool([(pieces[number], sizes[number]) for number in order], min(self.count, len(pieces)))
        found = dict(zip(order, made, strict=True))
        return [found[number] for number in range(len(pieces))]

    def _here(self, work: Callable[[_Piece], _Made], piece: _Piece, end: int) -> _Made:
        made = work(piece)
        self.progress.reached(end)
        return made

    def _in_pool(self, pieces: Sequence[tuple[_Piece, int]], count: int) -> list[Any]:
        """A process that dies takes the results of all that were not done yet along: these are tried again alone."""
        import multiprocessing  # these take as long to import as click, and are rarely needed
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        with ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
            made = {pool.submit(_run, piece): size for piece, size in pieces}
            self._wait(made)
        results: list[Any] = []
        for one, piece in zip(made, pieces, strict=True):
            if not isinstance(one.exception(), BrokenProcessPool):
                results.append(one.result())
            else:
                results += [Died()] if len(pieces) == 1 else self._in_pool([piece], 1)
        return results

    def _wait(self, made: dict[Future[Any], int]) -> None:
        from concurrent.futures import FIRST_COMPLETED, wait

        waiting = set(made)
        try:
            while waiting:
                _, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                self.progress.reached(sum(size for one, size in made.items() if one not in waiting))
        except BaseException:  # Ctrl-C: what has not begun never does
            for one in waiting:
                one.cancel()
            raise


def usable_cpus() -> int:
    """How many processes can run at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(piece: Any) -> Any:
    return _work(piece)
