"""Notebooks: cells migrated as one program in order, everything else kept byte for byte."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from amp_migrate.cli import _commands
from amp_migrate.files.notebook import Notebook, NotebookError
from amp_migrate.report.parts import diff_for_people
from amp_migrate.result import Result

CELLS = [
    "!pip install apex\n%matplotlib inline\nimport torch\nfrom apex import amp",
    "# the model\nmodel = torch.nn.Linear(6, 3).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n',
    "%%bash\nfrom apex import nothing",
    "%%time\nfor step in range(6):\n"
    "    x = torch.randn(8, 6).cuda()\n"
    "    loss = torch.nn.functional.mse_loss(model(x), torch.zeros(8, 3).cuda())\n"
    "    optimizer.zero_grad()\n"
    "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
    "        scaled_loss.backward()\n"
    "    optimizer.step()\n"
    '    print("é", loss.item())',
    "",
    "history = !ls\nmodel.eval?",
]
AFTER = [
    "!pip install apex\n%matplotlib inline\nimport torch",
    CELLS[1],
    'scaler = torch.amp.GradScaler("cuda")\n',
    CELLS[3],
    "%%time\nfor step in range(6):\n"
    "    x = torch.randn(8, 6).cuda()\n"
    '    with torch.amp.autocast("cuda"):\n'
    "        loss = torch.nn.functional.mse_loss(model(x), torch.zeros(8, 3).cuda())\n"
    "    optimizer.zero_grad()\n"
    "    scaler.scale(loss).backward()\n"
    "    scaler.step(optimizer)\n"
    "    scaler.update()\n"
    '    print("é", loss.item())',
    "",
    CELLS[6],
]


def notebook(cells: list[str], *, as_text: bool = False, language: str = "python", **style) -> str:
    """A notebook with a cell of Markdown first, and an output with what must not be touched."""
    lines = [{"cell_type": "markdown", "metadata": {}, "source": ["# from apex import amp"]}]
    for cell in cells:
        lines.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {"tags": []},
                "outputs": [{"name": "stdout", "output_type": "stream", "text": ["0.10000000000000001 \u2028"]}],
                "source": cell if as_text else cell.splitlines(keepends=True),
            }
        )
    data = {
        "cells": lines,
        "metadata": {"kernelspec": {"name": "k", "language": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(data, **{"indent": 1, "ensure_ascii": False, **style}) + "\n"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, stdin: str | None = None):
    return CliRunner().invoke(_commands, ["migrate", "--api", "torch.amp", *args], input=stdin)


@pytest.mark.parametrize(
    "style",
    [{}, {"indent": 4}, {"indent": "\t"}, {"ensure_ascii": True}, {"as_text": True}, {"indent": None}],
    ids=["jupyter", "wide", "tabs", "ascii", "sources as text", "one line"],
)
def test_only_what_changes_is_written(project, style):
    Path("train.ipynb").write_text(notebook(CELLS, **style))
    result = run(".", "--write")
    assert (result.exit_code, "1 file migrated" in result.stderr) == (0, True), result.stderr
    assert Path("train.ipynb").read_text() == notebook(AFTER, **style)
    assert run(".", "--check").exit_code == 0


def test_windows_line_ends(project):
    Path("train.ipynb").write_bytes(notebook(CELLS).replace("\n", "\r\n").encode())
    run(".", "--write")
    assert Path("train.ipynb").read_bytes() == notebook(AFTER).replace("\n", "\r\n").encode()


def test_the_diff_applies_and_shows_changed_lines_only(project):
    Path("train.ipynb").write_text(notebook(CELLS))
    diff = run("train.ipynb").stdout
    removed = [line for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert len(removed) == 7  # of them one for a comma or line end that goes with the last line of a cell
    subprocess.run(["git", "apply", "-"], input=diff.encode(), check=True)
    assert Path("train.ipynb").read_text() == notebook(AFTER)


CELL_DIFF = """\
--- a/train.ipynb:cell 4
+++ b/train.ipynb:cell 4
@@ -1 +1 @@
-model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
+scaler = torch.amp.GradScaler("cuda")
"""


def on_a_terminal(*args: str, **env: str) -> str:
    """What the command writes where its standard output is a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "amp_migrate", "--api", "torch.amp", "-q", *args]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **env}
    with subprocess.Popen(command, stdout=its, env=environment) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:  # Linux says so where macOS returns nothing
                break
            if not read:
                break
            shown += read
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_shows_the_source_of_cells(project):
    (project / "train.ipynb").write_text(notebook(CELLS))
    plain = on_a_terminal(".", NO_COLOR="1")
    assert CELL_DIFF in plain
    assert [line for line in plain.splitlines() if line.startswith("---")] == [
        f"--- a/train.ipynb:cell {number}" for number in (2, 4, 6)
    ]
    assert "+    scaler.scale(loss).backward()\n" in plain
    assert "No newline" not in plain
    assert "\x1b[32m+    scaler.scale(loss).backward()\x1b[0m" in on_a_terminal(".")


def test_a_patch_is_one_of_the_file_on_a_terminal_too(project):
    (project / "train.ipynb").write_text(notebook(CELLS))
    assert on_a_terminal(".", "--patch", "native.patch") == ""
    subprocess.run(["git", "apply", "native.patch"], check=True)
    assert json.loads((project / "train.ipynb").read_text()) == json.loads(notebook(AFTER))


def test_comments_and_pages_show_the_source_of_cells(project):
    (project / "train.ipynb").write_text(notebook(CELLS))
    assert CELL_DIFF in run(".", "--output-format", "markdown").stdout
    run(".", "--report", "page.html")
    page = (project / "page.html").read_text()
    assert re.findall("<h4>(cell .)</h4>", page) == ["cell 2", "cell 4", "cell 6"]
    assert "scaler.scale(loss)" in re.sub("<.*?>", "", page)
    assert "outputs" not in page


def test_a_notebook_that_cannot_be_read_is_shown_as_it_is():
    result = Result("train.ipynb", b"{}\n", b"{ }\n", "migrated")
    assert "-{}\n+{ }\n" in diff_for_people(result)


def test_findings_name_the_cell(project):
    cells = [CELLS[0], CELLS[1], CELLS[2], "optimizer.step(lambda: 0)\n" + CELLS[4].removeprefix("%%time\n")]
    Path("train.ipynb").write_text(notebook(cells))
    result = run(".", "--output-format", "json")
    (found,) = [one for file in json.loads(result.stdout)["files"] for one in file["findings"]]
    assert found["cell"] == {"number": 5, "line": 1}
    assert "optimizer.step(lambda" in Path("train.ipynb").read_text().split("\n")[found["line"] - 1]
    assert "train.ipynb:cell 5:1: AMP913" in run(".").stderr


def test_a_block_cannot_span_cells(project):
    loop = ["x = torch.randn(8, 6).cuda()\ny = model(x)", "loss = y.pow(2).mean()"]
    step = "with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()\noptimizer.step()"
    Path("train.ipynb").write_text(notebook([*CELLS[:3], *loop, step]))
    result = run(".", "--check")
    assert (result.exit_code, "AMP986" in result.stderr) == (0, True), result.stderr


def test_comments_that_ask_to_be_left_alone(project):
    Path("train.ipynb").write_text(notebook(["# amp-migrate: ignore-file\n" + CELLS[0], *CELLS[1:]]))
    assert run(".", "--check").exit_code == 0


def test_another_language_is_not_read(project):
    Path("train.ipynb").write_text(notebook(CELLS, language="R"))
    assert "1 file with nothing to migrate" in run(".").stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"from apex import amp", "is no notebook of format 4"),
        (b'["apex"]', "is no notebook of format 4"),
        (b'{"worksheets": [], "apex": 1}', "is no notebook of format 4"),
        (b'{"cells": [{"cell_type": "code", "source": 3}], "a": "apex"}', "is no notebook of format 4"),
        (b'{"cells": [{"cell_type": "code", "source": ["apex', "is no notebook of format 4"),
        (b'{"cells": [], "a": "apex \xff"}', "byte 0xff is not valid UTF-8"),
        (b'{"cells": ' + b"[" * 9000 + b'"apex"', "is no notebook of format 4"),
    ],
)
def test_what_is_no_notebook(project, content, words):
    Path("broken.ipynb").write_bytes(content)
    Path("train.ipynb").write_text(notebook(CELLS))
    result = run(".", "--write")
    assert (result.exit_code, f"broken.ipynb:1: AMP994 {words}" in result.stderr) == (2, True), result.stderr
    assert Path("broken.ipynb").read_bytes() == content
    assert Path("train.ipynb").read_text() == notebook(AFTER)


def test_a_broken_notebook_that_does_not_train_is_nobodys_business(project):
    Path("broken.ipynb").write_text("{")
    assert run(".").exit_code == 0


def test_standard_input(project):
    assert run("-", "--stdin-filename", "train.ipynb", "--write", stdin=notebook(CELLS)).stdout == notebook(AFTER)


def test_a_cell_that_does_not_parse_is_named(project):
    Path("train.ipynb").write_text(notebook([*CELLS, "print 'done'"]))
    assert "train.ipynb:cell 9:1: AMP991 this is a Python 2 print statement" in run(".").stderr


@pytest.mark.parametrize(
    ("cell", "script"),
    [
        ("%%html\n<b>\n", "__amp_migrate_line_0__\n\n\n"),
        ("if x:\n    !ls\n", "if x:\n    __amp_migrate_line_0__\n\n"),
        ("a = %time f()", "a = __amp_migrate_line_0__\n"),
        ('print("%d"\n      % x)', 'print("%d"\n      % x)\n'),
        ("!pip install \\\n    x\ny = 1", "__amp_migrate_line_0__\n\ny = 1\n"),
        ("?f\nf??", "__amp_migrate_line_0__\n__amp_migrate_line_1__\n"),
    ],
)
def test_masks(cell, script):
    raw = notebook([cell]).encode()
    found = Notebook(raw)
    assert found.script.decode() == script
    assert found.with_script(found.script) == raw
    changed = json.loads(found.with_script(found.script + b"z = 2\n"))
    assert "".join(changed["cells"][1]["source"]) == cell + "\nz = 2"


def test_cells_that_cannot_be_told_apart():
    found = Notebook(notebook(["a = 1", "b = 2"]).encode())
    with pytest.raises(NotebookError):
        found.with_script(found.script.replace(b"__amp_migrate_cell_3__\n", b"    __amp_migrate_cell_3__\n"))


@pytest.mark.parametrize("given", [["train.ipynb"], ["."], [".", "train.ipynb"]])
@pytest.mark.parametrize(
    ("left", "need"),
    [
        ([], "no Python file imports apex after the migration"),
        (["from apex.contrib import xentropy\nxentropy.SoftmaxCrossEntropyLoss"], "train.ipynb:cell 8:1 still imports"),
    ],
)
def test_what_a_notebook_installs_is_told(project, given, left, need):
    Path("train.ipynb").write_text(notebook([CELLS[0].replace("apex", "apex==0.1", 1), *CELLS[1:6], *left]))
    told = run(*given, "--ignore", "AMP94").stderr
    if given == ["train.ipynb"]:
        need = need.replace("no Python file imports apex", "the notebook imports no apex")
    assert f"train.ipynb:cell 2:1: AMP130 asks PyPI for `apex==0.1`; {need}" in told
    assert "    1 | !pip install apex==0.1\n      |              ^^^^^^^^^\n" in told
    assert told.count("AMP130") == 1
    assert "AMP130 asks" not in run(*given, "--ignore", "AMP130").stderr


def test_a_notebook_that_does_not_change_installs_what_it_likes(project):
    Path("train.ipynb").write_text(notebook(["!pip install apex"]))
    assert "AMP130" not in run("train.ipynb").stderr
