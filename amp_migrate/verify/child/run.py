"""One run of the user's script in this process, recorded."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import random
import runpy
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from amp_migrate.verify import redirect, standin
from amp_migrate.verify.child import copy_on_write, double, modes, one_process
from amp_migrate.verify.child.failure import describe
from amp_migrate.verify.child.recorder import Recorder, StopTraining
from amp_migrate.verify.mirror import Mirror
from amp_migrate.verify.record import Record
from amp_migrate.verify.spec import STOP_SIGNAL, Spec

_PERTURBATION = 2.0**-11


def run(spec: Spec) -> None:
    """Run the script of `spec` and write its record. The process can't be used for anything else afterwards."""
    results = Path(spec.results)
    _redirect_output(results / "output.txt")
    _prepare(spec)
    device = "cuda" if spec.device == "cuda" else "cpu"
    if spec.mode == "without AMP":
        modes.without_amp()
    elif spec.mode == "without autocast":
        modes.without_autocast()
    if spec.in_double:
        double.install()
    recorder = Recorder(spec, device, _perturb if spec.perturb else None)
    if spec.mode == "under autocast":
        modes.under_autocast(device, spec.autocast_dtype)
    record = recorder.record
    record.device, record.torch = _device_name(spec), torch.__version__
    one_process.install(record, results, launched=spec.conditions.launched)
    process = os.getpid()
    signal.signal(STOP_SIGNAL, lambda *_: recorder.stop_in_time())

    def finish(status: int = 0) -> None:
        if os.getpid() == process:  # a worker that the script has forked may come here, too
            if status:
                record.outcome, record.failure = "error", describe(SystemExit(status), spec)
            recorder.finish().write(results / "record.json")
        sys.stdout.flush()
        sys.stderr.flush()

    os._exit = _finishing(os._exit, finish)
    copy_on_write.install([Mirror(Path(copy), Path(real)) for copy, real in spec.mirrors], record)
    _run_script(spec, record)
    signal.signal(STOP_SIGNAL, signal.SIG_IGN)
    finish()


def _finishing(leave: Any, finish: Callable[[int], None]) -> Any:
    """A script that leaves by os._exit has a record, too."""

    @functools.wraps(leave)
    def finish_and_leave(status: int) -> None:
        finish(status)
        leave(status)

    return finish_and_leave


def _redirect_output(path: Path) -> None:
    with path.open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115


def _prepare(spec: Spec) -> None:
    """Arguments, paths, seeds and the device: what a fresh `python script.py` would see, made repeatable."""
    os.chdir(spec.folder)
    sys.argv = [spec.script, *spec.args]
    sys.path = [_mirrored(spec, entry) for entry in sys.path if entry]
    sys.path.insert(0, str(_package_root(spec) if spec.conditions.as_module else Path(spec.script).parent))
    sys.dont_write_bytecode = True
    if not _has_real_apex():
        sys.path.insert(1, str(standin.DIRECTORY))
    if spec.conditions.whole_pickles:
        os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    random.seed(spec.seed)
    torch.manual_seed(spec.seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(spec.seed)
    if spec.device == "cpu":
        torch.set_num_threads(1)  # two threads on a busy machine make runs slow and their sums unequal
        redirect.install()
    elif spec.mode in ("without AMP", "without autocast"):  # where bits are compared; elsewhere it would only cost time
        torch.use_deterministic_algorithms(True, warn_only=True)


def _package_root(spec: Spec) -> Path:
    """The first folder above the script that is no package."""
    return next(folder for folder in Path(spec.script).parents if not (folder / "__init__.py").exists())


def _module(spec: Spec) -> str:
    return ".".join(Path(spec.script).relative_to(_package_root(spec)).with_suffix("").parts)


def _mirrored(spec: Spec, entry: str) -> str:
    for copy, real in spec.mirrors:
        if Path(entry).is_relative_to(real):
            return str(Path(copy) / Path(entry).relative_to(real))
    return entry


def _has_real_apex() -> bool:
    """True where an `apex` with its amp is importable: NVIDIA deleted it in 2025, and another package has the name."""
    spec = importlib.machinery.PathFinder.find_spec("apex", sys.path)
    places = spec.submodule_search_locations if spec is not None else None
    return any(Path(place, "amp", "__init__.py").exists() for place in places or ())


def _device_name(spec: Spec) -> str:
    return torch.cuda.get_device_name() if spec.device == "cuda" else "cpu"


def _perturb(optimizer: torch.optim.Optimizer) -> None:
    """Move every weight by 2**-11 of itself, up or down: the rounding error of float16, once."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                signs = torch.randint(0, 2, weight.shape, generator=generator, dtype=torch.float32) * 2 - 1
                weight.mul_((1 + _PERTURBATION * signs).to(weight.device, weight.dtype))


def _run_script(spec: Spec, record: Record) -> None:
    try:
        if spec.conditions.as_module:
            record.notes.append(f"ran as python -m {_module(spec)}")
            runpy.run_module(_module(spec), run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(spec.script, run_name="__main__")
    except StopTraining as stop:
        record.outcome = stop.outcome
    except SystemExit as end:
        if end.code not in (None, 0):
            record.outcome, record.failure = "error", describe(end, spec)
    except BaseException as error:
        traceback.print_exc()
        record.outcome, record.failure = "error", describe(error, spec)
