"""One function for many names, in forked processes that may crash."""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SECONDS = 30
GIVES_UP = "Poisoned"  # the exception after which a process can do nothing more


class TooLong(BaseException):
    """A name took too long. It is no Exception, so that what catches torch's errors does not catch it."""


class _Process:
    """A forked child that works through its share, and sends a result for each name."""

    def __init__(self, share: list[str], work: Callable[[str], Any]) -> None:
        self.share = share
        reading, writing = os.pipe()
        self.id = os.fork()
        if self.id == 0:
            os.close(reading)
            _serve(share, work, writing)
        os.close(writing)
        self.pipe = reading
        self.gave_up = False

    def next(self) -> Any:
        """The next result; None where the process has ended."""
        head = self._read(8)
        if len(head) < 8:
            return None
        return pickle.loads(self._read(struct.unpack("Q", head)[0]))

    def end(self) -> None:
        os.close(self.pipe)
        os.waitpid(self.id, 0)

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size and (part := os.read(self.pipe, size - len(parts))):
            parts += part
        return parts


def _serve(share: list[str], work: Callable[[str], Any], writing: int) -> None:
    def stop(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    for name in share:
        signal.alarm(SECONDS)
        try:
            packed = pickle.dumps((name, work(name), ""))
            failure = ""
        except (Exception, TooLong) as error:
            failure = f"{type(error).__name__}: {str(error)[:100]}"
            packed = pickle.dumps((name, None, failure))
        signal.alarm(0)
        os.write(writing, struct.pack("Q", len(packed)))
        view = memoryview(packed)
        while view:
            view = view[os.write(writing, view) :]
        if failure.startswith(GIVES_UP):
            break
    os._exit(0)  # without what torch does at the end of a process


def results(
    names: Sequence[str], work: Callable[[str], Any], processes: int, each: int = 1
) -> Iterator[tuple[str, Any, str]]:
    """(name, result, "") in no order; (name, None, why) where the work raised, hung or crashed.

    `each` is how many names one process works through: with 1, nothing that an operation breaks is left for the next.
    """
    gc.freeze()  # a collection in a child would copy the parent's memory
    shares = [list(names[start : start + each]) for start in range(0, len(names), each)][::-1]
    selector = selectors.DefaultSelector()

    def start() -> None:
        process = _Process(shares.pop(), work)
        selector.register(process.pipe, selectors.EVENT_READ, process)

    for _ in range(min(processes, len(shares))):
        start()
    while selector.get_map():
        for key, _ in selector.select():
            process: _Process = key.data
            result = process.next()
            if result is not None:
                process.share.remove(result[0])
                process.gave_up = result[2].startswith(GIVES_UP)
                yield result
                continue
            selector.unregister(key.fileobj)
            process.end()
            if process.share and not process.gave_up:
                yield process.share.pop(0), None, "crashed"
            if process.share:
                shares.append(process.share)
            if shares:
                start()
