"""What two texts have in common: nothing that is equal may be shown as removed and added."""

import random
import subprocess
from time import perf_counter

import pytest

from amp_migrate.line_matcher import LineMatcher, hunks_of
from amp_migrate.report.diff import unified_diff

# Blank lines are frequent in a long file, and difflib takes what is frequent for junk there.
LONG = [line for number in range(150) for line in (f"step({number})\n", "\n")]


def test_frequent_lines_beside_a_change_are_no_change():
    before = [*LONG, "train(net)\n", "\n", "\n"]
    after = ["import torch\n", *LONG, "train(net, scaler)\n", "\n", "\n"]
    changed = [line for line in hunks_of(before, after) if line[0] in "+-"]
    assert changed == ["+import torch\n", "-train(net)\n", "+train(net, scaler)\n"]


def test_what_both_begin_and_end_with_costs_no_search():
    before = ["\n"] * 50_000
    after = [*before[:25_000], "step()\n", *before[25_000:]]
    began = perf_counter()
    opcodes = LineMatcher(before, after).get_opcodes()
    assert perf_counter() - began < 1
    assert opcodes == [
        ("equal", 0, 25_000, 0, 25_000),
        ("insert", 25_000, 25_000, 25_000, 25_001),
        ("equal", 25_000, 50_000, 25_001, 50_001),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_git_applies_the_diff_of_any_edit(tmp_path, seed):
    choose = random.Random(seed)
    before = [choose.choice([b"a\n", b"b\r\n", b"\n", b"\xff\x0c\n"]) for _ in range(choose.randrange(1, 12))]
    after = list(before)
    for _ in range(3):
        at = choose.randrange(len(after) + 1)
        after[at : at + choose.randrange(3)] = choose.choice([[], [b"x\n"], [b"\n", b"a\n"]])
    old, new = b"".join(before), b"".join(after).removesuffix(choose.choice([b"\n", b""]))
    if old == new:
        return
    (tmp_path / "f").write_bytes(old)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    name = (tmp_path / "f").as_posix()
    subprocess.run(["git", "apply", "-"], input=unified_diff(name, old, new), cwd=tmp_path, check=True)
    assert ((tmp_path / "f").read_bytes() if (tmp_path / "f").exists() else b"") == new
