"""Writing a file whole or not at all, through links, with its mode kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content. A link stays a link: what it points to is replaced. Raises OSError."""
    with replacing(path.resolve()) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(target: Path, keep_as: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write, which replaces `target` where nothing was raised; the old one can be kept under another name.

    Raises OSError, FileExistsError where `keep_as` is there already.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        shutil.copymode(target, name)
        if keep_as is not None:
            _keep(target, keep_as)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _keep(original: Path, name: Path) -> None:
    """A second name for the file: unlike a rename it leaves no moment without the first one."""
    try:
        os.link(original, name)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        shutil.copy2(original, name)
