"""The state of a loss scaler: from Apex's forms to GradScaler's, and back to amp's.

Apex's dynamic scale and GradScaler's defaults are the same: factor 2, a half on overflow, growth after 2000 steps. Both
compare their count of good steps with the interval for equality, so a count beyond it would never grow again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from amp_migrate.checkpoint.errors import CheckpointError
from amp_migrate.checkpoint.values import count, number

_FACTOR = 2.0
_INTERVAL = 2000
_HIGHEST = 2.0**24


@dataclasses.dataclass(frozen=True)
class ScalerState:
    """A loss scale, and for how many steps it has been good; `limits` are those that GradScaler does not have."""

    scale: float
    good_steps: int
    factor: float = _FACTOR
    interval: int = _INTERVAL
    is_static: bool = False
    limits: str = ""

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise CheckpointError(
                f"the loss scale is {self.scale}: every gradient had overflowed, and no scaler comes back from "
                "there; take an earlier checkpoint"
            )
        if not (self.factor > 1 and self.interval > 0):
            raise CheckpointError(
                f"a loss scale with factor {self.factor} and window {self.interval} has no native form"
            )

    @property
    def grows_as_amp(self) -> bool:
        """Amp has no other growth."""
        return self.factor == _FACTOR and self.interval == _INTERVAL

    def native(self) -> dict[str, Any]:
        """What `GradScaler.load_state_dict` takes."""
        return {
            "scale": self.scale,
            "growth_factor": self.factor,
            "backoff_factor": 1 / self.factor,
            "growth_interval": self.interval,
            "_growth_tracker": min(self.good_steps, self.interval - 1),
        }

    def apex(self) -> dict[str, Any]:
        """What `amp.load_state_dict` takes."""
        return {"loss_scaler0": {"loss_scale": self.scale, "unskipped": min(self.good_steps, _INTERVAL - 1)}}


def lowest(states: list[ScalerState]) -> ScalerState:
    """One scaler for several: the lowest scale, which overflows nowhere, and the growth of the one that had it last."""
    return dataclasses.replace(
        min(states, key=lambda state: state.scale), good_steps=min(state.good_steps for state in states)
    )


def from_amp_state(state: Mapping[str, Any]) -> ScalerState:
    """From `amp.state_dict()`. A dynamic scale starts to count again at 2000, so a higher count is a static one's."""
    return lowest(
        [
            ScalerState(
                scale=number(entry["loss_scale"]),
                good_steps=count(entry["unskipped"]),
                is_static=count(entry["unskipped"]) >= _INTERVAL,
            )
            for entry in state.values()
        ]
    )


def from_fields(fields: Mapping[str, Any]) -> ScalerState:
    """From the attributes of a pickled scaler, or what apex.contrib's FP16_Optimizer saves in its place."""
    if "_loss_scale" in fields:  # apex.amp.scaler.LossScaler
        return ScalerState(
            scale=number(fields["_loss_scale"]),
            good_steps=count(fields.get("_unskipped", 0)),
            interval=count(fields.get("_scale_seq_len", _INTERVAL)),
            is_static=not fields.get("dynamic", True),
            limits=_limits(fields),
        )
    if "cur_scale" not in fields:
        raise CheckpointError("a loss scaler without a loss scale")
    if "last_overflow_iter" not in fields:
        return ScalerState(scale=number(fields["cur_scale"]), good_steps=0, is_static=True)
    interval = count(fields.get("scale_window"))
    good_steps = count(fields.get("cur_iter")) - 1 - count(fields["last_overflow_iter"])
    return ScalerState(
        scale=number(fields["cur_scale"]),
        good_steps=good_steps % interval if interval > 0 else 0,
        factor=number(fields.get("scale_factor")),
        interval=interval,
    )


def from_grad_scaler(state: Mapping[str, Any]) -> ScalerState:
    """From `GradScaler.state_dict()`."""
    return ScalerState(
        scale=number(state["scale"]),
        good_steps=count(state["_growth_tracker"]),
        factor=number(state["growth_factor"]),
        interval=count(state["growth_interval"]),
    )


def _limits(fields: Mapping[str, Any]) -> str:
    low, high = fields.get("_min_loss_scale"), fields.get("_max_loss_scale", _HIGHEST)
    parts = [f"min_loss_scale={low}"] if low else []
    if high != _HIGHEST:
        parts.append(f"max_loss_scale={high}")
    return ", ".join(parts)
