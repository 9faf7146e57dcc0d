"""Why a script ended early, in terms of the user's own files."""

from __future__ import annotations

import traceback
from pathlib import Path

from amp_migrate.verify.record import Failure
from amp_migrate.verify.spec import Spec


def describe(error: BaseException, spec: Spec) -> Failure:
    """The exception, at the innermost line that lies in a mirror of the user's files."""
    path, line, code = spec.script, 0, ""
    for frame in traceback.extract_tb(error.__traceback__):
        if any(Path(frame.filename).is_relative_to(copy) for copy, _ in spec.mirrors):
            path, line, code = frame.filename, frame.lineno or 0, frame.line or ""
    for copy, real in spec.mirrors:
        if Path(path).is_relative_to(copy):
            path = str(Path(real) / Path(path).relative_to(copy))
    return Failure(type(error).__name__, _first_line(error), path, line, code, _missing(error))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _missing(error: BaseException) -> str | None:
    if isinstance(error, ModuleNotFoundError):
        return error.name
    return str(error.filename) if isinstance(error, FileNotFoundError) and error.filename else None
