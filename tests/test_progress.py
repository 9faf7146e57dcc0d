"""The bar on a terminal: nothing of it is left, however narrow the terminal is."""

from __future__ import annotations

import os
import struct

import pytest

from amp_migrate import progress

pty = pytest.importorskip("pty")


@pytest.mark.parametrize(("columns", "is_drawn"), [(80, True), (20, False)])
def test_a_bar_is_drawn_in_one_row_or_not_at_all(columns: int, is_drawn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(theirs, "w", buffering=1) as terminal:
        monkeypatch.setattr(progress, "_SECONDS_OF_PATIENCE", -1.0)
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.delenv("COLUMNS", raising=False)  # it would be believed
        bar = progress.Bar()
        bar.begin("other parts of apex", 10)
        bar.reached(5)
        bar.end()
        print("end", file=terminal)
        written = b""
        while not written.endswith(b"end\r\n"):  # a terminal may hand it out in pieces
            written += os.read(ours, 10_000)
    os.close(ours)
    assert (b"#" in written) is is_drawn
    assert written.endswith(b"\033[?25hend\r\n" if is_drawn else b"end\r\n")


def test_a_run_only_moves_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = progress.Bar()
    seen = []
    monkeypatch.setattr(bar, "show", lambda: seen.append(bar._bar.pos))
    stages = [("files", 3), ("apex.amp", 0), ("training", 1000), ("native AMP", 50), ("proofs", 700), ("proofs", 20)]
    for what, size in stages:
        bar.begin(what, size)
        for done in (size // 3, size, 2 * size):
            bar.reached(done)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 100)
    assert len(set(seen)) > len(stages)


def test_every_stage_has_a_share() -> None:
    assert sum(progress._SHARES.values()) == 100
