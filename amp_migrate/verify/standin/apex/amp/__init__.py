"""`apex.amp`: mixed precision by opt_level, and the older handle interface."""

from ._amp_state import _amp_state, master_params
from .annotations import (
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from .checkpoint import load_state_dict, state_dict
from .frontend import initialize
from .handle import disable_casts, scale_loss
from .install import init

__all__ = [
    "_amp_state",
    "disable_casts",
    "float_function",
    "half_function",
    "init",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]
