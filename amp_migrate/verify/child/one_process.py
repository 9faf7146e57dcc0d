"""Scripts made for a launcher and several processes run in this one, as rank 0 of 1."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing

from amp_migrate.verify.conditions import LAUNCHER
from amp_migrate.verify.record import Record

NOTE = "ran in one process, as rank 0 of 1"


def install(record: Record, folder: Path, *, launched: bool) -> None:
    """`launched` gives the environment variables of torchrun; `folder` holds the meeting point of the group."""
    if launched:
        os.environ.update(LAUNCHER)
        record.notes.append(NOTE)
    if not torch.distributed.is_available():
        return
    init = torch.distributed.init_process_group

    @functools.wraps(init)
    def init_alone(backend: Any = None, *_: Any, **__: Any) -> None:
        _note(record)
        init(backend, init_method=f"file://{folder / 'process_group'}", rank=0, world_size=1)

    def spawn_alone(fn: Any, args: Any = (), *_: Any, **__: Any) -> None:
        _note(record)
        fn(0, *args)

    torch.distributed.init_process_group = init_alone
    vars(torch.multiprocessing)["spawn"] = spawn_alone


def _note(record: Record) -> None:
    if NOTE not in record.notes:
        record.notes.append(NOTE)
