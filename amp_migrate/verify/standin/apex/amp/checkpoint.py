"""Saving and restoring the loss scalers.

Format: `{"loss_scaler0": {"loss_scale": float, "unskipped": int}, "loss_scaler1": ...}`.
"""

from collections import OrderedDict
from typing import Any

from ._amp_state import _amp_state


def state_dict(destination: Any = None) -> Any:
    """Return the state of every loss scaler, in the order of loss_id."""
    destination = OrderedDict() if destination is None else destination
    for index, scaler in enumerate(_amp_state.loss_scalers):
        destination[f"loss_scaler{index}"] = {"loss_scale": scaler.loss_scale(), "unskipped": scaler._unskipped}
    return destination


def load_state_dict(state_dict: Any) -> None:
    """Restore the scalers by the order of the entries; entries beyond `num_losses` are ignored.

    Raises:
        RuntimeError: an entry is no loss scaler's; as in Apex, the scalers are already restored then.
    """
    entries = [entry for key, entry in state_dict.items() if "loss_scaler" in key]
    for scaler, entry in zip(_amp_state.loss_scalers, entries, strict=False):
        scaler._loss_scale = entry["loss_scale"]
        scaler._unskipped = entry["unskipped"]
    unexpected = [key for key in state_dict if "loss_scaler" not in key]
    if unexpected:
        raise RuntimeError(f"Unexpected key(s) in the amp state_dict: {', '.join(unexpected)}")
