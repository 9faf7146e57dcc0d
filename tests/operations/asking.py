"""Runs an operation with given dtypes: under fake CUDA tensors, on the CPU, or on a real GPU."""

from __future__ import annotations

import re
from typing import Any

import torch

from tests.operations.public import Public
from tests.operations.questions import NO_ANSWER, RAISES, REFUSED, answer
from tests.operations.samples import Sample
from tests.operations.trees import cloned, mapped, on_tensors

# What says that there is no CUDA, or that only real tensors know; not that a dtype is wrong.
_NO_CUDA = re.compile("not compiled|NVIDIA|cuda devices|CUDA runtime|No CUDA|NVML|cuDNN|CUDA driver")
_POISONED = re.compile(
    "device-side assert|illegal memory access|CUDA error|misaligned address|CUBLAS_STATUS|out of memory"
)


class Poisoned(Exception):
    """The process's CUDA context is lost."""


class Asker:
    """Asks on one device. `fake` is the mode of fake tensors, where they are used."""

    def __init__(self, device: str, fake: Any = None) -> None:
        self.device = device
        self.fake = fake

    def ask(self, operation: Public, sample: Sample, autocast: bool) -> tuple[str, ...]:
        """The letters of the answer."""
        try:
            args, kwargs = self._moved((sample.args, sample.kwargs))
            function = self._made(operation, sample) if sample.made is not None else operation.call
        except Exception:
            return (NO_ANSWER,)
        torch.set_autocast_enabled("cuda", autocast)  # not torch.autocast, which looks for a GPU
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.default_generator.manual_seed(0)
        try:
            with torch.no_grad():
                if self.fake is None:
                    return answer(function(*args, **kwargs))
                with self.fake:
                    return answer(function(*args, **kwargs))
        except Exception as error:
            return (self._of_error(error),)
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.clear_autocast_cache()

    def _of_error(self, error: Exception) -> str:
        text = str(error)
        if self.device == "cuda" and self.fake is None and _POISONED.search(text):
            raise Poisoned(text)
        if "autocast" in text:
            return REFUSED
        unknown = isinstance(error, (AssertionError, NotImplementedError)) or _NO_CUDA.search(text) is not None
        unknown |= any(word in type(error).__name__ for word in ("DataDependent", "DynamicOutput", "Unsupported"))
        return NO_ANSWER if unknown and self.fake is not None and "not implemented for 'Half'" not in text else RAISES

    def _made(self, operation: Public, sample: Sample) -> Any:
        assert sample.made is not None
        torch.default_generator.manual_seed(0)
        args, kwargs = cloned(sample.made)
        module = operation.call(*args, **kwargs).eval()
        if self.device == "cuda" and self.fake is None:
            return module.cuda()
        for one in module.modules() if self.fake is not None else ():
            for held in (one._parameters, one._buffers):
                held.update({name: self._fake(value.detach()) for name, value in held.items() if value is not None})
            if hasattr(one, "_flat_weights_names"):
                one._flat_weights = [getattr(one, name, None) for name in one._flat_weights_names]
        return module

    def _moved(self, tree: Any) -> Any:
        if self.device == "cpu":
            return cloned(tree)
        moved = on_tensors(tree, self._fake if self.fake is not None else lambda one: one.detach().clone().cuda())
        return mapped(moved, _on_cuda)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        with self.fake:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")


def _on_cuda(leaf: Any) -> Any:
    is_cpu = leaf == "cpu" if isinstance(leaf, str) else isinstance(leaf, torch.device) and leaf.type == "cpu"
    return "cuda" if is_cpu else leaf


def fake_cuda() -> Asker:
    """Asks fake CUDA tensors, which need no GPU."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return Asker("cuda", FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True))
