"""What a command costs: the least of several runs, for machines are noisy and nothing makes a run faster."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, seconds of CPU with all child processes, and the peak of the memory of one, in MiB."""

    wall: float
    cpu: float
    memory: float

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu), min(self.memory, other.memory))


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command once. Raises RuntimeError with its words where it fails: 2 or a signal, for 1 says that it found
    something.
    """
    # What is installed has its bytecode beside it; what is worked on gets it in the first run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)  # so that nobody waits for it again
        if process.returncode not in (0, 1):
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command[:4])}: {errors.read().decode(errors='replace')[-500:]}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def side_by_side(commands: dict[str, Sequence[str]], runs: int) -> dict[str, Cost]:
    """The least cost of each of some commands, run in turns, so that all see the same machine."""
    found: dict[str, Cost] = {}
    for command in commands.values():
        cost_of(command)  # compiles what nobody has imported yet, and reads the files into memory
    for _ in range(runs):
        for name, command in commands.items():
            cost = cost_of(command)
            found[name] = found[name].least(cost) if name in found else cost
    return found
