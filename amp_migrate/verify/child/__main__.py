"""The process that runs scripts: imports torch once, then forks for every run that it is told.

It reads one line of JSON (a Spec) after the other, and answers with two: the number of the process that runs it, and
its exit status.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import traceback

import torch

from amp_migrate.verify.child.run import run
from amp_migrate.verify.spec import Spec

_POLL_SECONDS = 0.02
_leave = os._exit  # a run replaces it


def main() -> None:
    """Serve until standard input is closed."""
    _say({"torch": torch.__version__, "cuda": torch.cuda.is_available()})
    gc.freeze()  # a collection in a run would look at all of torch, and copy its pages
    for line in sys.stdin:
        spec = Spec.loads(line)
        process = os.fork()
        if process == 0:
            _run_and_exit(spec)
        _say({"process": process})
        _say({"status": _wait(process)})


def _wait(process: int) -> int:
    """The exit status of a run; the run ends with us where the process that asked for it is gone."""
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        orders, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if orders:  # nothing is ordered while a run is under way: this is the end of the input
            os.killpg(process, signal.SIGKILL)
            sys.exit(1)


def _run_and_exit(spec: Spec) -> None:
    """Never returns: what was imported by the parent is not torn down twice."""
    status = 1
    try:
        os.setsid()  # so that the run can be ended together with its data-loader workers
        run(spec)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(status)


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
