"""Time per step and peak memory of training scripts: in rounds, so that noise hits all of them alike."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from amp_migrate.verify import redirect


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Each round trains every variant anew, for `warm_up` steps that do not count and `steps` that do."""

    rounds: int
    warm_up: int
    steps: int


@dataclasses.dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        numbers = sorted(values)
        return cls(statistics.median(numbers), numbers[0], numbers[-1])

    def text(self, factor: float, form: str) -> str:
        median, least, most = (format(factor * value, form) for value in (self.median, self.least, self.most))
        return f"{median} ({least} to {most})"


@dataclasses.dataclass
class Timing:
    """What one variant took: seconds of each step, round by round, and the most bytes of GPU memory (0 on a CPU)."""

    rounds: list[list[float]] = dataclasses.field(default_factory=list)
    peak_bytes: int = 0

    @property
    def step(self) -> Spread:
        """Seconds for a step, over all rounds."""
        return Spread.of(seconds for one in self.rounds for seconds in one)


def ratio(first: Timing, second: Timing) -> Spread:
    """How many times as long a step of `first` takes: over the rounds, from the median step of each."""
    medians = [[statistics.median(one) for one in timing.rounds] for timing in (first, second)]
    return Spread.of(one / other for one, other in zip(*medians, strict=True))


def time_variants(
    folder: Path, variants: tuple[str, ...], arguments: tuple[str, ...], schedule: Schedule, device: str
) -> dict[str, Timing]:
    """Time the scripts `folder/VARIANT.py`, in this process: call it in one of its own, for it may redirect CUDA."""
    if device == "cpu":
        torch.set_num_threads(1)
        redirect.install()
    sys.path.insert(0, str(folder))
    scripts = {variant: importlib.import_module(variant) for variant in variants}
    timings = {variant: Timing() for variant in variants}
    for number in range(schedule.rounds):
        first = number % len(variants)
        for variant in variants[first:] + variants[:first]:  # each comes first, in the middle and last
            seconds, peak_bytes = _train(scripts[variant], arguments, schedule)
            timings[variant].rounds.append(seconds[schedule.warm_up :])
            timings[variant].peak_bytes = max(timings[variant].peak_bytes, peak_bytes)
    return timings


def _train(script: ModuleType, arguments: tuple[str, ...], schedule: Schedule) -> tuple[list[float], int]:
    """Seconds of each step, and the most bytes of GPU memory that were in use."""
    torch.cuda.synchronize()  # starts CUDA where nothing has yet; what follows needs that
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    args = script.parse_args([*arguments, "--steps", str(schedule.warm_up + schedule.steps)])
    watch = _Stopwatch(script.make_batches(args))
    script.train(args, watch)
    return watch.seconds, torch.cuda.max_memory_allocated()


class _Stopwatch:
    """Batches that measure the body of the loop over them, with all that it has started on the GPU."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.seconds: list[float] = []

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            torch.cuda.synchronize()
            start = time.perf_counter()
            yield batch
            torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - start)
