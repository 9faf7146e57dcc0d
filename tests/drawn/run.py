"""A script in a process of its own, as it would run on a GPU, or on a machine that has none."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import sys
import traceback

from amp_migrate.verify import redirect

_SECONDS = 60
CLOSE = 0.02  # of the first loss: the later ones follow gradients that half rounds


@dataclasses.dataclass(frozen=True)
class Run:
    """The losses that a script prints; its `error`, if it ends with one, and the line that raised.

    `switched` are the answers that its scalers and regions got when they were made: on, off, or both.
    """

    losses: tuple[float, ...] = ()
    error: str = ""
    line: str = ""
    switched: tuple[bool, ...] = ()


def run(source: str, arguments: tuple[str, ...] = (), gpu: bool = True) -> Run:
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        signal.alarm(_SECONDS)
        os.write(write, json.dumps(dataclasses.asdict(_executed(source, arguments, gpu))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read()
    os.waitpid(process, 0)
    return (
        Run(**{name: tuple(one) if isinstance(one, list) else one for name, one in json.loads(said).items()})
        if said
        else Run(error="the process has died")
    )


def _executed(source: str, arguments: tuple[str, ...], gpu: bool) -> Run:
    import torch

    torch.set_num_threads(1)  # a forked process waits for ever for the threads that torch had before the fork
    if gpu:
        redirect.install()
    switched = _watched()
    sys.argv = ["drawn.py", *arguments]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "<drawn>", "exec"), {"__name__": "__main__"})
    except (Exception, SystemExit) as error:
        places = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == "<drawn>"]
        line = source.splitlines()[places[-1] - 1].strip() if places and places[-1] else ""
        return Run(error=f"{type(error).__name__}: {error}", line=line)
    losses = tuple(float(line.split()[1]) for line in printed.getvalue().splitlines() if line.startswith("loss "))
    return Run(losses, switched=tuple(sorted(switched)))


def _watched() -> set[bool]:
    """What the scalers and regions that are made from now on are told."""
    import torch

    switched: set[bool] = set()
    for kind in (torch.amp.GradScaler, torch.amp.autocast):
        made = kind.__init__

        def watched(self, *arguments, _made=made, **options):
            switched.add(bool(options.get("enabled", True)))
            _made(self, *arguments, **options)

        kind.__init__ = watched
    return switched
