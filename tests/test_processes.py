"""Work in processes of their own, and the bar that says how far it is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate import Options
from amp_migrate.processes import Died, Workers, usable_cpus
from amp_migrate.progress import Progress
from amp_migrate.project import migrate_paths

FIXTURES = Path(__file__).parents[1] / "fixtures"
LARGE = 1_000_000  # bytes: more than enough for processes to be worthwhile


class _Noted(Progress):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def reached(self, size: int) -> None:
        self.seen.append(size)


def _pid_and_square(number: int) -> tuple[int, int]:
    return os.getpid(), number * number


def _dies_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _raises(number: int) -> int:
    raise ValueError(f"no {number}")


def test_results_come_in_order_and_from_other_processes():
    progress = _Noted()
    made = Workers(2, progress).map("work", _pid_and_square, range(6), lambda number: LARGE)
    assert [one[1] for one in made if not isinstance(one, Died)] == [0, 1, 4, 9, 16, 25]
    assert os.getpid() not in {one[0] for one in made if not isinstance(one, Died)}
    assert progress.seen[-1] == 6 * LARGE and progress.seen == sorted(progress.seen)


@pytest.mark.parametrize(("count", "size"), [(1, LARGE), (2, 10)], ids=["one process", "little work"])
def test_little_is_done_here(count: int, size: int):
    progress = _Noted()
    made = Workers(count, progress).map("work", _pid_and_square, range(3), lambda number: size)
    assert made == [(os.getpid(), 0), (os.getpid(), 1), (os.getpid(), 4)]
    assert progress.seen == [size, 2 * size, 3 * size]


def test_a_process_that_dies_costs_its_own_piece_only():
    made = Workers(2).map("work", _dies_at_three, range(6), lambda number: LARGE)
    assert [one if isinstance(one, int) else type(one) for one in made] == [0, 1, 2, Died, 4, 5]


@pytest.mark.parametrize("count", [1, 2])
def test_what_the_work_raises_is_raised_here(count: int):
    with pytest.raises(ValueError, match="no 0"):
        Workers(count).map("work", _raises, range(2), lambda number: LARGE)


def test_two_processes_come_to_the_same_results(tmp_path):
    """Every fifth of the units of files, and of the plain fixtures as scripts of one folder."""
    for unit in sorted((FIXTURES / "units").iterdir())[::5]:
        shutil.copytree(unit, tmp_path / "units" / unit.name)
    for fixture in sorted((FIXTURES / "plain").iterdir())[::5]:
        shutil.copy(fixture / "before.py", tmp_path / f"{fixture.name}.py")
    alone = list(migrate_paths([tmp_path], Options(), Workers(1)))
    together = list(migrate_paths([tmp_path], Options(), Workers(2)))
    assert sum(result.changed for result in alone) > 20
    assert together == alone


def test_the_unit_of_a_process_that_dies_is_an_error(tmp_path, monkeypatch):
    from amp_migrate.units import programs

    def killed(*given: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for name in ("a", "b"):
        source = (FIXTURES / "plain" / "parts_trained_apart" / "before.py").read_bytes()
        (tmp_path / f"{name}.py").write_bytes(source + b"#" * LARGE)
    monkeypatch.setattr(programs, "migrate", killed)
    for result in migrate_paths([tmp_path], Options(), Workers(2)):
        assert (result.status, result.output) == ("error", result.source)
        assert "was killed, ran out of memory, or crashed" in result.findings[0].message


# -- the bar ------------------------------------------------------------------------------------------------


def _on_a_terminal(*arguments: str) -> str:
    """What a terminal gets on standard error."""
    import pty

    ours, theirs = pty.openpty()
    impatient = "import amp_migrate.progress as progress; progress._SECONDS_OF_PATIENCE = 0\n"
    command = [sys.executable, "-c", impatient + "from amp_migrate.cli import main\nmain()", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # how Linux says that nobody writes any more
        pass
    process.wait()
    os.close(ours)
    return seen.decode()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_terminal_sees_a_bar_and_nothing_is_left_of_it(tmp_path, workers):
    for number in range(30):
        shutil.copy(FIXTURES / "plain" / "parts_trained_apart" / "before.py", tmp_path / f"{number}.py")
        (tmp_path / f"{number}.py").open("a").write("#" * 10_000)
    seen = _on_a_terminal(str(tmp_path), "-W", workers)
    bar, _, rest = seen.rpartition("\r\033[K\033[?25h")
    assert "training" in bar and "%" in bar
    assert "30 files would be migrated" in rest and "%" not in rest
    assert _on_a_terminal(str(tmp_path), "-q") == ""


def test_there_is_a_cpu():
    assert usable_cpus() >= 1
