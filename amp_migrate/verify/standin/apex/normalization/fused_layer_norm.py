"""Layer norm and RMS norm with Apex's rule for the output: it has the input's dtype, in the Mixed classes the weight's.

Under native autocast the input counts as cast to autocast's dtype, and so is the output.  `memory_efficient` changes
what Apex keeps for the backward, and has no effect here.
"""

from typing import Any

import torch
from torch import nn


class _Norm(nn.Module):
    """What the four classes share: the shape, the parameters, and the dtype of the output."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, memory_efficient: bool = False
    ) -> None:
        super().__init__()
        self.normalized_shape = torch.Size(_shape(normalized_shape))
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        self.weight = nn.Parameter(torch.ones(self.normalized_shape)) if elementwise_affine else None

    def _output_dtype(self, input: torch.Tensor) -> torch.dtype:
        return _dtype_under_autocast(input)

    def extra_repr(self) -> str:
        """Return the settings, as nn.LayerNorm does."""
        return f"{tuple(self.normalized_shape)}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class FusedLayerNorm(_Norm):
    """Layer norm with the parameter names of nn.LayerNorm."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, memory_efficient: bool = False
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, memory_efficient)
        self.bias = nn.Parameter(torch.zeros(self.normalized_shape)) if elementwise_affine else None

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise over the last `len(normalized_shape)` dimensions."""
        result = _layer_norm(input, self.weight, self.bias, self.normalized_shape, self.eps)
        return result.to(self._output_dtype(input))


class FusedRMSNorm(_Norm):
    """RMS norm: division by the root of the mean square, without centring."""

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise over the last `len(normalized_shape)` dimensions."""
        result = _rms_norm(input, self.weight, self.normalized_shape, self.eps)
        return result.to(self._output_dtype(input))


class _Mixed(_Norm):
    def __init__(self, normalized_shape: Any, eps: float = 1e-5, *, memory_efficient: bool = False) -> None:
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def _output_dtype(self, input: torch.Tensor) -> torch.dtype:
        assert self.weight is not None
        return _dtype_under_autocast(self.weight)


class MixedFusedLayerNorm(_Mixed, FusedLayerNorm):
    """FusedLayerNorm whose output has the dtype of its weight."""


class MixedFusedRMSNorm(_Mixed, FusedRMSNorm):
    """FusedRMSNorm whose output has the dtype of its weight."""


def fused_layer_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    normalized_shape: Any,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """Layer norm as a function; note that its eps is not the class's."""
    return _layer_norm(input, weight, bias, normalized_shape, eps).to(_dtype_under_autocast(input))


def fused_layer_norm(
    input: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    """Layer norm without weight and bias."""
    return fused_layer_norm_affine(input, None, None, normalized_shape, eps)


def fused_rms_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    normalized_shape: Any,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """RMS norm as a function; note that its eps is not the class's."""
    return _rms_norm(input, weight, normalized_shape, eps).to(_dtype_under_autocast(input))


def fused_rms_norm(
    input: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    """RMS norm without weight."""
    return fused_rms_norm_affine(input, None, normalized_shape, eps)


def _layer_norm(input: torch.Tensor, weight: Any, bias: Any, normalized_shape: Any, eps: float) -> torch.Tensor:
    weight, bias = (None if tensor is None else tensor.float() for tensor in (weight, bias))
    with torch.autocast("cuda", enabled=False):
        # torch.layer_norm, because O1 patches torch.nn.functional.layer_norm and leaves Apex's own alone.
        return torch.layer_norm(input.float(), _shape(normalized_shape), weight, bias, eps)


def _rms_norm(input: torch.Tensor, weight: Any, normalized_shape: Any, eps: float) -> torch.Tensor:
    dims = tuple(range(-len(_shape(normalized_shape)), 0))
    with torch.autocast("cuda", enabled=False):
        full = input.float()
        result = full * torch.rsqrt(full.square().mean(dims, keepdim=True) + eps)
        return result if weight is None else result * weight.float()


def _shape(normalized_shape: Any) -> list[int]:
    return [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)


def _dtype_under_autocast(tensor: torch.Tensor) -> torch.dtype:
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else tensor.dtype
