"""Strange and broken contents: each ends in a message that names file, line, reason and remedy, or is migrated well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli.migrate import migrate
from tests.test_cli import SCRIPT, run

_LONG = b"\nvalue = "  # of the statement that is nested


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(migrate, list(arguments))


@pytest.fixture
def script(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.py"


def _refused(script: Path, source: bytes, place_and_words: str) -> None:
    """The file stays, beside one that is migrated; the message says where, what, why and what to do."""
    script.write_bytes(source)
    (script.parent / "other.py").write_bytes(SCRIPT)
    result = _run(".", "--write")
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    told = rf"^train\.py:{place_and_words}.*\n(?:    +\d+ \| .+\n     +\| +\^+\n)?    why: .+\n    do:  .+$"
    assert re.search(told, result.output, re.MULTILINE), result.output
    assert script.read_bytes() == source
    assert b"scaler.step(optimizer)" in (script.parent / "other.py").read_bytes()


_NESTED = {
    "sum": b" + ".join([b"x"] * 900),
    "conjunction": b" and ".join([b"x"] * 3000),
    "calls": b"x" + b".f()" * 400,
    "subscripts": b"x" + b"[0]" * 600,
    "conditions": b" if x else ".join([b"x"] * 600),
    "calls that CPython does not parse": b"x" + b".f()" * 5000,
    "sum that CPython does not parse": b" + ".join([b"x"] * 6000),
    "lambdas that CPython does not parse": b"lambda: " * 5000 + b"x",
}


@pytest.mark.parametrize("expression", _NESTED.values(), ids=_NESTED)
def test_deep_nesting(script, expression):
    _refused(script, SCRIPT + _LONG + expression + b"\n", r"\d+: AMP991 the code is nested too deeply")


def test_a_chain_of_3000_elifs(script):
    chain = b"".join(b"elif x == %d:\n    pass\n" % number for number in range(3000))
    _refused(script, SCRIPT + b"if x:\n    pass\n" + chain, r"\d+: AMP991 the code is nested too deeply")


_MIGRATED_NESTS = {
    "190 lists": b"y = " + b"[" * 190 + b"]" * 190 + b"\n",
    "90 functions": b"".join(b" " * depth + b"def f():\n" for depth in range(90)) + b" " * 90 + b"pass\n",
    "99 conditions": b"".join(b" " * depth + b"if x:\n" for depth in range(99)) + b" " * 99 + b"pass\n",
    "a chain of comparisons": b"y = " + b" < ".join([b"x"] * 3000) + b"\n",
    "a table": b"y = {" + b",".join(b"%d: 'text'" % number for number in range(2000)) + b"}\n",
    "190 parentheses": b"y = " + b"(" * 190 + b"x" + b")" * 190 + b"\n",
    "4,000 blank lines": b"\n" * 4000,
    "a line of a million characters": b"# " + b"x" * 1_000_000 + b"\n",
    "4,000 equal lines": b"y = 1\n" * 4000,
}


@pytest.mark.parametrize("more", _MIGRATED_NESTS.values(), ids=_MIGRATED_NESTS)
def test_what_is_only_large_is_migrated(script, more):
    script.write_bytes(SCRIPT + more)
    result = _run("train.py", "--write")
    assert result.exit_code == 0, result.output
    assert b"scaler.step(optimizer)" in script.read_bytes()
    assert script.read_bytes().endswith(more)


def _tables(count: int, width: int) -> bytes:
    """As many lines, of as many numbers each, as some program may have written them."""
    numbers = ", ".join(str(k * 7919) for k in range(width))
    return b"".join(b"TABLE_%06d = [%s]\n" % (number, numbers.encode()) for number in range(count))


def _text(count: int) -> bytes:
    """As many lines with a long text each: what LibCST has few nodes for."""
    return b"".join(b"PAGE_%06d = b'%s'\n" % (number, b"ab" * 250) for number in range(count))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(_tables(100_000, 6), id="numbers"),
        pytest.param(b"from apex import amp\n" + SCRIPT + _tables(2000, 6) + _text(10_000), id="Apex"),
        pytest.param(b"loss.backward()  # on cuda\n" + _tables(2000, 6) + _text(10_000), id="a plain loop"),
    ],
)
def test_five_megabytes_of_generated_code(tmp_path, source):
    (tmp_path / "train.py").write_bytes(source)
    command = [sys.executable, "-m", "amp_migrate", "train.py", "--write"]
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, timeout=500, env={"PYTHONPATH": root}, check=False
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert (tmp_path / "train.py").read_bytes()[-1000:] == source[-1000:]


@pytest.mark.parametrize(
    ("source", "place_and_words"),
    [
        (SCRIPT + b"# \0\n", r"13: AMP991 source code cannot contain null bytes"),
        (SCRIPT + b"x = \x1a\n", r"13: AMP991 "),
        (SCRIPT + b"x = 1 \\", r"13: AMP991 "),
        (SCRIPT + b"x = '\\N{NO SUCH NAME}'\n", r"13: AMP991 "),
        (SCRIPT + b"x\xc2\xa0= 1\n", r"13: AMP991 "),
        (b"# coding: rot13\n" + SCRIPT, r"1: AMP990 rot13 is no encoding of text"),
        (b"# coding: undefined\n" + SCRIPT, r"1: AMP990 undefined is no encoding of text"),
        (b"# coding: idna\n" + SCRIPT, r"\d+: AMP99"),
        (b"# coding: ascii\n# caf\xc3\xa9\n" + SCRIPT, r"2: AMP990 byte 0xc3 is not valid ascii"),
        (b"# coding: cp1252\n# \x81\n" + SCRIPT, r"2: AMP990 byte 0x81 is not valid cp1252"),
        (b"\xef\xbb\xbf# coding: latin-1\n" + SCRIPT, r"1: AMP990 a byte order mark of UTF-8 and another encoding"),
        (SCRIPT.decode().encode("utf-16"), r"1: AMP990 the file is in UTF-16, which Python does not read"),
        (SCRIPT.replace(b"\n", b"\r"), r"1: AMP992 a carriage return without a line feed"),
        (SCRIPT.replace(b"torch\n", b"torch\r", 1), r"1: AMP992 a carriage return without a line feed"),
        (SCRIPT.replace(b"model =", b"\x0cmodel =", 1), r"4: AMP992 "),
        (b"from apex import amp\nexec 'x'\n", r"2: AMP991 this is a Python 2 exec statement"),
        (b"from apex import amp\nraise E, 'x'\n", r"2: AMP991 this is a Python 2 raise statement"),
    ],
)
def test_what_cannot_be_read_says_why(script, source, place_and_words):
    _refused(script, source, place_and_words)


_ENCODED = {
    "cp1252": b"# -*- coding: cp1252 -*-\n# \x80\n",
    "shift_jis": "# coding: shift_jis\n# 日本\n".encode("shift_jis"),
    "euc-jp": "# vim: set fileencoding=euc-jp :\n# 日本\n".encode("euc-jp"),
    "koi8-r": "#!/usr/bin/python\n# coding: koi8-r\n# сеть\n".encode("koi8-r"),
    "line separators of unicode": "# one\u2028line\u0085 here\n".encode(),
    "a lone surrogate in a string": b"text = '\\ud800'\n",
}


@pytest.mark.parametrize("head", _ENCODED.values(), ids=_ENCODED)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_every_byte_outside_of_the_change_stays(script, head, ends):
    source = (head + SCRIPT).replace(b"\n", ends)
    script.write_bytes(source)
    assert _run("train.py", "--write").exit_code == 0
    output = script.read_bytes()
    assert output.startswith(head.replace(b"\n", ends))
    assert output.count(b"\n") == output.count(ends)
    assert b"scaler.step(optimizer)" in output


def test_mixed_line_ends_stay_where_they_were(script):
    script.write_bytes(SCRIPT.replace(b"\n", b"\r\n", 4))
    assert _run("train.py", "--write").exit_code == 0
    output = script.read_bytes()
    assert b"import torch\r\n" in output
    assert b"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" in output
    assert b"for x, y in loader:\n" in output


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null apex",
        b'"apex backward cuda"',
        b'{"cells": {"apex": 1}, "nbformat": 4}',
        b'{"cells": [null, "apex"], "nbformat": 4}',
        b'{"nbformat": 4, "metadata": [], "cells": [{"cell_type": "code", "source": "from apex import amp"}]}',
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [["from apex import amp"]]}]}',
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "from apex import amp\\u0000"}]}',
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "from apex import amp # \\ud800"}]}',
        b'\xef\xbb\xbf{"nbformat": 4, "cells": [{"cell_type": "code", "source": "from apex import amp"}]}',
        json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": "from apex import amp"}]}).encode(
            "utf-16"
        ),
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "from apex import amp"}]} trailing',
    ],
)
def test_odd_notebooks(tmp_path, content):
    (tmp_path / "odd.ipynb").write_bytes(content)
    (tmp_path / "train.py").write_bytes(SCRIPT)
    result = run(".", "odd.ipynb", "--write", cwd=tmp_path)
    assert b"Traceback" not in result.stderr
    assert b"AMP999" not in result.stderr
    assert result.returncode in (0, 2)
    assert (tmp_path / "odd.ipynb").read_bytes() == content
    assert b"scaler.step(optimizer)" in (tmp_path / "train.py").read_bytes()
