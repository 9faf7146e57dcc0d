"""`verify` on the shapes that scripts come in: launchers, restarts, files, failures. All runs are on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from amp_migrate.options import Options
from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.errors import NotComparableError
from amp_migrate.verify.notebook import notebook_source
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import existing_pair, migrated_pair
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify

_IMPORTS = """\
import argparse, os, sys, time
import torch
from apex import amp
"""
_SETUP = """\
model = torch.nn.Linear(6, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
_STEP = """\
loss = torch.nn.functional.mse_loss(model(torch.randn(8, 6).cuda()), torch.zeros(8, 3).cuda())
optimizer.zero_grad()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
"""


def _in(head: str, body: str) -> str:
    """A block with its first line."""
    return head + "\n" + textwrap.indent(body, "    ")


_LOOP = _in("for _ in range(6):", _STEP)


def _script(*parts: str) -> str:
    return "\n".join(part.strip("\n") for part in parts) + "\n"


@pytest.fixture
def run(pool: Pool, tmp_path, monkeypatch):
    """Writes a script into an empty working directory, migrates a copy of it and compares."""
    work, outputs = tmp_path / "work", tmp_path / "outputs"
    work.mkdir()
    outputs.mkdir()
    monkeypatch.chdir(work)

    def run(script: str, args: tuple[str, ...] = (), name: str = "train.py", **settings) -> Comparison:
        Path(name).write_text(script)
        pair = migrated_pair(Path(name), args, args, Options(api="torch.amp"))
        return verify(*pair, Settings(**{"time_limit": 120.0, **settings}), pool, outputs, lambda run, steps: None)

    return run


def test_plain_script(run):
    comparison = run(_script(_IMPORTS, _SETUP, _LOOP))
    assert (comparison.verdict, comparison.reason) == ("same", "6 optimizer updates compared")
    assert {line.status for line in comparison.lines()} == {"ok"}
    assert comparison.sections[0].title == "without AMP"


def test_launched_script_runs_as_rank_0(run):
    process_group = """\
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("nccl")
assert torch.distributed.get_world_size() == 1
"""
    parallel = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])"
    comparison = run(_script(_IMPORTS, process_group, _SETUP, parallel, _LOOP))
    assert comparison.verdict == "same", comparison.reason
    assert "ran in one process, as rank 0 of 1" in comparison.notes


def test_script_that_spawns_processes(run):
    body = _SETUP + _LOOP
    group = "torch.distributed.init_process_group('nccl', 'tcp://localhost:23456', world_size=4, rank=rank)"
    main = _script(
        _IMPORTS,
        _in("def main(rank, steps):", _script(group, body)),
        _in("if __name__ == '__main__':", "torch.multiprocessing.spawn(main, nprocs=4, args=(6,))"),
    )
    comparison = run(main)
    assert comparison.verdict == "same", comparison.reason
    assert len(comparison.runs["original"].steps) == 6
    assert "ran in one process, as rank 0 of 1" in comparison.notes


def test_script_of_a_package(run):
    os.makedirs("lib/tools")
    for name in ("lib/__init__.py", "lib/tools/__init__.py"):
        Path(name).touch()
    Path("lib/data.py").write_text("WIDTH = 6\n")
    script = _script(_IMPORTS, "from ..data import WIDTH\nassert WIDTH == 6", _SETUP, _LOOP)
    comparison = run(script, name="lib/tools/train.py")
    assert comparison.verdict == "same", comparison.reason
    assert "ran as python -m lib.tools.train" in comparison.notes


def test_notebook(run):
    cells = [
        {"cell_type": "markdown", "source": ["# A title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!nvidia-smi\n", *_script(_IMPORTS).splitlines(True)]},
        {"cell_type": "code", "source": _script(_SETUP, _LOOP)},
    ]
    comparison = run(json.dumps({"cells": cells, "nbformat": 4}), name="train.ipynb")
    assert comparison.verdict == "same", comparison.reason
    assert len(comparison.runs["migrated"].steps) == 6
    assert os.listdir() == ["train.ipynb"]


_RESUMING = _script(
    _IMPORTS,
    _SETUP,
    """\
if "--resume" in sys.argv:
    saved = torch.load("checkpoints/last.pth")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    amp.load_state_dict(saved["amp"])
""",
    _in("for _ in range(3):", _STEP),
    """\
os.makedirs("checkpoints", exist_ok=True)
torch.save(
    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()},
    "checkpoints/last.pth",
)
""",
)


def test_what_only_ipython_understands(tmp_path):
    cells = [
        "if in_colab:\n    !pip install apex",
        "%%bash\nls -l",
        "%%time\ntimed = 1",
        "files = !ls\n?print",
        "odd = (7\n  % 4)\n%matplotlib inline",
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}))
    names = {"in_colab": True}
    exec(notebook_source(path), names)
    assert (names["timed"], names["files"], names["odd"]) == (1, None, 3)


def test_restart(run):
    comparison = run(_RESUMING, resume_args=("--resume",))
    assert comparison.verdict == "same", comparison.reason
    assert len(comparison.runs["migrated, after the restart"].steps) == 3
    assert {"restart", "without AMP, after the restart"} <= {section.title for section in comparison.sections}
    assert os.listdir() == ["train.py"]


def test_the_folder_of_the_user_stays_as_it_is(run):
    os.makedirs("logs/old")
    kept = {"best.pth": b"mine", "logs/old/a.txt": b"1", "logs/b.txt": b"2", "config.json": b"{}"}
    for name, content in kept.items():
        Path(name).write_bytes(content)
    damage = """\
assert open("best.pth", "rb").read() == b"mine"
torch.save(model.state_dict(), "best.pth")
open("logs/b.txt", "a").write("more")
os.makedirs("logs/new")
open("logs/new/c.txt", "w").write("x")
os.remove("config.json")
import shutil
shutil.rmtree("logs/old")
os.chdir("logs")
open("d.txt", "w").write("x")
assert open("b.txt").read() == "2more"
"""
    comparison = run(_script(_IMPORTS, _SETUP, _LOOP, damage))
    assert comparison.verdict == "same", comparison.reason
    assert comparison.runs["original"].outcome == "finished"
    found = {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.name != "train.py"}
    assert found == kept


def test_repository_and_links_of_the_user(run):
    """What a script does to git, and through links, it does to the working copy."""
    for command in ("git init -q .", "git add .", "git -c user.name=a -c user.email=a@b commit -qm one --allow-empty"):
        subprocess.run(command, shell=True, check=True)
    os.makedirs("runs/1")
    Path("runs/1/loss.txt").write_text("mine")
    os.symlink("runs/1", "latest")
    os.symlink("nowhere", "broken")
    head = Path(".git/HEAD").read_bytes(), subprocess.check_output("git rev-parse HEAD; git tag", shell=True)
    damage = """\
import subprocess
def shell(command):
    subprocess.run(command, shell=True, check=True)
shell("git rev-parse HEAD && git tag model-1 && git checkout -q -b other && echo gone > latest/loss.txt")
shell("git -c user.name=a -c user.email=a@b commit -qm two --allow-empty && echo new > broken && rm runs/1/loss.txt")
"""
    comparison = run(_script(_IMPORTS, _SETUP, _LOOP, damage))
    assert comparison.runs["original"].outcome == "finished", comparison.runs["original"].failure
    assert comparison.verdict == "same", comparison.reason
    assert Path("runs/1/loss.txt").read_text() == "mine"
    assert not Path("nowhere").exists()
    assert head == (Path(".git/HEAD").read_bytes(), subprocess.check_output("git rev-parse HEAD; git tag", shell=True))


def test_absolute_path_into_the_project_is_refused(run):
    path = os.path.abspath("checkpoint.pth")
    Path(path).write_text("mine")
    comparison = run(_script(_IMPORTS, _SETUP, _LOOP, f"torch.save(model.state_dict(), {path!r})"))
    assert comparison.verdict == "same", comparison.reason  # both trained, and were stopped alike
    assert "relative path" in comparison.runs["original"].failure.message
    assert Path(path).read_text() == "mine"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import no_such_package", "the original needs the package no_such_package, which is not installed here"),
        ("open('data/train.csv')", "the original needs data/train.csv, which is not here"),
        ("raise ValueError('no data')", "ValueError: no data"),
        ("sys.exit('usage: train.py DATA')", "usage: train.py DATA"),
        ("os._exit(3)", "SystemExit: 3"),
        ("os.kill(os.getpid(), 9)", "the original was killed"),
        ("quit()", "the original made no optimizer step"),
    ],
)
def test_original_that_does_not_run(run, line, reason):
    comparison = run(_script(_IMPORTS, line, _SETUP, _LOOP))
    assert comparison.verdict == "not comparable"
    assert reason in comparison.reason
    if "killed" not in reason and "no optimizer" not in reason and "_exit" not in line:
        assert "train.py:4" in comparison.reason


def test_original_that_becomes_nan(run):
    broken = _LOOP.replace("torch.zeros(8, 3)", "torch.full((8, 3), float('nan') if _ == 3 else 0.0)")
    broken = broken.replace('opt_level="O1"', 'opt_level="O1", loss_scale=1.0')
    setup = _SETUP.replace('"O1"', '"O1", loss_scale=1.0')
    comparison = run(_script(_IMPORTS, setup, broken))
    assert (comparison.verdict, comparison.reason) == ("not comparable", "the original becomes NaN at update 4")


def test_loss_scale_that_is_too_high(run):
    comparison = run(
        _script(_IMPORTS, _SETUP, _LOOP.replace("optimizer.zero_grad()", "optimizer.zero_grad(); loss *= 300"))
    )
    assert comparison.verdict == "same", comparison.reason
    assert any("the first steps were skipped" in note for note in comparison.notes)
    assert comparison.runs["original"].scalers[0].first_scale < 65536


def test_loss_scale_that_is_too_high_for_the_second_optimizer(run):
    twin = """\
second = torch.nn.Linear(6, 3).cuda()
both = [torch.optim.SGD(one.parameters(), lr=0.1 / size) for one, size in ((model, 1), (second, 300))]
for _ in range(6):
    for one, optimizer, size in ((model, both[0], 1), (second, both[1], 300)):
        loss = size * torch.nn.functional.mse_loss(one(torch.randn(8, 6).cuda()), torch.zeros(8, 3).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    imports = _IMPORTS.replace("from apex import amp\n", "")
    comparison = run(_script(imports, _SETUP.splitlines()[0], twin))
    assert comparison.verdict == "same", comparison.reason
    assert not any(step.applied is False for step in comparison.runs["migrated"].steps)


def test_time_limit(run):
    endless = _LOOP.replace("for _ in range(6):", "while True:\n    time.sleep(0.01)")
    comparison = run(_script(_IMPORTS, _SETUP, endless), time_limit=4)
    assert comparison.runs["original"].outcome == "time limit"
    assert comparison.verdict == "same", comparison.reason


def test_steps(run):
    swallowed = _in("while True:", _script(_in("try:", _STEP), _in("except Exception:", "pass")))
    comparison = run(_script(_IMPORTS, _SETUP, swallowed), steps=4)
    assert comparison.verdict == "same", comparison.reason
    assert (comparison.runs["original"].outcome, len(comparison.runs["original"].steps)) == ("stopped", 4)


def test_workers_and_subprocesses_are_not_recorded(run):
    data = """\
import subprocess
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, i):
        w = torch.ones(1, requires_grad=True)
        (w * i).sum().backward()
        return torch.full((6,), float(i) / 48)
"""
    loop = _LOOP.replace("for _ in range(6):", "for x in torch.utils.data.DataLoader(Data(), 8, num_workers=2):")
    child = "subprocess.run([sys.executable, '-c', 'import torch; print(torch.__version__)'], check=True)"
    comparison = run(_script(_IMPORTS, data, _SETUP, child, loop.replace("torch.randn(8, 6)", "x")))
    assert comparison.verdict == "same", comparison.reason
    assert len(comparison.runs["original"].backwards) == 6


def test_arguments_of_one_side(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flag = "fp16 = '--fp16' in sys.argv"
    setup = _SETUP.replace("model, optimizer = amp", "if fp16:\n    model, optimizer = amp")
    scaled = "with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()\n"
    guarded = _script(_in("if fp16:", scaled), _in("else:", "loss.backward()"))
    loop = _in("for _ in range(6):", _STEP.replace(scaled, guarded))
    Path("train.py").write_text(_script(_IMPORTS, flag, setup, loop))
    pair = migrated_pair(Path("train.py"), (), ("--fp16",), Options(api="torch.amp"))
    comparison = verify(*pair, Settings(), pool, tmp_path, lambda run, steps: None)
    assert comparison.verdict == "same", comparison.reason
    assert (comparison.before.args, comparison.after.args) == ((), ("--fp16",))
    assert not comparison.runs["original"].scalers
    assert comparison.runs["migrated"].scalers


_FP16_OPTIMIZER = """\
import torch
from apex.fp16_utils import FP16_Optimizer, network_to_half
model = network_to_half(torch.nn.Linear(6, 3).cuda())
optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), dynamic_loss_scale=True)
for _ in range(6):
    loss = torch.nn.functional.mse_loss(model(torch.randn(8, 6).cuda()).float(), torch.zeros(8, 3).cuda())
    optimizer.zero_grad()
    optimizer.backward(loss)
    optimizer.step()
"""
_BY_HAND = """\
import torch
model = torch.nn.Linear(6, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(6):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.mse_loss(model(torch.randn(8, 6).cuda()), torch.zeros(8, 3).cuda())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("after", "verdict", "reason"),
    [
        (_BY_HAND, "same", "6 optimizer updates"),
        (
            _BY_HAND.replace("scaler.scale(loss)", "loss")
            .replace("scaler.step(optimizer)", "optimizer.step()")
            .replace("    scaler.update()\n", ""),
            "different",
            "loss scale",
        ),
    ],
)
def test_fp16_optimizer_against_a_migration_by_hand(pool, tmp_path, monkeypatch, after, verdict, reason):
    monkeypatch.chdir(tmp_path)
    Path("before.py").write_text(_FP16_OPTIMIZER)
    Path("after.py").write_text(after)
    pair = existing_pair(Path("before.py"), Path("after.py"), None, (), ())
    comparison = verify(*pair, Settings(), pool, tmp_path, lambda run, steps: None)
    assert (comparison.verdict, reason in comparison.reason) == (verdict, True), comparison.reason
    assert [backward.loss_scale for backward in comparison.runs["original"].backwards] == [65536.0] * 6


def test_checkpoint_that_holds_a_loss_scaler(run):
    """FP16_Optimizer pickles its loss scaler, which torch.load takes no more; the migrated script saves numbers."""
    again = """\
torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
optimizer.load_state_dict(torch.load("last.pt")["optimizer"])
loss = model(torch.randn(8, 6).cuda()).float().pow(2).mean()
optimizer.zero_grad()
optimizer.backward(loss)
optimizer.step()
"""
    comparison = run(_script(_FP16_OPTIMIZER, again))
    assert (comparison.verdict, comparison.reason) == ("same", "7 optimizer updates compared")
    assert any("torch.load takes whole pickles, as before torch 2.6" in note for note in comparison.notes)


def test_two_trees(pool, tmp_path, monkeypatch):
    for tree in ("old", "new"):
        (tmp_path / tree / "lib").mkdir(parents=True)
        (tmp_path / tree / "lib" / "helper.py").write_text(f"NAME = {tree!r}")
        (tmp_path / tree / "train.py").write_text(
            _script(_IMPORTS, "from lib.helper import NAME", f"assert NAME == {tree!r}", _SETUP, _LOOP)
        )
    monkeypatch.chdir(tmp_path)
    pair = existing_pair(Path("old"), Path("new"), Path("train.py"), (), ())
    comparison = verify(*pair, Settings(), pool, tmp_path, lambda run, steps: None)
    assert comparison.verdict == "same", comparison.reason


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print('no training')", "there is nothing to migrate"),
        (_script(_IMPORTS, _SETUP, _LOOP, "optimizer.step(lambda: None)"), "AMP913"),
        ("from apex import amp\ndef broken(:", "AMP991"),
    ],
)
def test_script_that_is_not_migrated(tmp_path, source, words):
    script = tmp_path / "train.py"
    script.write_text(source + "\n")
    with pytest.raises(NotComparableError, match=words):
        migrated_pair(script, (), (), Options(api="torch.amp"))


def test_a_script_that_is_migrated_already_is_compared_with_what_git_has(tmp_path, monkeypatch):
    def git(*args: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    files = {"train.py": "import helper\nimport other\n", "helper.py": "LEVEL = 1\n", "other.py": "", "unused.py": ""}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    git("init")
    with pytest.raises(NotComparableError, match="nothing to migrate"):
        migrated_pair(Path("train.py"), (), (), Options())
    git("add", ".")
    git("commit", "-m", "all")
    with pytest.raises(NotComparableError, match="nothing to migrate"):
        migrated_pair(Path("train.py"), (), (), Options())
    for name in ("train.py", "helper.py", "unused.py"):
        (tmp_path / name).write_text(files[name] + "NEW = 2\n")
    before, after = migrated_pair(Path("train.py"), (), (), Options())
    assert before.changed == {tmp_path / name: files[name].encode() for name in ("train.py", "helper.py")}
    assert after.changed == {}
    assert set(before.version.files) == {"train.py", "helper.py", "other.py"}
    assert before.version != after.version
