r"""Migrate PyTorch training scripts from NVIDIA Apex AMP to native automatic mixed precision.

>>> from amp_migrate import Options, migrate_source
>>> result = migrate_source(b"print('no apex here')\n", Options())
>>> result.status
'untouched'
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amp_migrate.findings import Finding
    from amp_migrate.options import Options
    from amp_migrate.result import Result

__version__ = "0.2.0"

_MODULES = {"Finding": "findings", "Options": "options", "Result": "result"}


def __getattr__(name: str) -> Any:
    """The classes, imported when they are asked for: `amp-migrate --version` needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def migrate_source(source: bytes, options: Options | None = None) -> Result:
    """Migrate the source of one file.

    `source` is the file's bytes, in whatever encoding it declares; the output has the same encoding, line
    ends and byte order mark. Nothing is read from disk and nothing is written. Never raises for bad input:
    see `Result.status` and `Result.findings`.
    """
    from amp_migrate.options import Options
    from amp_migrate.project import migrate_source as migrate_one

    return migrate_one(source, options or Options())


def migrate_project(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]], options: Options | None = None
) -> list[Result]:
    """Migrate a file or folder, or several, without writing them: one Result for each file, in the order given.

    Folders are searched as git would (ignored files and virtual environments left out). Raises
    FileNotFoundError for a path that does not exist.
    """
    from pathlib import Path

    from amp_migrate.options import Options
    from amp_migrate.project import migrate_paths

    named = [paths] if isinstance(paths, (str, PathLike)) else paths
    return list(migrate_paths([Path(path) for path in named], options or Options()))


__all__ = ["Finding", "Options", "Result", "__version__", "migrate_project", "migrate_source"]
