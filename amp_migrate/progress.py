"""How far a migration is: on a terminal, if it takes long enough that somebody would wonder."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

import click

_SECONDS_OF_PATIENCE = 1.0


class Progress:
    """Counts the bytes of source that are done, stage by stage. This one shows nothing."""

    def begin(self, what: str, size: int) -> None:
        """A stage: what is migrated now, in all so many bytes."""

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
        self._bar = click.progressbar(length=1, file=sys.stderr, show_eta=False, width=30)
        self._is_shown = False

    def begin(self, what: str, size: int) -> None:
        self._bar.label = what
        self._bar.length = max(size, 1)
        self._bar.pos = 0
        self.show()

    def reached(self, size: int) -> None:
        self._bar.pos = min(max(self._bar.pos, size), self._bar.length or 0)
        self.show()

    def show(self) -> None:
        is_time = time.monotonic() - self._begun > _SECONDS_OF_PATIENCE
        if is_time and os.getpid() == self._owner and self._fits():
            self._is_shown = True
            self._bar.render_progress()

    def _fits(self) -> bool:
        """A bar that goes on in the next row would be drawn below itself, again and again."""
        import shutil  # with all its compression, for nothing where no bar is drawn

        columns = shutil.get_terminal_size().columns
        with suppress(OSError):  # standard error is a terminal: standard output may be a file
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or columns
        return len(self._bar.format_progress_line()) < columns

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\033[K\033[?25h", nl=False, err=True)  # nothing is left of it, and the cursor is back
            self._is_shown = False
