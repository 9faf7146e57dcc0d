"""Which files speak of mixed precision, in whatever way: a search for words, before anything is parsed."""

from __future__ import annotations

import re

_WORDS = re.compile(
    rb"\b(?:apex|autocast|GradScaler|custom_fwd|custom_bwd|float16|bfloat16|HalfTensor|scale_loss|master_params"
    rb"|torch\.half|(?:torch|cuda)\.amp|network_to_half|\w*fp16\w*)\b|\.half\(|FP16",
    re.IGNORECASE,
)
_SETUP = re.compile(rb"\b(?:apex|autocast|GradScaler|scale_loss|fp16_utils|FP16_Optimizer|scaler)\b")


def speaks_of_it(source: bytes) -> bool:
    """True for a file that may set mixed precision up, use it, or say when it is on."""
    return _WORDS.search(source) is not None


def sets_it_up(source: bytes) -> bool:
    """True for a file that may set mixed precision up or scale by it: more than a word of a type."""
    return _SETUP.search(source) is not None
