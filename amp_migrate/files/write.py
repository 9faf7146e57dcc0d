"""Writing files whole or not at all, through links, with their mode and owner kept.

A file is never written in place: the new content goes into a file beside it, which then takes its name. Whoever kills
the process leaves the old content or the new one, and at worst a file `.amp-migrate.*` that nothing reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_EFFECTIVE = os.access in os.supports_effective_ids


@dataclasses.dataclass(frozen=True)
class Change:
    """What a file shall hold, and what it held when it was read."""

    path: Path
    old: bytes
    new: bytes


class Unwritable(Exception):
    """A file that cannot be replaced: `changed` since it was read, or the system refused."""

    def __init__(self, path: Path, message: str, *, changed: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.changed = changed


def write_all(changes: Sequence[Change]) -> None:
    """Replace the contents of several files: all of them, or none. Links stay links: what they point to is replaced.

    All contents are on disk before the first file is replaced; only renames are left then, one right after the other. A
    process that is killed between two of them has replaced some of the files, each of them as a whole. Raises
    Unwritable.
    """
    with contextlib.ExitStack() as stack:
        prepared = []
        for change in changes:
            with _refusals(change.path):
                target = change.path.resolve()
                prepared.append((change, target, stack.enter_context(_beside(target, change.new))))
        for change, target, _ in prepared:
            with _refusals(change.path):
                if target.read_bytes() != change.old:
                    raise Unwritable(change.path, "it is not what it was when it was read", changed=True)
        replaced: list[tuple[Path, bytes]] = []
        try:
            for change, target, name in prepared:
                with _refusals(change.path):
                    replaced.append((target, change.old))
                    name.replace(target)
        except BaseException:
            for target, old in reversed(replaced):
                with contextlib.suppress(OSError):
                    _put_back(target, old)
            raise


@contextlib.contextmanager
def replacing(target: Path, keep_as: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write, which replaces `target` where nothing was raised; the old one can be kept under another name.

    Raises OSError, FileExistsError where `keep_as` is there already.
    """
    with _temporary(target) as name:
        with name.open("wb") as file:
            yield file
            _reach_disk(file)
        _take_after(target, name)
        if keep_as is not None:
            _keep(target, keep_as)
        name.replace(target)


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """An empty file in the folder of another one; it is gone afterwards, if it still has its name."""
    target.stat()  # where it is gone, that is the reason
    if not os.access(target, os.W_OK, effective_ids=_EFFECTIVE):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # a rename would not ask for it
    handle, name = tempfile.mkstemp(prefix=".amp-migrate.", dir=target.parent)
    try:
        os.close(handle)
        yield Path(name)
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


@contextlib.contextmanager
def _beside(target: Path, content: bytes) -> Iterator[Path]:
    """A file with a content, ready to take the name of another one."""
    with _temporary(target) as name:
        with name.open("wb") as file:
            file.write(content)
            _reach_disk(file)
        _take_after(target, name)
        yield name


def _put_back(target: Path, old: bytes) -> None:
    """The old content, where a file was replaced already."""
    if target.read_bytes() != old:
        with _beside(target, old) as name:
            name.replace(target)


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """What the system refuses for a file as Unwritable."""
    try:
        yield
    except OSError as error:
        raise Unwritable(path, error.strerror or str(error)) from error


def _reach_disk(file: BinaryIO) -> None:
    """A name that changed before its content is on disk would be that of an empty file, after a power failure."""
    file.flush()
    os.fsync(file.fileno())


def _take_after(target: Path, name: Path) -> None:
    """The mode of another file, and its owner where that is allowed."""
    status = target.stat()
    with contextlib.suppress(OSError, AttributeError):  # AttributeError: a system without owners
        os.chown(name, status.st_uid, status.st_gid)
    shutil.copymode(target, name)


def _keep(original: Path, name: Path) -> None:
    """A second name for the file: unlike a rename it leaves no moment without the first one."""
    try:
        os.link(original, name)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        shutil.copy2(original, name)
