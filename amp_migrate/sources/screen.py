"""The byte search that decides, before any parsing, that a file holds no source form.

It imports nothing but `re`, so that a tree with nothing to do costs reading its files and no more.
"""

from __future__ import annotations

import re

# Each `import` looks as far as the next one: a line with thousands of them is read once.
IMPORTS_APEX = re.compile(
    rb"\b(?:from|import)[ \t]+apex\b|\bimport\b(?:(?!\bimport\b)[^\n#])*\bapex\b"
    rb"|import_module\((?:(?!import_module)[^)])*apex"
)

_BACKWARD = re.compile(rb"\.backward\b|[\"']backward[\"']|\bimport\b.*\bbackward\b")
_GIVEN = re.compile(rb"\.grad[ \t]*=[ \t]*(?!None\b)[^=\s]")  # gradients without a backward
_GPU = re.compile(rb"cuda|device|gpu|half|16|apex|parallel", re.IGNORECASE)
_NATIVE = re.compile(  # an import alone decides nothing
    rb"^(?![ \t]*(?:from|import)\b)[^#\n]*\b(?:(?:cuda\.amp|torch\.amp|torch\.autocast)\b|(?:GradScaler|autocast)\()",
    re.MULTILINE,
)
_DEFINED = re.compile(rb"^(?:class|def)[ \t]+(\w+)", re.MULTILINE)
_FP16_UTILS = re.compile(
    rb"\bapex\b.*\bfp16_utils\b|\bFP16_Optimizer\b"
    rb"|(?:\bimport\b[ \t]*(?:\([^)]*|[^\n(]*)\b|\.)network_to_half\b"  # a copy in the tree that an evaluation uses
)
HALF_MODEL = re.compile(rb"\.half\(\)|\bnetwork_to_half\b|\bFP16(?:Model|_Module)\b")
NATIVE_NAMES = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_NATIVE_AMP = re.compile(rb"\b(?:%s)\b" % "|".join(NATIVE_NAMES).encode())
_TRAINING = re.compile(
    rb"\.backward\b|[\"'](?:backward|step)[\"']|\.step\b|\.fit\s*\(|\boptim|\bTrainer\b|\bTrainingArguments\b|\bapex\b|\b(?:%s)\b"
    % "|".join(NATIVE_NAMES).encode()
)


def may_have_trained(source: bytes) -> bool:
    """False for a file that certainly trains nothing: neither torch nor Apex is named, or no word of a training is."""
    return (b"torch" in source or b"apex" in source) and _TRAINING.search(source) is not None


def may_import_apex(source: bytes) -> bool:
    """False only for files that certainly import nothing of apex."""
    return b"apex" in source and IMPORTS_APEX.search(source) is not None


def line_of_apex_import(source: bytes) -> int | None:
    """The line (from 1) of the first import of apex that no comment holds, as far as bytes tell; None without one."""
    places = (one.start() for one in IMPORTS_APEX.finditer(source)) if b"apex" in source else ()
    lines = (source.count(b"\n", 0, at) + 1 for at in places if b"#" not in source[source.rfind(b"\n", 0, at) + 1 : at])
    return next(lines, None)


def may_train(source: bytes) -> bool:
    """False for files with neither apex.fp16_utils nor a backward nor gradients that are given by hand, without a word
    of a GPU, or with native AMP.
    """
    trains = b"backward" in source and _BACKWARD.search(source) is not None
    trains = trains or (b".grad" in source and _GIVEN.search(source) is not None)
    if not trains and not may_use_fp16_utils(source):
        return False
    return _GPU.search(source) is not None and _NATIVE.search(source) is None


def may_use_fp16_utils(source: bytes) -> bool:
    """False only for files that certainly use nothing of apex.fp16_utils, nor copies of its optimizer and its cast."""
    words = (b"fp16_utils", b"FP16_Optimizer", b"network_to_half")
    return any(word in source for word in words) and _FP16_UTILS.search(source) is not None


def may_train_for_another(source: bytes) -> bool:
    """True for a file with a backward and without a word of a GPU: which device it is may be its caller's choice."""
    if b"backward" not in source or _BACKWARD.search(source) is None:
        return False
    return _GPU.search(source) is None and _NATIVE.search(source) is None


def speaks_of_gpu(source: bytes) -> bool:
    """True for a file that may move something to a GPU."""
    return b"cuda" in source or b".to(" in source


def names_of(source: bytes) -> set[bytes]:
    """The functions and classes at the top of a file."""
    return set(_DEFINED.findall(source))


def may_cast_model(source: bytes) -> bool:
    """False only for files that certainly make no model half."""
    return HALF_MODEL.search(source) is not None


def may_hold_native_amp(source: bytes) -> bool:
    """False only for files that certainly use no native AMP."""
    return b"torch" in source and _NATIVE_AMP.search(source) is not None


def may_hold_apex_amp(source: bytes) -> bool:
    """False only for files that certainly use no apex.amp."""
    return b"amp" in source and may_import_apex(source)
