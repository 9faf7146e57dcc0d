"""What a person reads: findings as of ruff or rustc, by their causes, wrapped and coloured on a terminal only."""

from __future__ import annotations

import io
import json

import pytest

from amp_migrate.findings import Finding
from amp_migrate.report.findings import finding_lines
from amp_migrate.report.terminal import UNWRAPPED, Look, look_of
from amp_migrate.rules.catalogue import RULES
from tests.fixture import ROOT
from tests.test_cli import SCRIPT, run

WHY, DO = RULES["AMP913"].why, RULES["AMP913"].what_to_do
SOURCE = b"import torch\n\tstep(closure)  # by hand\nlong = optimizer.step(closure) or x\n"


def found(path: str = "a.py", line: int = 2, message: str = "it steps", code: str = "AMP913", **more) -> Finding:
    return Finding(path, line, code, message, **more)


def lines(*findings: Finding, look: Look = UNWRAPPED, verbose: bool = False) -> list[str]:
    return list(finding_lines(findings, {"a.py": SOURCE, "b.py": SOURCE}, look, verbose=verbose))


def test_a_finding_shows_its_line_with_a_mark_under_the_code():
    assert lines(found()) == [
        "a.py:2: AMP913 it steps",
        "    2 | \tstep(closure)  # by hand",
        "      | \t^^^^^^^^^^^^^",
        f"    why: {WHY}",
        f"    do:  {DO}",
    ]


@pytest.mark.parametrize(
    "message", ["optimizer.step(closure) is called", "found `optimizer.step(closure)`: why", "`x` here, and `long` too"]
)
def test_the_mark_is_under_what_the_message_names(message):
    _, code, mark, *_ = lines(found(line=3, message=message))
    named = "x" if "`x`" in message else "optimizer.step(closure)"
    assert code[mark.index("^") :].startswith(named)
    assert mark.count("^") == len(named)


def test_a_word_of_english_is_not_marked():
    _, _, mark, *_ = lines(found(line=3, message="long is no name of a thing"))
    assert mark.count("^") == len("long = optimizer.step(closure) or x")


@pytest.mark.parametrize("one", [found(line=1, code="AMP901"), found(line=1, code="AMP993"), found(line=99)])
def test_what_is_said_of_no_line_shows_none(one):
    assert [text.split()[0] for text in lines(one)] == [f"a.py:{one.line}:", "why:", "do:"]


def test_what_would_steer_a_terminal_is_not_shown():
    told = list(finding_lines([found("x.py", 1)], {"x.py": b"x = '\x1b[31m' + \"\xe7\x95\x8c\"\n"}))
    assert told[1:3] == ["    1 | x = '\ufffd[31m' + \"界\"", "      | " + "^" * 18]
    (long,) = [text for text in finding_lines([found("x.py", 1)], {"x.py": b"x" * 5000}) if "xxx" in text]
    assert long.endswith("xxx ...") and len(long) < 300


def test_a_notebook_shows_the_line_of_its_cell():
    cells = [{"cell_type": "code", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "code", "source": "c = 3\nd = 4"}]
    raw = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    told = list(finding_lines([found("n.ipynb", 1, cell=(2, 2))], {"n.ipynb": raw}))
    assert told[:2] == ["n.ipynb:cell 2:2: AMP913 it steps", "    2 | d = 4"]


def test_one_cause_is_said_once():
    told = lines(found(), found("b.py", 3), found("b.py", message="other words"))
    assert told == [
        "a.py:2: AMP913 it steps",
        "    2 | \tstep(closure)  # by hand",
        "      | \t^^^^^^^^^^^^^",
        "    also: b.py:3",
        "b.py:2: AMP913 other words",
        "    2 | \tstep(closure)  # by hand",
        "      | \t^^^^^^^^^^^^^",
        f"    why: {WHY}",
        f"    do:  {DO}",
    ]


def test_of_many_places_the_first_ones_are_listed():
    many = [found(f"{number}.py", 2) for number in range(19)]
    listed = [text for text in lines(*many) if ".py" in text]
    assert [text.split()[-1] for text in listed] == ["steps", "1.py:2", "2.py:2", "3.py:2", "4.py:2"]
    assert "          and 14 more; -v lists them" in lines(*many)
    assert "          18.py:2" in lines(*many, verbose=True)
    assert "          5.py:2" in lines(*many[:6])  # not "and 1 more"


def test_files_that_only_go_along_stand_with_what_holds_them():
    because = ("a.py", "AMP913")
    others = [found(path, 1, "belongs together with a.py", "AMP901", because=because) for path in ("c.py", "d.py")]
    told = lines(others[0], found(), others[1])
    assert told[3:6] == ["    with it stay: c.py", "                  d.py", f"    why: {WHY}"]
    assert "AMP901" not in "".join(told)
    alone = lines(others[0])  # where that finding is not wanted
    assert alone[0] == "c.py:1: AMP901 belongs together with a.py"


def test_the_files_of_a_unit_have_one_refusal():
    told = run(".", cwd=ROOT / "units" / "refuse_shared_helper_starred_call" / "before").stderr.decode().splitlines()
    assert [text.split()[:2] for text in told if "AMP9" in text] == [["train_b.py:36:", "AMP915"]]
    assert told[3:5] == ["    with it stay: train_a.py", "                  utils.py"]


def test_what_matters_most_comes_first():
    codes = ("AMP147", "AMP101", "AMP104", "AMP913", "AMP991", "AMP101")
    told = lines(*(found(code=code, message=f"{code} {number}") for number, code in enumerate(codes)))
    heads = [text.split()[1] for text in told if text.startswith("a.py")]
    assert heads == ["AMP991", "AMP913", "AMP104", "AMP101", "AMP101", "AMP147"]
    assert told.count("") == 4  # one between two codes


def test_launch_lines_are_one_finding_each_with_its_own_command():
    start = "starts a script in an old way: write `torchrun {}.py`"
    told = lines(*(found(f"{name}.sh", 1, start.format(name), "AMP147") for name in "xyz"))
    assert told[0].endswith("write `torchrun x.py`")
    assert told[1:3] == ["    also: y.sh:1: write `torchrun y.py`", "          z.sh:1: write `torchrun z.py`"]


# -- widths and colours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_prose_is_wrapped_at_words_and_code_is_not(width):
    code = "optimizer.step(closure) or " + "x" * 100
    told = list(finding_lines([found("a.py", 1, "words " * 40)], {"a.py": code.encode()}, Look(width)))
    assert told[1].startswith("    words words")
    assert f"    1 | {code}" in told
    assert all(len(text) <= max(width, 29) for text in told if code not in text)
    assert " ".join(" ".join(told).split()).count("words") == 40


def test_a_path_is_never_taken_apart():
    path = "a folder with blanks/" + "long " * 10 + ".py"
    told = list(finding_lines([found(path, 1, "it steps"), found("b " * 30 + ".py", 1, "it steps")], {}, Look(40)))
    assert told[:3] == [f"{path}:1: AMP913", "    it steps", f"    also: {'b ' * 30}.py:1"]


def test_colours_only_where_they_are_wanted():
    assert "\033[" not in "".join(lines(found(), look=Look(80)))
    told = lines(found(), look=Look(80, has_colours=True))
    assert told[0] == "\033[1ma.py:2\033[0m: \033[1;33mAMP913\033[0m it steps"
    assert told[3].startswith("    \033[1mwhy:\033[0m ")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("setting", "has_colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_what_a_stream_is_given(monkeypatch, setting, has_colours):
    for name, value in {"NO_COLOR": "", "TERM": "xterm", "COLUMNS": "72", **setting}.items():
        monkeypatch.setenv(name, value)
    assert look_of(_Terminal()) == Look(72, has_colours)
    assert look_of(io.StringIO()) == UNWRAPPED
    monkeypatch.setenv("COLUMNS", "400")
    assert look_of(_Terminal()).width == 120


def test_proofs_of_many_units_are_one_line(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_bytes(SCRIPT)
    told = run(".", cwd=tmp_path).stderr.decode().splitlines()
    assert [text.split(" proved:")[0] for text in told if "proved:" in text] == ["2 units:"]
    told = run(".", "-v", cwd=tmp_path).stderr.decode().splitlines()
    assert [text.split(" proved:")[0] for text in told if "proved:" in text] == ["a.py:", "b.py:"]


def test_the_documented_finding_is_what_is_printed():
    document = (ROOT.parent / "docs" / "terminal.md").read_text()
    example = document.split("## Findings", 1)[1].split("```\n")[1]
    told = run("fixtures/units/refuse_shared_helper_starred_call/before", cwd=ROOT.parent).stderr.decode()
    assert told.startswith(example)
