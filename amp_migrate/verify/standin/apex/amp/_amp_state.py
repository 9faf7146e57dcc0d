"""The process-wide state of amp; scripts read it, so its names are Apex's."""

from collections.abc import Iterator
from typing import Any

import torch


class AmpState:
    """What `amp.initialize` leaves behind.

    As in Apex, an attribute exists only once its value was set: `opt_properties`, `min_loss_scale`, `max_loss_scale`
    and `loss_scalers` by `initialize`, `handle` by `init` (opt_level O1).
    """

    opt_properties: Any
    loss_scalers: list[Any]
    min_loss_scale: float | None
    max_loss_scale: float
    handle: Any

    def __init__(self) -> None:
        self.allow_incoming_model_not_fp32 = False
        self.verbosity = 1


_amp_state = AmpState()


def master_params(optimizer: Any) -> Iterator[torch.Tensor]:
    """Yield the parameters that the optimizer updates: the fp32 masters where amp has put them in."""
    for group in optimizer.param_groups:
        yield from group["params"]
