"""Workers that run scripts, as many as may run beside each other on the device."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from amp_migrate.verify.errors import NotComparableError
from amp_migrate.verify.record import Record
from amp_migrate.verify.worker import Worker

_T = TypeVar("_T")
# More would wait for each other on a machine with few cores; each holds a torch of its own in memory.
_WORKERS_ON_CPU = 2


class Pool:
    """Two workers on the CPU; one on a GPU, where runs would disturb each other's times."""

    def __init__(self, device: Literal["auto", "cuda", "cpu"] = "auto") -> None:
        """Raises NoTorchError where torch is not installed, NotComparableError where the device is not there."""
        first = Worker()
        self._workers = [first]
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        try:
            has_cuda = first.hello()["cuda"]
            if device == "cuda" and not has_cuda:
                raise NotComparableError("--device cuda: torch finds no GPU here")
            self.device: Literal["cuda", "cpu"] = "cuda" if has_cuda and device != "cpu" else "cpu"
            while self.device == "cpu" and len(self._workers) < _WORKERS_ON_CPU:
                self._workers.append(Worker())
                self._workers[-1].hello()
        except BaseException:
            self.close()
            raise
        for worker in self._workers:
            self._free.put(worker)

    def map(self, calls: dict[str, Callable[[Worker], list[Record]]]) -> dict[str, list[Record]]:
        """Make all calls, each with a worker of its own; ends everything when one fails or Ctrl-C comes."""
        with ThreadPoolExecutor(len(self._workers)) as threads:
            futures: dict[str, Future[list[Record]]] = {
                name: threads.submit(self._with_worker, call) for name, call in calls.items()
            }
            try:
                return {name: future.result() for name, future in futures.items()}
            except BaseException:
                for future in futures.values():
                    future.cancel()
                self.close()  # threads wait for runs that nobody wants any more
                raise

    def _with_worker(self, call: Callable[[Worker], _T]) -> _T:
        worker = self._free.get()
        try:
            return call(worker)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
