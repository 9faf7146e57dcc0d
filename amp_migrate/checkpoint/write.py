"""Writing a checkpoint in the place of the one that was read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from amp_migrate.checkpoint.errors import CheckpointError
from amp_migrate.checkpoint.opaque import PICKLE
from amp_migrate.checkpoint.read import is_zip
from amp_migrate.files.write import replacing


def backup(path: Path) -> Path:
    """The name under which the original is kept: beside the file that a link points to."""
    target = path.resolve()
    return target.with_name(f"{target.name}.bak")


def save(checkpoint: Any, path: Path) -> None:
    """Replace a checkpoint, in the format that it has, and keep the original.

    Raises CheckpointError: an original is kept already, the disk is full, ...
    """
    kept = backup(path)
    exists = f"{kept} is there already; move it away first: it may be the only copy of an original"
    if kept.exists():
        raise CheckpointError(exists)
    try:
        with replacing(path.resolve(), keep_as=kept) as file:
            torch.save(checkpoint, file, PICKLE, _use_new_zipfile_serialization=is_zip(path))
    except FileExistsError:
        raise CheckpointError(exists) from None
    except (OSError, RuntimeError, pickle.PicklingError) as error:
        raise CheckpointError(f"can't be written: {error}") from None
