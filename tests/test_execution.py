"""Every fixture is run, before and after.

Here is no GPU and no Apex. Two things can still be shown. With mixed precision off, the migrated script is the
same program: it prints the same losses, to the last digit. With mixed precision on, and CUDA's autocast and
GradScaler set to do their work on the CPU, it runs through GradScaler's own assertions, and its losses
stay close to those in float32.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixture import FIXTURES, Fixture

torch = pytest.importorskip("torch")

_STUBS = Path(__file__).parent / "stubs"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|nan|inf")

migrations = pytest.mark.parametrize(
    "fixture", [fixture for fixture in FIXTURES if fixture.migrates], ids=lambda fixture: fixture.name
)


@pytest.fixture(autouse=True)
def one_process(monkeypatch, tmp_path) -> Iterator[None]:
    """Each script in an interpreter that looks new: its own arguments, folder and modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    modules = set(sys.modules)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    for name in set(sys.modules) - modules:
        if name.split(".")[0] == "apex":
            del sys.modules[name]


def _run_both(fixture: Fixture, monkeypatch) -> tuple[str, str]:
    """What the scripts print, before and after; apex is there for the one that still imports it."""
    stubs = str(_STUBS)
    if any(" AMP110 " in finding for finding in fixture.findings):
        monkeypatch.syspath_prepend(stubs)
    after = _run(fixture.folder / "after.py")
    if stubs not in sys.path:
        monkeypatch.syspath_prepend(stubs)
    return _run(fixture.folder / "before.py"), after


def _run(script: Path) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # autocast and GradScaler say that there is no CUDA
        runpy.run_path(str(script), run_name="__main__")
    return output.getvalue()


@migrations
def test_same_program_without_mixed_precision(fixture: Fixture, monkeypatch):
    before, after = _run_both(fixture, monkeypatch)
    assert _NUMBER.search(before), "a fixture prints its losses"
    assert after == before


@pytest.fixture
def mixed_precision_on_cpu(monkeypatch) -> None:
    """CUDA's autocast and GradScaler, in float16 on the CPU; a loss scale that float16 can hold from the start."""

    class Autocast(torch.amp.autocast):
        def __init__(self, device_type, dtype=torch.float16, **keywords):
            super().__init__("cpu", dtype=dtype, **keywords)

    class GradScaler(torch.amp.GradScaler):
        def __init__(self, device="cuda", init_scale=2.0**16, **keywords):
            super().__init__("cpu", init_scale=min(init_scale, 2.0**7), **keywords)

    monkeypatch.setattr(torch.amp, "autocast", Autocast)
    monkeypatch.setattr(torch.amp, "GradScaler", GradScaler)


@migrations
def test_trains_in_mixed_precision(fixture: Fixture, mixed_precision_on_cpu, monkeypatch):
    before, after = _run_both(fixture, monkeypatch)
    assert _NUMBER.sub("", after) == _NUMBER.sub("", before)
    losses = [[float(number) for number in _NUMBER.findall(output)] for output in (before, after)]
    assert losses[1] == pytest.approx(losses[0], rel=0.15, abs=0.02)
