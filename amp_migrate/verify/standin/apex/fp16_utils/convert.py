"""Casting a network to fp16 while its affine batch norms stay fp32."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class tofp16(nn.Module):  # noqa: N801 (Apex's name)
    """A layer that casts its input to fp16."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the input in fp16."""
        return input.half()


class FP16Model(nn.Module):
    """A network cast to fp16, which casts its inputs itself; its state_dict keys begin with `network.`."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.half)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the network on fp16 inputs."""
        return self.network(*(tensor.half() for tensor in inputs))


def network_to_half(network: nn.Module) -> nn.Sequential:
    """Cast a network to fp16 and let it cast its input; its state_dict keys begin with `1.`."""
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


def BN_convert_float(module: nn.Module) -> nn.Module:
    """Cast the affine batch norms in a module back to fp32."""
    for part in module.modules():
        if _is_affine_batch_norm(part):
            part.float()
    return module


def convert_network(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Cast all of a network but its affine batch norms."""
    for module in network.modules():
        if not _is_affine_batch_norm(module):
            convert_module(module, dtype)
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()
    return network


def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Cast a module's own floating parameters, gradients and buffers, and not those of its children."""
    for param in module.parameters(recurse=False):
        if param.is_floating_point():
            param.data = param.data.to(dtype)
            if param.grad is not None:
                param.grad.data = param.grad.data.to(dtype)
    for buffer in module.buffers(recurse=False):
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)


def _is_affine_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and module.affine
