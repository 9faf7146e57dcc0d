"""The parent's end of a child process that runs scripts, one at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amp_migrate.verify.errors import NoTorchError
from amp_migrate.verify.record import Record
from amp_migrate.verify.spec import STOP_SIGNAL, Spec

# After the time limit a run may still write what it has recorded.
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.05


class Worker:
    """Starts runs of scripts in processes of their own, from one that has imported torch already."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # looking for a GPU must not make this process unfit to fork
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # repeatable matrix products
            "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "amp_migrate.verify.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # or a line that was read ahead would be invisible to select
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the parent only, which ends the runs in order
        )
        self._run: int | None = None

    def hello(self) -> dict[str, Any]:
        """{"torch": version, "cuda": is there a GPU}. Raises NoTorchError."""
        try:
            return self._listen()
        except EOFError as error:
            raise NoTorchError(str(error)) from None

    def run(self, spec: Spec, seconds: float, tell: Callable[[int], None]) -> Record:
        """Run a script for at most so many seconds; `tell` is given the number of steps now and then."""
        assert self._server.stdin is not None
        self._server.stdin.write(spec.dumps().encode() + b"\n")
        self._server.stdin.flush()
        self._run = self._listen()["process"]
        results = Path(spec.results)
        timed_out = not self._wait(results / "progress", seconds, tell)
        if timed_out:
            self._end_run()
        status = self._listen()["status"]
        self._kill_group()  # what the script has left behind
        self._run = None
        if (results / "record.json").exists():
            record = Record.read(results / "record.json")
            return record.without_last_step() if record.outcome == "time limit" else record
        record = Record(outcome="time limit" if timed_out else "killed")
        record.notes.append(f"ended with status {status} without a record")
        return record

    def close(self) -> None:
        """End the run that is under way, and the process."""
        self._kill_group()
        with contextlib.suppress(ProcessLookupError):
            self._server.kill()
        self._server.wait()
        for stream in (self._server.stdin, self._server.stdout, self._server.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _wait(self, progress: Path, seconds: float, tell: Callable[[int], None]) -> bool:
        """True when the run has ended in time."""
        end = time.monotonic() + seconds
        told = 0
        while not self._answered():
            if time.monotonic() > end:
                return False
            with contextlib.suppress(OSError, ValueError):
                steps = int(progress.read_text())
                if steps != told:
                    told = steps
                    tell(steps)
        return True

    def _answered(self) -> bool:
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], _POLL_SECONDS)
        return bool(ready)

    def _end_run(self) -> None:
        """First ask, so that the record is written; then kill."""
        assert self._run is not None
        end = time.monotonic() + _GRACE_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._run, STOP_SIGNAL)
            while time.monotonic() < end:
                if self._answered():
                    return
        self._kill_group()

    def _kill_group(self) -> None:
        if self._run is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._run, signal.SIGKILL)

    def _listen(self) -> dict[str, Any]:
        assert self._server.stdout is not None and self._server.stderr is not None
        line = self._server.stdout.readline()
        if not line:
            lines = self._server.stderr.read().decode(errors="replace").strip().splitlines()
            raise EOFError(lines[-1] if lines else "the process that runs the scripts has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer
