"""Asks a real GPU what the table was asked of fake CUDA tensors. Needs torch alone, of any version.

The calls come from a file that `python -m tests.operations samples` wrote: torch's sample inputs need packages that a
bare machine may lack.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import pickle
import time
from pathlib import Path
from typing import Any

import torch

from amp_migrate.models import Operation, function, layer, method
from amp_migrate.models.table import measured_with
from tests.operations.answers import Answer, asked
from tests.operations.asking import Asker
from tests.operations.public import Public, public
from tests.operations.questions import NO_ANSWER, RAISES
from tests.operations.rows import wrong
from tests.operations.samples import Sample, Samples
from tests.operations.workers import results

_EACH = 40  # names for one process: each has to make a CUDA context


def save(found: dict[str, Samples], file: Path) -> list[str]:
    """Each operation by itself, so that what another version of torch cannot read costs one name. Returns the names
    whose calls cannot be written.
    """
    packed, lost = {}, []
    for name, each in found.items():
        content = io.BytesIO()
        try:
            torch.save([(one.args, one.kwargs, one.made) for one in each.calls], content)
        except Exception:
            lost.append(name)
            continue
        packed[name] = content.getvalue()
    file.write_bytes(pickle.dumps(packed))
    return lost


def read(file: Path) -> dict[str, Samples]:
    """The calls by the names of the operations."""
    found = {}
    for name, content in pickle.loads(file.read_bytes()).items():
        with contextlib.suppress(Exception):
            calls = torch.load(io.BytesIO(content), weights_only=False)
            found[name] = Samples("file", [Sample(*one) for one in calls])
    return found


def compare(samples: dict[str, Samples], processes: int, device: str = "cuda") -> dict[str, Any]:
    """What a GPU says to each question, where the table says something else."""
    torch.set_num_threads(1)
    start = time.monotonic()
    every = public()
    names = [name for name in samples if name in every and row_of(every[name]) is not None]
    differences, failed, agreeing, questions = {}, {}, 0, 0
    for name, answers, why in results(names, lambda name: _asked(every[name], samples[name], device), processes, _EACH):
        if answers is None:
            failed[name] = why
            continue
        row = row_of(every[name])
        assert row is not None
        questions += len(answers)
        found = [(one, says) for one, says in wrong(row, answers) if one.letter != NO_ANSWER]
        agreeing += not found
        if found:
            differences[name] = {_written(one): f"{one.letter}, the table says {says}" for one, says in found}
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "table": measured_with(),
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - start, 1),
        "operations": len(names),
        "questions": questions,
        "agreeing": agreeing,
        "no half kernel": sorted(name for name, told in differences.items() if told.get("h", "").startswith(RAISES)),
        "differences": dict(sorted(differences.items())),
        "failed": dict(sorted(failed.items())),
        "not in this torch": sorted(set(samples) - set(every)),
    }


def row_of(operation: Public) -> Operation | None:
    """The row of the table."""
    if operation.kind == "layer":
        return layer(operation.name)
    return method(operation.bare) if operation.kind in ("method", "property") else function(operation.name)


def _asked(operation: Public, samples: Samples, device: str) -> list[Answer]:
    asker = Asker(device)
    told = [one for autocast in (False, True) for _, one in asked(operation, samples, asker, autocast)]
    return [one for one in told if (one.question, one.letter) != ("0", RAISES)]


def _written(one: Answer) -> str:
    return one.question + (" autocast" if one.autocast else "")


def write(found: dict[str, Any], commit: str, file: Path) -> None:
    file.write_text(json.dumps({"commit": commit} | found, indent=1) + "\n", encoding="utf-8")
