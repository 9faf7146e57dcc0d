"""The words by which apex's `amp` module, and what may hold it, is known before anything is resolved."""

from __future__ import annotations

import re

HANDLE = "apex.amp"

# What `from apex import *` and `from apex.amp import *` bind.
STARS = {
    "apex": ("amp",),
    HANDLE: tuple(
        "initialize init scale_loss master_params state_dict load_state_dict disable_casts half_function "
        "float_function promote_function register_half_function register_float_function "
        "register_promote_function".split()
    ),
}

# Methods that nothing but a handle has.
TELLING = frozenset(("scale_loss", "master_params"))

# Methods of the handle that other things have, too.
ORDINARY = frozenset(("initialize", "init", "state_dict", "load_state_dict"))

_CASTS = frozenset(f"{HANDLE}.{kind}_function" for kind in ("half", "float", "promote"))

# Without one of them no definition of a file uses a handle by itself.
WORDS = re.compile(
    rb"\bapex\b|\bscale_loss\b|\bmaster_params\b|\b_?(?:apex_)?amp(?:_handle)?\s*\.\s*"
    rb"(?:initialize|init|state_dict|load_state_dict)\b"
)

_NAME = re.compile(r"_?(?:apex_)?amp(?:_handle)?")


def is_like_handle(name: str) -> bool:
    """True for names that scripts give to a value that is apex's `amp` or None."""
    return _NAME.fullmatch(name) is not None


def means_handle(canonical: str) -> bool:
    """True for apex.amp and everything in it."""
    return canonical == HANDLE or canonical.startswith(f"{HANDLE}.")


def joins(canonical: str) -> bool:
    """True for what has to be migrated together with whatever uses it: all of apex.amp but the decorators that change
    the casts of a function. They have no native form; nothing would be gained by a unit of all that calls the function.
    """
    return means_handle(canonical) and canonical not in _CASTS
