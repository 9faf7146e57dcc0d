"""What one run is asked to do: written by the parent, read by the child."""

from __future__ import annotations

import dataclasses
import json
import signal
from typing import Any, Literal

from amp_migrate.verify.conditions import Conditions

# Asks a run to end with what it has recorded; scripts have handlers of their own for SIGTERM and SIGUSR1.
STOP_SIGNAL = signal.SIGUSR2

Mode = Literal["as is", "without AMP", "without autocast", "under autocast"]


@dataclasses.dataclass(frozen=True)
class Spec:
    """One run of one script. Paths are absolute; those of the user's files lie in a mirror (see mirror.py)."""

    script: str
    args: tuple[str, ...]
    folder: str  # the working directory
    mirrors: tuple[tuple[str, str], ...]  # (copy, what it is a copy of)
    results: str  # an empty folder for record.json, output.txt, progress
    device: Literal["cuda", "cpu"]
    conditions: Conditions
    mode: Mode = "as is"
    autocast_dtype: Literal["float16", "bfloat16"] = "float16"  # for mode "under autocast"
    steps: int | None = None  # stop after so many tries of an optimizer step
    seed: int = 0
    perturb: bool = False  # move all weights by 2**-11, once, after the first step
    in_double: bool = False  # in float64 throughout

    def dumps(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def loads(cls, text: str) -> Spec:
        data: dict[str, Any] = json.loads(text)
        data["args"] = tuple(data["args"])
        data["mirrors"] = tuple((copy, real) for copy, real in data["mirrors"])
        data["conditions"] = Conditions(**data["conditions"])
        return cls(**data)
