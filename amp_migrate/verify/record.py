"""What one run of a script did about training: written by the recorder in the child, read by the verdict.

Only the standard library: the parent process never imports torch.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["finished", "stopped", "error", "time limit", "killed"]


@dataclasses.dataclass
class Backward:
    """One call of `backward`. `update` counts the optimizer steps tried before it, in this process."""

    loss: float  # before scaling
    loss_scale: float | None  # what it was multiplied with; None where the loss was not scaled
    scaler: int | None  # which loss scaler did it
    autocast: bool  # was autocast on while gradients were computed?
    dtype: str  # of the loss, before scaling: "float32"
    update: int
    factor: float = 1.0  # the product of the constants that the script multiplied it with last, scalers aside
    calls: int = 0  # of modules that it went through: see Precision
    low: int = 0  # of these in half precision

    @property
    def is_apart(self) -> bool:
        """True for one in float32 that is not scaled: of an attack on the inputs, which no step takes."""
        return self.loss_scale is None and self.calls > 0 and self.low == 0


@dataclasses.dataclass
class Step:
    """One try of an optimizer step. Optimizers are numbered in the order of their first step."""

    optimizer: int
    applied: bool  # False where the loss scaler skipped it
    grad_norm: float | None  # L2 norm of all gradients as the optimizer saw them; None for a skipped step
    loss_scale: float | None
    scaler: int | None  # which loss scaler made the step; Apex leaves that to the optimizer
    seconds: float  # since the step before it (or since the first backward)
    calls: int  # of modules, with gradients, since the step before it: see Precision
    low: int  # of these in half precision


@dataclasses.dataclass
class Clip:
    """One call that clips gradients. `norm` is the norm before clipping, `limit` what it may be."""

    name: str
    norm: float | None
    limit: float | None
    update: int

    @property
    def excess(self) -> float | None:
        """The norm as a multiple of the limit: the same whether both are multiplied with a loss scale or not."""
        return self.norm / self.limit if self.norm is not None and self.limit else None


@dataclasses.dataclass
class Scaler:
    """One enabled loss scaler."""

    kind: Literal["GradScaler", "Apex", "by hand"]
    first_scale: float
    last_scale: float


@dataclasses.dataclass
class Precision:
    """Calls of linear, convolution and recurrent modules, and how many of them gave float16 or bfloat16."""

    calls: int = 0
    low: int = 0

    @property
    def share(self) -> float | None:
        return self.low / self.calls if self.calls else None

    def count(self, low: bool) -> None:
        self.calls += 1
        self.low += low


@dataclasses.dataclass
class Failure:
    """An exception that ended the script, at its last line in the user's own code."""

    kind: str
    message: str
    path: str
    line: int
    code: str = ""  # that line
    missing: str | None = None  # a module or file that is not here

    def words(self) -> str:
        """`stops at train.py:12: ...`, with what is missing where that is known."""
        where = f"{self.path}:{self.line}" if self.line else self.path
        if self.kind == "ModuleNotFoundError":
            return f"needs the package {self.missing}, which is not installed here ({where})"
        if self.kind == "FileNotFoundError" and self.missing:
            return f"needs {self.missing}, which is not here ({where})"
        return f"stops at {where}: {self.kind}: {self.message}".rstrip(": ")


@dataclasses.dataclass
class Record:
    """All that is known of one run."""

    outcome: Outcome = "finished"
    failure: Failure | None = None
    device: str = "cpu"
    torch: str = ""
    apex: str | None = None  # which apex the script imported: "apex ..." or "stand-in"
    levels: list[str] = dataclasses.field(default_factory=list)  # of each amp.initialize; see also form.py
    autocast: bool = False  # was it on in a forward with gradients?
    half_weights: bool = False  # did a backward of the first updates reach parameters in half precision?
    backwards: list[Backward] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    clips: list[Clip] = dataclasses.field(default_factory=list)
    scalers: list[Scaler] = dataclasses.field(default_factory=list)
    training: Precision = dataclasses.field(default_factory=Precision)  # with gradients
    evaluation: Precision = dataclasses.field(default_factory=Precision)  # under no_grad
    saved_bytes: int = 0  # floating tensors kept for backward, in the first updates
    saved_low_bytes: int = 0  # of these in float16 or bfloat16
    low_dtype: str = ""  # which of the two
    weights: list[float] = dataclasses.field(default_factory=list)  # an even sample of the trained weights, at the end
    digest: str = ""  # of all trained weights, at the end
    buffers: str = ""  # a digest of the buffers (running statistics) of all modules that ran, at the end
    running: list[float] = dataclasses.field(default_factory=list)  # an even sample of them
    is_float64: bool = False  # are all trained weights in float64?
    peak_bytes: int | None = None  # CUDA memory; None on the CPU
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def low_share(self) -> float | None:
        """Share of low precision in the bytes saved for backward."""
        return self.saved_low_bytes / self.saved_bytes if self.saved_bytes else None

    def is_native(self, scaler: int | None) -> bool:
        """True for a GradScaler, False for one of Apex's, or none."""
        return scaler is not None and self.scalers[scaler].kind == "GradScaler"

    @property
    def skipped(self) -> int:
        return sum(not step.applied for step in self.steps)

    def updates(self) -> Iterator[Update]:
        """Backwards with the steps that follow them, up to the next backward."""
        first = 0
        clips = deque(self.clips)
        for number, backward in enumerate(self.backwards):
            last = number + 1 == len(self.backwards)
            end = len(self.steps) if last else self.backwards[number + 1].update
            steps = self.steps[backward.update : end]
            if steps:
                own = []
                while clips and clips[0].update < end:
                    own.append(clips.popleft())
                yield Update(self.backwards[first : number + 1], steps, own)
                first = number + 1

    def first_steps(self, count: int) -> Record:
        """What was recorded up to so many tries of a step; without the weights, which are those of the end."""
        return dataclasses.replace(
            self,
            backwards=[backward for backward in self.backwards if backward.update < count],
            steps=self.steps[:count],
            clips=[clip for clip in self.clips if clip.update < count],
            weights=[],
            digest="",
            buffers="",
            running=[],
        )

    def without_last_step(self) -> Record:
        """For a run that was ended from outside, perhaps in the middle of a step."""
        if not self.steps:
            return self
        first = self.first_steps(len(self.steps) - 1)
        return dataclasses.replace(
            first, weights=self.weights, digest=self.digest, buffers=self.buffers, running=self.running
        )

    def curves(self, until: int | None = None) -> dict[tuple[int, ...], list[Update]]:
        """The updates that were applied, of the first `until` tries, by the optimizers that they step.

        Losses are compared update by update: a skipped step, on one side only, shifts all iterations after it.
        """
        curves: dict[tuple[int, ...], list[Update]] = {}
        for update in islice(self.updates(), until):
            if update.applied:
                curves.setdefault(update.optimizers, []).append(update)
        return curves

    def not_a_number(self) -> int | None:
        """The first applied update with a loss or gradient that is NaN or infinite, counted from 1."""
        applied = [update for update in self.updates() if update.applied]
        for number, update in enumerate(applied, 1):
            if not math.isfinite(update.loss) or not math.isfinite(update.grad_norm):
                return number
        return None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Record:
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, data: dict[str, Any]) -> Record:
        """From what `dataclasses.asdict` gives."""
        lists: dict[str, Any] = {"backwards": Backward, "steps": Step, "clips": Clip, "scalers": Scaler}
        for name, kind in lists.items():
            data[name] = [kind(**item) for item in data[name]]
        for name in ("training", "evaluation"):
            data[name] = Precision(**data[name])
        data["failure"] = Failure(**data["failure"]) if data["failure"] else None
        return cls(**data)


@dataclasses.dataclass
class Update:
    """The backwards that belong to one optimizer update, and its steps."""

    backwards: list[Backward]
    steps: list[Step]
    clips: list[Clip]

    @property
    def applied(self) -> bool:
        return any(step.applied for step in self.steps)

    @property
    def optimizers(self) -> tuple[int, ...]:
        return tuple(sorted({step.optimizer for step in self.steps}))

    @property
    def precision(self) -> Precision:
        """Of the forwards before it; where some losses are scaled, not of those that stand apart."""
        apart = [
            one.calls for one in self.backwards if one.is_apart and len({two.is_apart for two in self.backwards}) > 1
        ]
        return Precision(sum(step.calls for step in self.steps) - sum(apart), sum(step.low for step in self.steps))

    @property
    def loss(self) -> float:
        """The sum of the losses, before scaling."""
        return sum(backward.loss for backward in self.backwards)

    @property
    def grad_norm(self) -> float:
        """L2 norm over the optimizers that were stepped, as applied."""
        return math.hypot(*(step.grad_norm for step in self.steps if step.grad_norm is not None))

    @property
    def excesses(self) -> list[float]:
        """Of each clip, the norm before it divided by what it may be."""
        return [clip.excess for clip in self.clips if clip.excess is not None]
