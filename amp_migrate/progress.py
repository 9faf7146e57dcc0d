"""How far a run is: one line on a terminal, if it takes long enough that somebody would wonder.

The line only moves forward. Each stage has a share of it; one with nothing to do is passed over.
"""

from __future__ import annotations

import os
import sys
import time

import click

from amp_migrate.report.terminal import columns_of

_SECONDS_OF_PATIENCE = 1.0
# The stages in their order, and how many percent of a run each of them takes in repositories that have them all.
_SHARES = {"files": 2, "apex.amp": 25, "training": 45, "other parts of apex": 6, "native AMP": 7, "proofs": 15}


class Progress:
    """Hears what is done, stage by stage. This one shows nothing."""

    def begin(self, what: str, size: int) -> None:
        """A stage of those in `_SHARES`: what is worked on now, and how much that is, in bytes of source say."""

    def reached(self, size: int) -> None:
        """So many of them are done; never fewer than before."""

    def show(self) -> None:
        """Draw it, if it is time to."""

    def end(self) -> None:
        """Leave nothing on the terminal."""


class Bar(Progress):
    """A bar on standard error. In a forked process it does nothing: the result says that a piece is done."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._owner = os.getpid()
        self._bar = click.progressbar(length=100, file=sys.stderr, show_eta=False, width=30)
        self._is_shown = False
        self._stage = (0, 0, 1)  # where it begins, its share, and its size

    def begin(self, what: str, size: int) -> None:
        self._bar.label = what.ljust(max(map(len, _SHARES)))
        before = list(_SHARES).index(what)
        self._stage = (sum(list(_SHARES.values())[:before]), _SHARES[what], max(size, 1))
        self.reached(0)

    def reached(self, size: int) -> None:
        begin, share, whole = self._stage
        self._bar.pos = max(self._bar.pos, begin + share * min(size, whole) // whole)
        self.show()

    def show(self) -> None:
        is_time = time.monotonic() - self._begun > _SECONDS_OF_PATIENCE
        if is_time and os.getpid() == self._owner and self._fits():
            self._is_shown = True
            self._bar.render_progress()

    def _fits(self) -> bool:
        """A bar that goes on in the next row would be drawn below itself, again and again."""
        return len(self._bar.format_progress_line()) < columns_of(sys.stderr)

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\033[K\033[?25h", nl=False, err=True)  # nothing is left of it, and the cursor is back
            self._is_shown = False
