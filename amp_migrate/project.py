"""Many files: read, migrate, and write back on request."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.files.discover import find_files
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.neighbours import dependence
from amp_migrate.files.torch_version import api_for
from amp_migrate.files.write import write_atomically
from amp_migrate.findings import Finding
from amp_migrate.options import Options
from amp_migrate.result import Result
from amp_migrate.sources.screen import may_hold_apex_amp


def migrate_paths(paths: Iterable[Path], options: Options) -> Iterator[Result]:
    """Migrate files and folders, one Result for each file, in the order of their paths.

    Nothing is written. One bad file never stops the others. Raises FileNotFoundError for a path that is not
    there.
    """
    for path in find_files(paths):
        yield migrate_file(path, options)


def migrate_file(path: Path, options: Options) -> Result:
    """Migrate one file on disk, with the spelling that its project's torch allows."""
    name = str(path)
    try:
        source = path.read_bytes()
    except OSError as error:
        message = error.strerror or str(error)
        return Result(name, b"", b"", "error", (Finding(1, "AMP993", message),))
    return migrate_bytes(source, options, path)


def migrate_stdin(source: bytes, options: Options) -> Result:
    """Migrate standard input as if it were a file of the current folder."""
    result = migrate_bytes(source, options, Path.cwd() / "-")
    return dataclasses.replace(result, path="-")


def migrate_bytes(source: bytes, options: Options, path: Path | None) -> Result:
    """Migrate the content of one file; `path` says where it belongs, None where that is not known."""
    name = str(path) if path is not None else "-"
    if not may_hold_apex_amp(source):
        return Result(name, source, source, "untouched")
    # LibCST takes 0.2 seconds to import: a tree without a candidate never pays for it.
    from amp_migrate.engine import migrate

    if options.api is None:
        options = dataclasses.replace(options, api=api_for(path))
    try:
        result = migrate(source, options, name, Helpers(path))
    except Exception as error:  # a bug of ours must not cost the user the other files
        message = f"{type(error).__name__}: {error}"
        return Result(name, source, source, "error", (Finding(1, "AMP999", message),))
    return _unless_unit_is_larger(result, path) if path is not None else result


def write_result(result: Result) -> Result:
    """Write a migrated file in place; the Result of a failure instead."""
    try:
        write_atomically(Path(result.path), result.output)
    except OSError as error:
        finding = Finding(1, "AMP993", error.strerror or str(error))
        return dataclasses.replace(result, status="error", findings=(finding,), output=result.source)
    return result


def _unless_unit_is_larger(result: Result, path: Path) -> Result:
    """A script whose helper module shares its apex state is left alone with it (until units span files)."""
    if result.status != "migrated":
        return result
    other = dependence(path, result.source)
    if other is None:
        return result
    finding = Finding(1, "AMP901", other)
    return dataclasses.replace(result, status="left", findings=(finding,), output=result.source)
