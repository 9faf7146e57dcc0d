"""A script in a process of its own, as it would run on a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import traceback

from amp_migrate.verify import redirect

_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Run:
    """The losses that a script prints; its `error`, if it ends with one, and the line that raised."""

    losses: tuple[float, ...] = ()
    error: str = ""
    line: str = ""


def run(source: str) -> Run:
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        signal.alarm(_SECONDS)
        os.write(write, json.dumps(dataclasses.asdict(_executed(source))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read()
    os.waitpid(process, 0)
    return Run(**json.loads(said)) if said else Run(error="the process has died")


def _executed(source: str) -> Run:
    redirect.install()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "<drawn>", "exec"), {"__name__": "__main__"})
    except Exception as error:
        places = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == "<drawn>"]
        line = source.splitlines()[places[-1] - 1].strip() if places and places[-1] else ""
        return Run(error=f"{type(error).__name__}: {error}", line=line)
    return Run(tuple(float(line.split()[1]) for line in printed.getvalue().splitlines() if line.startswith("loss ")))
