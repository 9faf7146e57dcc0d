"""Apex's documented behaviour in plain torch, for running original scripts where the real Apex is not installed.

Written from the documentation of NVIDIA Apex as of its last commit that holds amp (e13873de, May 2025).
It needs no compiled extension, prints nothing, and works on CPU tensors too; where Apex only checks that a tensor
is on the GPU, the stand-in is lenient.  `IS_STANDIN` tells it from the real package, which has no such name.
"""

from . import amp, fp16_utils, multi_tensor_apply, normalization, optimizers, parallel

IS_STANDIN = True

__all__ = ["IS_STANDIN", "amp", "fp16_utils", "multi_tensor_apply", "normalization", "optimizers", "parallel"]
