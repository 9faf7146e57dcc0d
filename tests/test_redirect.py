"""CUDA redirected to the CPU: the autocast policy against torch's own CUDA dispatch, and scripts that use a GPU.

The redirect is never undone, so everything under it runs in one process of its own: the functions of SCENARIOS, whose
tracebacks and results that process prints.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from amp_migrate.models import policy
from tests.redirect_operators import EXCEPTIONS, OPERATORS
from tests.redirect_scenarios import SCENARIOS

ROOT = Path(__file__).parent.parent
DTYPES = {"float16": torch.float16, "float32": torch.float32}


def run(command: str) -> Any:
    """The JSON that Python code prints in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def redirected() -> dict[str, Any]:
    """For each operator its outcome, for each scenario its traceback or nothing."""
    before = "from amp_migrate.verify import redirect; redirect.install(); "
    return run(before + "from tests import test_redirect as t; t.print_all()")


def print_all() -> None:
    print(json.dumps({"operators": outcomes(), "scenarios": {name: problem(name) for name in SCENARIOS}}))


def problem(scenario: str) -> str:
    try:
        SCENARIOS[scenario]()
    except Exception:
        return traceback.format_exc()
    return ""


# The policy.


def test_the_operators_obey_cudas_autocast_policy(redirected: dict[str, Any]) -> None:
    ours = redirected["operators"]
    cuda = run("from tests import test_redirect as t; t.print_outcomes_on_cuda()")
    different = {tuple(key.rsplit(" ", 1)): (ours[key], cuda[key]) for key in cuda if ours[key] != cuda[key]}
    assert {key: values for key, values in different.items() if key not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() - different.keys() == set()


def test_what_cuda_cannot_be_asked_here_follows_its_lists(redirected: dict[str, Any]) -> None:
    """Operators without an answer from fake tensors: recurrent layers run in half, grid_sample in the widest dtype."""
    ours = redirected["operators"]
    recurrent = {ours[f"{name} {dtype}"] for name in ("gru_cell", "LSTM", "GRU", "RNN") for dtype in DTYPES}
    assert recurrent == {"torch.float16"}
    assert (ours["grid_sample float16"], ours["grid_sample float32"]) == ("torch.float16", "torch.float32")
    assert ours["grid_sample mixed float16"] == "torch.float32"
    assert ours["batch_norm float16"] == "torch.float16"


def test_the_lists_hold_every_operator_that_cuda_treats() -> None:
    """But for those that a CPU never reaches: cuDNN's own, fused cells, flash attention."""
    treated = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    unreachable = ("cudnn_", "_thnn_fused_", "_scaled_dot_product_flash_attention")
    expected = {name for name in (full.removeprefix("aten::") for full in treated) if not name.startswith(unreachable)}
    lists = (policy.LOWER_PRECISION, policy.FP32, policy.FP32_BY_DTYPE, policy.WIDEST)
    ours = [name for names in lists for name in names] + [*policy.FP32_BY_OVERLOAD, *policy.BANNED]
    assert sorted(ours) == sorted(expected)


def outcomes() -> dict[str, str]:
    """For each operator and dtype: the dtype of the result inside an enabled region, or the error."""
    return {f"{name} {dtype}": outcome(name, dtype) for name in OPERATORS for dtype in DTYPES}


def print_outcomes_on_cuda() -> None:
    logging.disable(logging.CRITICAL)
    with FakeTensorMode():
        print(json.dumps(outcomes()))


def outcome(name: str, dtype: str) -> str:
    def make(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, device="cuda").to(DTYPES[dtype])

    torch.set_autocast_enabled("cuda", True)
    try:
        return str(OPERATORS[name](make).dtype)
    except RuntimeError as error:
        return str(error) if "autocast" in str(error) else "error"
    except AssertionError:  # torch, of a missing CUDA
        return "error"
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_script_for_a_gpu_runs(redirected: dict[str, Any], scenario: str) -> None:
    assert redirected["scenarios"][scenario] == ""
