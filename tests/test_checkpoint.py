"""`amp-migrate checkpoint`: what it finds, what it writes, what it refuses; and runs that resume from both sides."""

from __future__ import annotations

import argparse
import copy
import os
import pickle
import random
import shutil
import stat
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from amp_migrate.checkpoint.read import load
from amp_migrate.cli import _commands
from tests import checkpoint_runs
from tests.checkpoint_runs import FIRST, LAST

NATIVE_SCALER = {"scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
# float16 rounds by 2**-11; over these runs that moves a loss by less than 4e-5.
NOISE = 2.0**-11


def convert(*arguments):
    return CliRunner().invoke(_commands, ["checkpoint", *map(str, arguments)], catch_exceptions=False)


def read(path):
    return torch.load(path, weights_only=True)


@pytest.fixture
def converted(tmp_path):
    """Saves a checkpoint, converts it, and returns it with what was said."""

    def converted(checkpoint, *options, exit_code=0, zip_format=True):
        path = tmp_path / "run.pt"
        torch.save(checkpoint, path, _use_new_zipfile_serialization=zip_format)
        result = convert(path, "--write", *options)
        assert result.exit_code == exit_code, result.output
        assert "Traceback" not in result.output
        return (read(path) if exit_code == 0 else None), result.output

    return converted


# -- real runs on both sides ----------------------------------------------------------------------------------------

FORMS = ("O1", "O2", "FP16_Optimizer", "FusedAdam")


class Runs:
    """Runs of every form, saved half way, converted, and resumed on both sides: their results by name."""

    def __init__(self, folder):
        self.folder = folder
        sides = [("apex", form) for form in FORMS] + [("native", "O1"), ("native", "FusedAdam")]
        checkpoint_runs.run(
            [
                {"side": side, "form": form, "steps": (0, FIRST), "save": self.path(side, form), "zip": form != "O2"}
                for side, form in sides
            ]
        )
        for side, form in sides:
            shutil.copyfile(self.path(side, form), self.path(side, form, "converted"))
        self.said = {form: convert(self.path("apex", form, "converted"), "--write").output for form in FORMS}
        convert(self.path("native", "O1", "converted"), "--to", "apex", "--write")
        convert(self.path("native", "FusedAdam", "converted"), "--to", "apex", "--fused-adam", "--write")
        self._spoil("O1", lambda checkpoint: checkpoint["optimizer"]["state"].clear())
        self._spoil(
            "FusedAdam", lambda checkpoint: [s["step"].fill_(0) for s in checkpoint["optimizer"]["state"].values()]
        )
        jobs = {}
        for side, form in sides:
            other = "native" if side == "apex" else "apex"
            jobs[side, form, "goes on"] = (side, form, self.path(side, form))
            jobs[side, form, "converted"] = (other, form, self.path(side, form, "converted"))
        for form in ("O1", "FusedAdam"):
            jobs["apex", form, "spoiled"] = ("native", form, self.path("apex", form, "spoiled"))
        results = checkpoint_runs.run(
            [{"side": s, "form": f, "steps": (FIRST, LAST), "resume": path} for s, f, path in jobs.values()]
        )
        self.results = dict(zip(jobs, results, strict=True))

    def path(self, side, form, suffix="saved"):
        return str(self.folder / f"{side} {form} {suffix}.pt")

    def difference(self, side, form, suffix="converted"):
        """The largest relative difference of a loss after resuming."""
        expected = self.results[side, form, "goes on"]["losses"]
        found = self.results[side, form, suffix]["losses"]
        assert len(expected) == len(found) == LAST - FIRST
        return max(abs(a - b) / a for a, b in zip(expected, found, strict=True))

    def _spoil(self, form, change):
        checkpoint = read(self.path("apex", form, "converted"))
        change(checkpoint)
        torch.save(checkpoint, self.path("apex", form, "spoiled"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("form", FORMS)
def test_a_native_run_goes_on_where_apex_stopped(runs, form):
    assert runs.difference("apex", form) < NOISE
    scales = [runs.results["apex", form, which]["scale"] for which in ("goes on", "converted")]
    assert scales[0] == scales[1]


@pytest.mark.parametrize("form", ["O1", "FusedAdam"])
def test_an_apex_run_goes_on_where_native_code_stopped(runs, form):
    assert runs.difference("native", form) < NOISE
    scales = [runs.results["native", form, which]["scale"] for which in ("goes on", "converted")]
    assert scales == [2.0**17, 2.0**17]  # the growth that the count of good steps was due


@pytest.mark.parametrize("form", ["O1", "FusedAdam"])
def test_the_runs_would_show_a_lost_optimizer_state(runs, form):
    assert runs.difference("apex", form, "spoiled") > 20 * NOISE


def test_what_is_said_about_real_runs(runs):
    assert "amp's state becomes GradScaler's: scale 65536.0, 1996 steps since it changed" in runs.said["O1"]
    assert "float32 with the values of float16, as Apex saves O2" in runs.said["O2"]
    assert "as Apex saves O2" not in runs.said["O1"]
    assert "FusedAdam's step (6) goes from the parameter groups to each of 8 parameters" in runs.said["FusedAdam"]
    expected = [
        "checkpoint['model']: 6 tensors from float16 to float32, 6 of them with the exact values of the masters in "
        "checkpoint['optimizer']",
        "checkpoint['model']: \"1.\" of network_to_half is taken out of all 11 keys",
        "checkpoint['optimizer']: FP16_Optimizer's state becomes that of the optimizer in it",
        "checkpoint['scaler']: new, GradScaler's state: scale 65536.0, 6 steps since it changed",
    ]
    assert [line.strip() for line in runs.said["FP16_Optimizer"].splitlines()[1:-1]] == expected


def test_the_masters_of_a_real_run_are_the_weights_afterwards(runs):
    decayed, others = load(Path(runs.path("apex", "FP16_Optimizer")))["optimizer"]["fp32_from_fp16"]
    model = read(runs.path("apex", "FP16_Optimizer", "converted"))["model"]
    for name, master in zip(["0.weight", "3.weight", "5.weight"], decayed, strict=True):
        assert torch.equal(model[name], master)
        assert not torch.equal(model[name], master.half().float())
    for name, master in zip(["0.bias", "3.bias", "5.bias"], others, strict=True):
        assert torch.equal(model[name], master)


@pytest.mark.parametrize("form", FORMS)
def test_a_second_run_finds_nothing(runs, form):
    path = Path(runs.path("apex", form, "converted"))
    before = path.read_bytes()
    result = convert(path, "--write")
    assert result.exit_code == 0
    assert "nothing to convert" in result.output
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", FORMS)
def test_the_original_and_the_format_are_kept(runs, form):
    saved, path = Path(runs.path("apex", form)), Path(runs.path("apex", form, "converted"))
    assert path.with_name(path.name + ".bak").read_bytes() == saved.read_bytes()
    assert path.read_bytes()[:2] == saved.read_bytes()[:2]  # PK, or a pickle
    assert (path.read_bytes()[:2] == b"PK") == (form != "O2")


# -- writing ---------------------------------------------------------------------------------------------------------


def amp_state(*scales, unskipped=7):
    return OrderedDict(
        (f"loss_scaler{index}", {"loss_scale": scale, "unskipped": unskipped}) for index, scale in enumerate(scales)
    )


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.pt"
    torch.save({"epoch": 3, "amp": amp_state(1024.0)}, path)
    return path


def test_nothing_is_written_without_being_told(saved):
    before = saved.read_bytes()
    result = convert(saved)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        str(saved),
        "  checkpoint['amp']: amp's state becomes GradScaler's: scale 1024.0, 7 steps since it changed",
        f"  not written; --write does, and keeps the original as {saved}.bak",
    ]
    assert os.listdir(saved.parent) == ["run.pt"]
    assert saved.read_bytes() == before


def test_write_keeps_the_original_and_the_mode(saved):
    before = saved.read_bytes()
    saved.chmod(0o640)
    result = convert(saved, "--write")
    assert result.output.splitlines()[-1] == f"  written; the original is {saved}.bak"
    assert sorted(os.listdir(saved.parent)) == ["run.pt", "run.pt.bak"]
    assert Path(f"{saved}.bak").read_bytes() == before
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640
    assert read(saved) == {"epoch": 3, "amp": {**NATIVE_SCALER, "_growth_tracker": 7}}


def test_an_original_that_is_kept_is_never_overwritten(saved):
    kept = Path(f"{saved}.bak")
    kept.write_bytes(b"precious")
    before = saved.read_bytes()
    result = convert(saved, "--write")
    assert result.exit_code == 2
    assert "is there already" in result.output
    assert (saved.read_bytes(), kept.read_bytes()) == (before, b"precious")
    assert sorted(os.listdir(saved.parent)) == ["run.pt", "run.pt.bak"]


def test_without_hard_links_the_original_is_copied(saved, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    before = saved.read_bytes()
    monkeypatch.setattr(os, "link", refuse)
    assert convert(saved, "--write").exit_code == 0
    assert Path(f"{saved}.bak").read_bytes() == before != saved.read_bytes()


def test_a_link_stays_a_link(saved, tmp_path):
    link = tmp_path / "latest.pt"
    link.symlink_to(saved.name)
    result = convert(link, "--write")
    assert link.is_symlink()
    assert "scale" in read(saved)["amp"]
    assert f"the original is {saved}.bak" in result.output


def test_a_full_disk_changes_nothing(saved, monkeypatch):
    def write_a_part(_, file, *__, **___):
        file.write(b"PK")
        raise RuntimeError("PytorchStreamWriter failed writing file data.pkl: file write failed")

    before = saved.read_bytes()
    monkeypatch.setattr(torch, "save", write_a_part)
    result = convert(saved, "--write")
    assert result.exit_code == 2
    assert "can't be written: PytorchStreamWriter failed" in result.output
    assert os.listdir(saved.parent) == ["run.pt"]
    assert saved.read_bytes() == before


def test_a_file_without_apex_is_left_alone(tmp_path):
    path = tmp_path / "run.pt"
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": {}}, path)
    before = path.read_bytes()
    result = convert(path, "--write")
    assert result.output.splitlines() == [str(path), "  nothing to convert"]
    assert path.read_bytes() == before


# -- files that are not what they should be --------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def _bad_files(folder):
    torch.save({"weights": torch.ones(1000)}, folder / "whole.pt")
    whole = (folder / "whole.pt").read_bytes()
    torch.save({"weights": torch.ones(1000)}, folder / "whole.old.pt", _use_new_zipfile_serialization=False)
    whole_old = (folder / "whole.old.pt").read_bytes()
    (folder / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "truncated.old.pt").write_bytes(whole_old[:-400])
    (folder / "short.old.pt").write_bytes(whole_old[:60])
    (folder / "empty.pt").write_bytes(b"")
    (folder / "text.pt").write_text("epoch 1 loss 0.3\n" * 20)
    (folder / "random.pt").write_bytes(random.Random(0).randbytes(3000))
    (folder / "folder.pt").mkdir()
    np.save(folder / "array.npy", np.ones(3))
    np.savez(folder / "arrays.npz", x=np.ones(3))
    torch.save({"a": Bomb()}, folder / "bomb.pt")
    torch.save({"a": Bomb()}, folder / "bomb.old.pt", _use_new_zipfile_serialization=False)
    (folder / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    (folder / "bomb2.pkl").write_bytes(pickle.dumps(Bomb(), protocol=2))
    torch.save({"share": Fraction(1, 2)}, folder / "fraction.pt")
    torch.save(nn.Linear(2, 2), folder / "model.pt")
    torch.save({"a": torch.ones(2)}, folder / "protocol.pt", pickle_protocol=4)
    with zipfile.ZipFile(folder / "script.pt", "w") as archive:
        for record in ("constants.pkl", "data.pkl", "version"):
            archive.writestr(f"script/{record}", b"3")


BAD = {
    "missing.pt": "does not exist",
    "folder.pt": "is a folder",
    "truncated.pt": "an incomplete one (PytorchStreamReader failed reading zip archive",
    "truncated.old.pt": "an incomplete one (unexpected EOF",
    "short.old.pt": "an incomplete one",
    "empty.pt": "an incomplete one",
    "text.pt": "is no checkpoint",
    "random.pt": "is no checkpoint",
    "array.npy": "is no checkpoint",
    "arrays.npz": "is no checkpoint",
    "bomb.pt": "asks for posix.system",
    "bomb.old.pt": "asks for posix.system",
    "bomb.pkl": "is no checkpoint",
    "bomb2.pkl": "asks for posix.system",
    "fraction.pt": "asks for fractions.Fraction",
    "model.pt": "asks for torch.nn.modules.linear.Linear",
    "protocol.pt": "another pickle protocol",
    "script.pt": "TorchScript",
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    _bad_files(folder)
    return folder


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_and_the_next_is_converted(bad_files, saved, name, monkeypatch):
    monkeypatch.chdir(bad_files)
    result = convert(name, saved, "--write")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{name}: ")
    assert BAD[name] in result.stderr
    assert "\n" not in result.stderr.strip()
    assert "scale" in read(saved)["amp"]
    assert not Path("exploded").exists()
    assert not list(bad_files.glob("*.bak"))


def test_a_file_that_may_not_be_read(saved, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(torch, "load", refuse)
    result = convert(saved)
    assert (result.exit_code, result.stderr) == (2, f"{saved}: can't be read: Permission denied\n")


def save_scaler_as(path, module, name):
    """A loss scaler pickled under any name, whose class would run code on loading."""
    code = {"__module__": module, "__setstate__": lambda self, state: Path("exploded").touch()}
    scaler = type(name, (), code)()
    scaler.__dict__.update(_loss_scale=64.0, _unskipped=3)
    parts = module.split(".")
    modules = {".".join(parts[: index + 1]): types.ModuleType(part) for index, part in enumerate(parts)}
    setattr(modules[module], name, type(scaler))
    with mock.patch.dict(sys.modules, modules):
        torch.save({"scaler": scaler}, path)


def test_a_name_that_is_no_unicode(saved):
    name = os.fsdecode(b"run\xff.pt")
    os.rename(saved, saved.parent / name)
    command = [sys.executable, "-m", "amp_migrate", "checkpoint", name, "missing" + name]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(command, cwd=saved.parent, env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)
    assert b"amp's state becomes GradScaler's" in result.stdout


def test_only_the_names_of_apex_are_let_in_and_they_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.pt"
    save_scaler_as(path, "apex.amp.handle", "LossScaler")
    result = convert(path)
    assert (result.exit_code, "asks for apex.amp.handle.LossScaler" in result.output) == (2, True)
    save_scaler_as(path, "apex.amp.scaler", "LossScaler")
    result = convert(path)
    assert "checkpoint['scaler']: Apex's loss scaler becomes GradScaler's state: scale 64.0, 3 steps" in result.output
    assert not Path("exploded").exists()


@pytest.mark.parametrize("is_zip", [True, False])
def test_plain_data_of_other_packages_is_taken_along(tmp_path, is_zip):
    path = tmp_path / "run.pt"
    args = argparse.Namespace(lr=0.1, out=Path("runs/1"), mean=torch.ones(2), best=np.float32(0.5))
    arrays = [np.arange(6).reshape(2, 3), np.array(["a", "b"]), np.array([1, "x"], dtype=object)]
    numbers = [np.float64(0.25), np.int64(7), np.bool_(True), np.dtype("f2")]
    scaler = {"loss_scaler0": {"loss_scale": 64.0, "unskipped": 3}}
    saved = {"args": args, "arrays": arrays, "numbers": numbers, "amp": scaler, "again": [args]}
    torch.save(saved, path, _use_new_zipfile_serialization=is_zip)
    assert convert(path, "--write").exit_code == 0
    assert "nothing to convert" in convert(path).output
    found = torch.load(path, weights_only=False)
    assert found["amp"]["scale"] == 64.0
    assert found["again"][0] is found["args"]
    assert torch.equal(vars(found["args"]).pop("mean"), vars(args).pop("mean"))
    assert found["args"] == args
    assert found["numbers"] == numbers and [type(one) for one in found["numbers"]] == [type(one) for one in numbers]
    assert all(np.array_equal(one, other) for one, other in zip(found["arrays"], arrays, strict=True))


def test_what_others_allow_is_not_allowed_here_and_stays_allowed_for_them(tmp_path):
    path = tmp_path / "run.pt"
    torch.save({"share": Fraction(1, 2)}, path)
    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([Fraction])
    try:
        assert convert(path).exit_code == 2
        assert set(torch.serialization.get_safe_globals()) == {*before, Fraction}
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def test_without_torch_the_extra_is_named(saved, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/torch.py").write_text("raise ImportError('no torch here')")
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'broken'}{os.pathsep}{root}"}
    command = [sys.executable, "-m", "amp_migrate", "checkpoint", str(saved)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        "checkpoint needs torch beside amp-migrate: pip install 'amp-migrate[checkpoint]' (no torch here)\n"
    )


# -- loss scalers ----------------------------------------------------------------------------------------------------


def test_several_scalers_become_the_lowest(converted):
    state = amp_state(65536.0, 512.0, 4096.0)
    state["loss_scaler2"]["unskipped"] = 2
    after, output = converted({"amp": state})
    assert after["amp"] == {**NATIVE_SCALER, "scale": 512.0, "_growth_tracker": 2}
    assert "the lowest of 3 scalers, scale 512.0" in output


def test_a_static_scale_is_named_and_its_count_can_still_grow(converted):
    after, output = converted({"amp": amp_state(128.0, unskipped=40_000)})
    assert after["amp"]["_growth_tracker"] == 1999
    assert "the loss scale was static; GradScaler changes its own unless scaler.update(128.0)" in output


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf"), "big", None])
def test_a_scale_from_which_nothing_comes_back_is_an_error(converted, scale):
    _, output = converted({"amp": amp_state(scale)}, exit_code=2)
    assert "checkpoint['amp']: " in output


def test_the_state_is_found_at_any_depth_and_alone(converted):
    after, output = converted({"trainer": [{"states": (1, {"apex": amp_state(1024.0)})}]})
    native = {**NATIVE_SCALER, "_growth_tracker": 7}
    assert after == {"trainer": [{"states": (1, {"apex": native})}]}
    assert "checkpoint['trainer'][0]['states'][1]['apex']: amp's state" in output


def test_the_state_as_the_whole_file(converted):
    assert converted(amp_state(1024.0))[0] == {**NATIVE_SCALER, "_growth_tracker": 7}


def test_a_checkpoint_that_holds_itself_ends(converted):
    checkpoint = {"amp": amp_state(1024.0)}
    checkpoint["itself"] = checkpoint
    after, _ = converted(checkpoint)
    assert after["itself"] is after
    assert "scale" in after["amp"]


def test_dynamic_scalers_of_old_files_go_on_as_they_were(converted, apex, tmp_path):
    """The same overflows after any number of steps: the scale stays equal to Apex's own."""
    from apex.fp16_utils import DynamicLossScaler

    overflows = [step in (2, 3, 11) for step in range(40)]
    for stop in (0, 1, 3, 4, 9, 12, 20):
        scaler = DynamicLossScaler(init_scale=2.0**10, scale_factor=4.0, scale_window=5)
        for overflow in overflows[:stop]:
            scaler.update_scale(overflow)
        path = tmp_path / f"{stop}.pt"
        torch.save({"loss_scaler": scaler}, path)
        assert convert(path, "--write").exit_code == 0
        native = torch.amp.GradScaler("cpu")
        native.load_state_dict(read(path)["loss_scaler"])
        native.scale(torch.ones(1))
        for overflow in overflows[stop:]:
            scaler.update_scale(overflow)
            param = nn.Parameter(torch.zeros(1))
            param.grad = torch.full((1,), float("inf") if overflow else 1.0)
            optimizer = torch.optim.SGD([param], 1.0)
            native.step(optimizer)
            native.update()
            assert native.get_scale() == scaler.loss_scale


def test_limits_of_the_scale_are_named(converted, apex):
    from apex.amp.scaler import LossScaler

    _, output = converted({"s": LossScaler("dynamic", min_loss_scale=1.0, max_loss_scale=512.0)})
    assert "GradScaler has no min_loss_scale=1.0, max_loss_scale=512.0; clamp the scale" in output


# -- FP16_Optimizer and half weights ---------------------------------------------------------------------------------


@pytest.fixture
def fp16(apex):
    """Builds a model with an FP16_Optimizer, after one step, in fp16 on the CPU."""

    def fp16(model, groups=None, **options):
        model.half()
        optimizer = apex.fp16_utils.FP16_Optimizer(
            torch.optim.SGD(groups(model) if groups else model.parameters(), 0.01, momentum=0.9),
            **{"dynamic_loss_scale": True, **options},
        )
        generator = torch.Generator().manual_seed(1)
        for param in model.parameters():
            if param.requires_grad:
                param.grad = torch.randn(param.shape, generator=generator).half()
        optimizer.update_master_grads()
        optimizer.overflow = False
        optimizer.step()
        return model, optimizer

    torch.manual_seed(0)
    return fp16


def test_the_masters_in_any_order_of_groups(converted, fp16):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model, optimizer = fp16(
        model, lambda m: [{"params": [*m[1].parameters()]}, {"params": [*m[0].parameters(), *m[2].parameters()]}]
    )
    masters = [m.clone() for group in optimizer.fp32_from_fp16_groups for m in group]
    after, output = converted({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    names = ["1.weight", "1.bias", "0.weight", "0.bias", "2.weight", "2.bias"]
    assert all(torch.equal(after["model"][name], master) for name, master in zip(names, masters, strict=True))
    assert "6 of them with the exact values" in output
    native = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    native.load_state_dict(after["model"])
    torch.optim.SGD(
        [{"params": [*native[1].parameters()]}, {"params": [*native[0].parameters(), *native[2].parameters()]}], 0.01
    ).load_state_dict(after["optimizer"])


def test_frozen_weights_and_buffers_have_no_masters(converted, fp16):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    model[0].weight.requires_grad_(False)
    model.register_buffer("positions", torch.rand(4, 4))
    model, optimizer = fp16(model)
    halves = {name: entry.clone() for name, entry in model.state_dict().items()}
    after, output = converted({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert "5 tensors from float16 to float32, 3 of them with the exact values" in output
    for name in ("positions", "0.weight"):
        assert torch.equal(after["model"][name], halves[name].float())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda c: c["optimizer"]["fp32_from_fp16"][0].reverse(),
            "no state dict has exactly these weights in this order",
        ),
        (lambda c: c["optimizer"]["fp32_from_fp16"][0][0].detach().add_(0.1), "no state dict has exactly"),
        (lambda c: c.update(best=copy.deepcopy(c["model"])), "they fit more than one state dict"),
        (lambda c: c.pop("model"), "the model's half weights are not in this file"),
        (
            lambda c: c["optimizer"]["fp32_from_fp16"].append([c["optimizer"]["fp32_from_fp16"][0][0] * 1.00001]),
            "no state dict",
        ),
    ],
)
def test_masters_that_are_not_certain_are_left_out(converted, fp16, change, reason):
    model, optimizer = fp16(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4)))
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    halves = {name: entry.clone() for name, entry in model.state_dict().items()}
    change(checkpoint)
    after, output = converted(checkpoint)
    assert "param_groups" in after["optimizer"]
    assert "the float32 masters are left out" in output
    assert reason in output
    for name in after.get("model", ()):
        assert torch.equal(after["model"][name], halves[name].float())


def test_tied_weights_and_views_stay_shared(converted):
    flat = torch.rand(20).half()
    tied = nn.Parameter(torch.rand(3, 2).half())
    state = OrderedDict(
        {"encoder.weight": tied, "decoder.weight": tied, "a.weight": flat[:12].view(3, 4).t(), "a.bias": flat[10:14]}
    )
    state._metadata = OrderedDict({"": {"version": 1}, "encoder": {"version": 2}})
    model = {"model": state, "again": state, "steps": torch.tensor(3), "noise": torch.ones(2).half()}
    after, _ = converted(model)
    weights = after["model"]
    assert type(weights) is OrderedDict
    assert weights is after["again"]
    assert weights._metadata == state._metadata
    assert isinstance(weights["encoder.weight"], nn.Parameter)
    assert {entry.dtype for entry in weights.values()} == {torch.float32}
    assert weights["encoder.weight"].data_ptr() == weights["decoder.weight"].data_ptr()
    for name in state:
        assert torch.equal(weights[name], state[name].float())
        assert weights[name].stride() == state[name].stride()
    weights["a.bias"][0] = 7.0
    assert weights["a.weight"].t().flatten()[10] == 7.0
    assert after["noise"].dtype is torch.float16  # no model's


def test_o2_of_2019_has_half_weights(converted):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].half()
    after, output = converted({"model": model.state_dict(), "amp": amp_state(1024.0)})
    assert "checkpoint['model']: 2 tensors from float16 to float32" in output
    assert after["model"]["1.num_batches_tracked"].dtype is torch.int64
    nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).load_state_dict(after["model"])


@pytest.mark.parametrize("prefix", ["1.", "network.", "module.1.", "module.network."])
def test_the_prefix_of_a_wrapper_goes(converted, apex, fp16, prefix):
    class Wrapped(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    wrap = apex.fp16_utils.network_to_half if "1" in prefix else apex.fp16_utils.FP16Model
    model, optimizer = fp16(wrap(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))))
    outer = Wrapped(model) if "module" in prefix else model
    assert all(key.startswith(prefix) for key in outer.state_dict())
    after, output = converted({"model": outer.state_dict(), "optimizer": optimizer.state_dict()})
    native = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    native = Wrapped(native) if "module" in prefix else native
    native.load_state_dict(after["model"])
    assert after["model"]._metadata == native.state_dict()._metadata
    assert f'"{prefix.removeprefix("module.")}" of ' in output


def test_a_prefix_without_fp16_optimizer_is_only_named(converted):
    half = OrderedDict({"network.a.weight": torch.ones(2, 2).half()})
    after, output = converted({"model": half, "amp": amp_state(1024.0)})
    assert list(after["model"]) == ["network.a.weight"]
    assert 'all keys begin with "network."; if that is of FP16Model' in output


def test_some_keys_with_a_prefix_are_no_wrapper(converted, fp16):
    model, optimizer = fp16(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4)))
    after, output = converted({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert set(after["model"]) == set(model.state_dict())
    assert "network_to_half" not in output


def test_two_fp16_optimizers_get_one_scaler_beside_them(converted, fp16):
    first, second = fp16(nn.Linear(3, 4)), fp16(nn.Linear(5, 4))
    second[1].loss_scale = 256.0
    after, output = converted(
        {
            "models": [first[0].state_dict(), second[0].state_dict()],
            "optimizers": [first[1].state_dict(), second[1].state_dict()],
        }
    )
    assert after["scaler"]["scale"] == 256.0
    assert [set(state) for state in after["optimizers"]] == [{"state", "param_groups"}] * 2
    assert torch.equal(after["models"][1]["weight"], second[1].fp32_from_fp16_groups[0][0])
    assert "checkpoint['scaler']: new" in output


def test_two_fp16_optimizers_of_one_model(converted, fp16, apex):
    both = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 6))
    first, second = fp16(both[1])[1], fp16(both[0])[1]
    both[2].half()
    checkpoint = {"model": both.state_dict(), "optimizers": [first.state_dict(), second.state_dict()]}
    after, output = converted(checkpoint)
    assert torch.equal(after["model"]["1.weight"], first.fp32_from_fp16_groups[0][0])
    assert torch.equal(after["model"]["0.weight"], second.fp32_from_fp16_groups[0][0])
    for index in (0, 1):
        assert f"2 of them with the exact values of the masters in checkpoint['optimizers'][{index}]" in output


def test_an_fp16_optimizer_without_half_weights(converted, apex):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    optimizer = apex.fp16_utils.FP16_Optimizer(torch.optim.SGD(model.parameters(), 0.1))
    before = model.state_dict()
    after, output = converted({"model": before, "optimizer": optimizer.state_dict()})
    assert plain(after["model"]) == plain(before)
    assert "masters" not in output


@pytest.mark.parametrize("keys", [("loss_scaler", "optimizer"), ("optimizer", "loss_scaler")])
def test_a_scaler_object_that_is_also_saved_by_itself(converted, fp16, keys):
    _, optimizer = fp16(nn.Linear(3, 4))
    entries = {"optimizer": optimizer.state_dict(), "loss_scaler": optimizer.loss_scaler}
    after, _ = converted({key: entries[key] for key in keys})
    assert after["loss_scaler"] == after["scaler"]


def test_a_scaler_that_is_there_stays(converted, fp16):
    _, optimizer = fp16(nn.Linear(3, 4))
    mine = {**NATIVE_SCALER, "_growth_tracker": 1}
    after, output = converted({"optimizer": optimizer.state_dict(), "scaler": dict(mine)})
    assert after["scaler"] == mine
    assert "checkpoint['scaler']: is there already and stays; FP16_Optimizer had scale 65536.0" in output


def test_the_state_of_an_optimizer_alone_keeps_its_format(converted, fp16):
    _, optimizer = fp16(nn.Linear(3, 4), dynamic_loss_scale=False, static_loss_scale=128.0)
    after, output = converted(optimizer.state_dict())
    assert set(after) == {"state", "param_groups"}
    assert "start with GradScaler(init_scale=128.0)" in output
    assert "the loss scale was static" in output


def contrib_state(model, **masters):
    """What apex.contrib.optimizers.FP16_Optimizer saves: the scaler's numbers instead of an object."""
    return {
        "dynamic_loss_scale": True,
        "cur_scale": 2**12,
        "cur_iter": 30,
        "last_overflow_iter": 9,
        "scale_factor": 2,
        "scale_window": 1000,
        "optimizer_state_dict": torch.optim.SGD(model.parameters(), 0.1).state_dict(),
        **masters,
    }


def test_the_fp16_optimizer_of_contrib(converted):
    model = nn.Linear(3, 4).half()
    masters = [[param.detach().float() * 1.0001 for param in model.parameters()]]
    for param, master in zip(model.parameters(), masters[0], strict=True):
        param.data.copy_(master)
    after, _ = converted({"model": model.state_dict(), "optimizer": contrib_state(model, fp32_groups=masters)})
    assert torch.equal(after["model"]["weight"], masters[0][0])
    assert (after["scaler"]["scale"], after["scaler"]["growth_interval"]) == (4096.0, 1000)
    assert after["scaler"]["_growth_tracker"] == 20


def test_flat_masters_are_refused(converted):
    model = nn.Linear(3, 4).half()
    state = contrib_state(model, fp32_groups_flat=[torch.ones(16)])
    _, output = converted({"optimizer": state}, exit_code=2)
    assert "checkpoint['optimizer'] is of apex.optimizers.FP16_Optimizer, which kept" in output


# -- FusedAdam -------------------------------------------------------------------------------------------------------


def plain(value):
    """Comparable with ==: tensors as lists."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def fused_state(apex, name="FusedAdam", **options):
    """Two groups, one frozen parameter, three steps."""
    torch.manual_seed(0)
    params = [nn.Parameter(torch.rand(3)) for _ in range(4)]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.1}]
    optimizer = getattr(apex.optimizers, name)(groups, 0.01, **options)
    for _ in range(3):
        for param in params[:3]:
            param.grad = torch.rand(3)
        optimizer.step()
    return optimizer.state_dict()


def test_every_parameter_gets_a_step_of_its_own(converted, apex):
    before = fused_state(apex)
    after, _ = converted({"optimizer": copy.deepcopy(before)})
    state = after["optimizer"]
    steps = [state["state"][index]["step"] for index in (0, 1, 2)]
    assert set(state["state"]) == {0, 1, 2}
    assert [step.item() for step in steps] == [3.0, 3.0, 3.0]
    assert {step.dtype for step in steps} == {torch.float32}
    assert len({step.data_ptr() for step in steps}) == 3
    assert not any("step" in group for group in state["param_groups"])
    assert torch.equal(state["state"][1]["exp_avg"], before["state"][1]["exp_avg"])


def test_fused_adam_there_and_back(tmp_path, apex):
    path = tmp_path / "run.pt"
    before = {"optimizer": fused_state(apex), "amp": dict(amp_state(1024.0))}
    torch.save(before, path)
    assert convert(path, "--write").exit_code == 0
    Path(f"{path}.bak").unlink()
    assert convert(path, "--to", "apex", "--fused-adam", "--write").exit_code == 0
    assert plain(read(path)) == plain(before)


@pytest.mark.parametrize("name", ["FusedLAMB", "FusedNovoGrad"])
def test_what_torch_does_not_have_stays(converted, apex, name):
    before = fused_state(apex, name)
    after, output = converted({"optimizer": before})
    assert plain(after["optimizer"]) == plain(before)
    assert "FusedLAMB or FusedNovoGrad: torch has none" in output


def test_no_bias_correction_is_named(converted, apex):
    _, output = converted({"optimizer": fused_state(apex, bias_correction=False)})
    assert "bias_correction=False was used; torch's Adam always corrects" in output


def adamw(steps, kind=torch.optim.AdamW, **options):
    params = [nn.Parameter(torch.ones(2)) for _ in steps]
    optimizer = kind(params, **options)
    for count in range(max(steps)):
        for param, last in zip(params, steps, strict=True):
            param.grad = torch.ones(2) if count < last else None
        optimizer.step()
    return optimizer.state_dict()


def test_back_needs_to_be_told_about_fused_adam(converted):
    before = {"optimizer": adamw([2, 2]), "amp": {**NATIVE_SCALER, "_growth_tracker": 4}}
    after, output = converted(copy.deepcopy(before), "--to", "apex")
    assert after["amp"] == {"loss_scaler0": {"loss_scale": 1024.0, "unskipped": 4}}
    assert plain(after["optimizer"]) == plain(before["optimizer"])
    assert "Adam's steps stay with the parameters" in output


def test_back_to_fused_adam(converted, apex):
    after, _ = converted({"optimizer": adamw([2, 2])}, "--to", "apex", "--fused-adam")
    params = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = apex.optimizers.FusedAdam(params)
    optimizer.load_state_dict(after["optimizer"])
    for param in params:
        param.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.param_groups[0]["step"] == 3
    assert not any("step" in entry for entry in optimizer.state_dict()["state"].values())


def fused_by_hand(step):
    state = adamw([1])
    state["state"][0]["step"].fill_(step)
    return state


def test_relatives_of_adam_have_no_form_in_apex(converted):
    before = {"optimizer": adamw([2], kind=torch.optim.NAdam)}
    after, output = converted(before, "--to", "apex", "--fused-adam")
    assert plain(after) == plain(before)
    assert "nothing to convert" in output


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (lambda: adamw([2, 3]), "different numbers of steps (2, 3)"),
        (lambda: adamw([2], amsgrad=True), "FusedAdam has no amsgrad"),
        (lambda: fused_by_hand(2.5), "there is 2.5 where a count belongs"),
    ],
)
def test_what_fused_adam_cannot_go_on_from_is_refused(converted, state, reason):
    _, output = converted({"optimizer": state()}, "--to", "apex", "--fused-adam", exit_code=2)
    assert f"checkpoint['optimizer']: {reason}" in output.replace("parameters of one group have made ", "")


def test_a_count_beyond_amps_window_is_clamped(converted):
    state = {**NATIVE_SCALER, "growth_interval": 5000, "_growth_tracker": 4000}
    after, output = converted({"amp": state}, "--to", "apex")
    assert after["amp"]["loss_scaler0"]["unskipped"] == 1999
    assert "growth by 2.0 after 5000 steps is not kept" in output


def test_an_object_of_apex_cannot_be_written_back(converted, fp16):
    _, optimizer = fp16(nn.Linear(3, 4))
    _, output = converted(
        {"optimizer": optimizer.state_dict(), "amp": {**NATIVE_SCALER, "_growth_tracker": 1}},
        "--to",
        "apex",
        exit_code=2,
    )
    assert "checkpoint['optimizer']['loss_scaler'] is an object of Apex, which can't be written without Apex" in output


def test_fused_adam_is_asked_for_only_on_the_way_back(saved):
    result = convert(saved, "--fused-adam")
    assert result.exit_code == 2
    assert "--fused-adam belongs to --to apex" in result.output
