"""Code in which the ways through it, or the places that a name may mean, multiply: analysis has to end all the same.

The time limit is a guard against an explosion and no measurement.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_TIME_LIMIT = 400
_HEAD = """\
import torch
import torch.nn as nn
from apex import amp

model = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
_STEP = """\
    loss = model(x).sum()
    optimizer.zero_grad()
{before}
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
{between}
    optimizer.step()
"""


def _step(before: str = "", between: str = "") -> str:
    parts = {"before": textwrap.indent(before, "    "), "between": textwrap.indent(between, "    ")}
    return "for i, x in enumerate(loader):\n" + _STEP.format(**parts)


def _ifs(count: int) -> str:
    return "\n".join(f"if option{k}:\n    value = {k}\nelse:\n    value = value + i" for k in range(count))


def _nested(count: int, then: str) -> str:
    lines = [f"{'  ' * k}if option{k}:" for k in range(count)]
    return "\n".join([*lines, "  " * count + then])


def _calling(count: int) -> str:
    functions = (
        f"def f{k}(v):\n    return f{(k * 7 + 1) % count}(v) + f{(k * 13 + 5) % count}(v)\n\n" for k in range(count)
    )
    return "".join(functions)


_SCRIPTS = {
    "40 conditions before the backward": _HEAD + _step(before=_ifs(40)),
    "40 conditions before the step": _HEAD + _step(between=_ifs(40)),
    "40 conditions that stand twice": _HEAD + _step(before=_ifs(40), between=_ifs(40)),
    "40 conditions that clip": _HEAD
    + _step(
        between="\n".join(
            f"if i % {k} == 0:\n    nn.utils.clip_grad_norm_(model.parameters(), {k})" for k in range(2, 42)
        )
    ),
    "90 nested conditions": _HEAD + _step(between=_nested(90, "print(i)")),
    "500 functions that call each other": _HEAD + _calling(500) + _step(before="f0(x)"),
    "100 optimizers": _HEAD
    + "".join(f"optimizer{k} = torch.optim.SGD(model.parameters(), lr=0.1)\n" for k in range(100))
    + _step(between="\n".join(f"optimizer{k}.zero_grad()" for k in range(100))),
    "a tuple of 2,000 names": _HEAD + f"{', '.join(f'v{k}' for k in range(2000))} = range(2000)\n" + _step(),
    "2,000 lines in a step": _HEAD + _step(before="\n".join(f"v{k} = i + {k}" for k in range(2000))),
    "a name of 300 values": _HEAD
    + "".join(f"if flags[{k}]:\n    net = nn.Linear({k}, 1)\n" for k in range(300))
    + _step(),
    "sums that come from each other": """\
import torch

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    total = 0
    for part in x:
        if part.sum() > 0:
            total += model(part)
        else:
            total += 2 * model(part)
    loss = torch.log(total + 1e-8).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a guard of 18 terms": _HEAD
    + _step(
        between=f"if {' and '.join(f'(a{k} or not b{k})' for k in range(9))}:\n    nn.utils.clip_grad_norm_(model.parameters(), 1)"
    ),
}


def _ends(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "amp_migrate", *arguments]
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        command, cwd=folder, capture_output=True, timeout=_TIME_LIMIT, env={"PYTHONPATH": root}, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert b"AMP999" not in done.stderr, done.stderr.decode()
    assert done.returncode == 0 or b"AMP991 its calls go too deep to be analysed" in done.stderr
    return done


@pytest.mark.parametrize("source", _SCRIPTS.values(), ids=_SCRIPTS)
def test_analysis_ends(tmp_path, source):
    (tmp_path / "train.py").write_text(source)
    _ends(tmp_path, "train.py")


def test_import_cycles_end(tmp_path):
    for number in range(20):
        others = "".join(f"from module{other} import *\n" for other in range(20) if other != number)
        (tmp_path / f"module{number}.py").write_text(f"{others}from apex import amp\n\n\ndef f{number}():\n    pass\n")
    (tmp_path / "train.py").write_text("from module0 import *\n" + _HEAD + _step())
    _ends(tmp_path, ".")


# What the byte searches see first, repeated until a pattern that goes back and forth would not come to an end.
@pytest.mark.parametrize(
    "part",
    [
        b"import ",
        b"import apexes, ",
        b"import_module(",
        b".backward ",
        b"\t",
        b" " * 3,
        b"apex fp16_utils ",
        b"pip install apex ",
        b"# amp-migrate: ignore[",
        b"torch>=1,",
        b"\\\n",
        b"cuda.amp ",
    ],
)
def test_searches_of_long_lines_end(tmp_path, part):
    line = b"# " + part * (300_000 // len(part))
    (tmp_path / "train.py").write_bytes((_HEAD + _step()).encode() + line + b"\n")
    (tmp_path / "requirements.txt").write_bytes(line + b"\ntorch>=2.4\n")
    (tmp_path / "README.md").write_bytes(line + b"\n")
    (tmp_path / "setup.py").write_bytes(b"install_requires = '''" + line + b"'''\n")
    _ends(tmp_path, ".")
