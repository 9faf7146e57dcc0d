"""Compiled extensions that the forward calls: nobody casts for them, and most take float32 only.

    from torch.utils.cpp_extension import load
    kernels = load(name="kernels", sources=["kernels.cu"])
    y = kernels.forward(x)                                      # x is half under autocast

Inside of an autograd function that custom_fwd keeps in float32 they are safe (rule R13); anywhere else the unit stays.
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts.names import dotted_text
from amp_migrate.findings import Refusal
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import COMPILED_EXTENSION

_LOADERS = frozenset(
    "torch.utils.cpp_extension.load torch.utils.cpp_extension.load_inline cupy.RawKernel cupy.RawModule".split()
)
# How projects name what their setup.py compiles; torch's own and other packages' are none of ours.
_COMPILED = re.compile(r"(^|\.)(_C|_ext|\w+_cuda|\w+_cpp|cuda_\w+|_\w+_ext|\w+_ext)(\.|$)")

# A package that torch.utils.ffi made around compiled code.
_WRAPS_COMPILED = re.compile(rb"\btorch\.utils\.ffi\b")


def check_extensions(context: Context) -> None:
    """Raises Refusal for a call of a compiled extension under autocast."""
    for call, _ in context.reach.calls():
        if isinstance(call.func, (cst.Name, cst.Attribute)) and is_compiled(context, call.func):
            message = f"{dotted_text(call.func)} is compiled code, which autocast does not cast for"
            raise Refusal(COMPILED_EXTENSION, call, message)


def is_compiled(context: Context, func: cst.Name | cst.Attribute) -> bool:
    """True for a function of a compiled extension, loaded by the script or imported."""
    imported = context.facts.names.imported_as(func)
    return _is_loaded(context, func) or any(_is_compiled(context, name) for name in imported)


def _is_compiled(context: Context, dotted: str) -> bool:
    source = context.facts.elsewhere.source_of(dotted)
    if source is not None:
        return _WRAPS_COMPILED.search(source) is not None
    return not dotted.startswith("torch.") and _COMPILED.search(dotted) is not None


def _is_loaded(context: Context, func: cst.BaseExpression) -> bool:
    """True for a function of what `torch.utils.cpp_extension.load` returned."""
    root = func.value if isinstance(func, cst.Attribute) else func
    origins = [one.origin for one in context.facts.objects.objects(root)]
    return any(
        isinstance(origin, cst.Call) and context.facts.names.dotted(origin.func) in _LOADERS for origin in origins
    )
