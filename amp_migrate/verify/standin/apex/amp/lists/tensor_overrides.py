"""The lists for torch.Tensor: its operators, and every method that has the name of a listed torch function."""

import torch

from . import torch_overrides

MODULE = torch.Tensor


def _methods(names: list[str]) -> list[str]:
    return [name for name in names if hasattr(MODULE, name)]


FP16_FUNCS = _methods(["__matmul__", *torch_overrides.FP16_FUNCS])

# cpu: a tensor leaves the GPU as fp32.
FP32_FUNCS = _methods(["__ipow__", "__pow__", "__rpow__", "cpu", *torch_overrides.FP32_FUNCS])

CASTS = _methods(
    (
        "__add__ __div__ __eq__ __ge__ __gt__ __iadd__ __idiv__ __imul__ __isub__ __itruediv__ __le__ __lt__ __mul__ "
        "__ne__ __radd__ __rdiv__ __rmul__ __rsub__ __rtruediv__ __sub__ __truediv__"
    ).split()
    + torch_overrides.CASTS
)

SEQUENCE_CASTS = _methods(torch_overrides.SEQUENCE_CASTS)
