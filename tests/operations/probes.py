"""What the values say of an operation: run on the CPU in float64 with inputs that were changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.operations.samples import Sample
from tests.operations.trees import on_tensors, tensors

_MOST_ELEMENTS = 40
_HALFS_LARGEST = 65504
_HALFS_SMALLEST = 3e-8


@dataclass
class Probed:
    """What was seen with one sample, or what holds for all of them."""

    in_place: bool = False
    shares: set[bool] = field(default_factory=set)  # whether outputs are views of an input
    keeps_gradient: bool | None = None
    linear: str = "?"  # L linear, A affine, H homogeneous, k constant, - none of them, ? not known
    linear_in_second: str = "?"
    copies: str = ""  # "=" all values of the input, "<" some, ">" some repeated, "0" and zeros, "-" others
    mixes: str = ""  # outputs depend on: "e" one input each, "1" at most one, "s" several and are fewer, "x" several
    grows: set[str] = field(default_factory=set)


def probe(call: Callable[..., Any], sample: Sample) -> Probed | None:
    """What one sample says; None where it does not run in float64."""
    return _Probe(call, sample).all()


def together(found: list[Probed]) -> Probed:
    """What holds for all samples."""
    first, *rest = found
    for other in rest:
        first.in_place &= other.in_place  # `inplace=True` is another operation
        first.shares |= other.shares
        first.grows |= other.grows
        first.copies = min(first.copies, other.copies, key=["", "-", "0", ">", "<", "="].index)
        first.linear = min(first.linear, other.linear, key="?-HAkL".index)
        first.linear_in_second = min(first.linear_in_second, other.linear_in_second, key="?-HAkL".index)
        first.mixes = max(first.mixes, other.mixes, key=["", "0", "e", "1", "s", "x"].index)
    return first


class _Probe:
    def __init__(self, call: Callable[..., Any], sample: Sample) -> None:
        self.call = call
        self.sample = sample
        self.random = torch.Generator().manual_seed(1)

    def all(self) -> Probed | None:
        found = Probed()
        try:
            out = self._memory(found)
        except Exception:
            return None
        self._when_transposed(found)
        self._gradient(found)
        if self.floating and _flat(out) is not None:
            for part in (self._linearity, self._copied, self._mixing, self._growth):
                try:
                    part(found)
                except Exception:  # values that it does not take: what they would say stays unknown
                    continue
        return found

    # -- inputs ----------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> Any:
        """A fresh copy, floating tensors in float64."""
        given = (self.sample.args, self.sample.kwargs)
        return on_tensors(given, lambda one: (one.double() if one.is_floating_point() else one).detach().clone())

    @property
    def floating(self) -> list[int]:
        return [place for place, one in enumerate(tensors(self.inputs)) if one.is_floating_point()]

    def _run(self, inputs: Any) -> Any:
        torch.default_generator.manual_seed(0)
        return self.call(*inputs[0], **inputs[1])

    def _with(self, place: int, value: torch.Tensor) -> Any:
        inputs = self.inputs
        target = tensors(inputs)[place]
        return on_tensors(inputs, lambda one: value.clone() if one is target else one)

    def _values(self, place: int, value: torch.Tensor) -> torch.Tensor:
        found = _flat(self._run(self._with(place, value)))
        assert found is not None
        return found

    def _draw(self, place: int) -> torch.Tensor:
        """Numbers between 0.1 and 0.9, negative ones among them where the sample has some."""
        base = tensors(self.inputs)[place]
        drawn = torch.rand(base.shape, generator=self.random, dtype=torch.float64) * 0.8 + 0.1
        if base.numel() and base.min() < 0:
            drawn = drawn * torch.where(torch.rand(base.shape, generator=self.random) < 0.5, -1.0, 1.0)
        return drawn

    # -- memory and gradients --------------------------------------------------------------------------------

    def _memory(self, found: Probed) -> Any:
        inputs = self.inputs
        given = tensors(inputs)
        before, versions = _storages(given), [one._version for one in given]
        out = self._run(inputs)
        found.in_place = [one._version for one in given] != versions
        found.shares |= {bool(_storages([one]) & before) for one in tensors(out) if one.numel()}
        return out

    def _when_transposed(self, found: Probed) -> None:
        """contiguous(), reshape() and flatten() copy what is not laid out in rows."""
        inputs = self.inputs
        first = next(iter(tensors(inputs)), None)
        if first is None or first.ndim < 2 or first.shape[-1] != first.shape[-2]:
            return
        other = first.transpose(-1, -2).contiguous().transpose(-1, -2)
        inputs = on_tensors(inputs, lambda one: other if one is first else one)
        try:
            before = _storages(tensors(inputs))
            found.shares |= {bool(_storages([one]) & before) for one in tensors(self._run(inputs)) if one.numel()}
        except Exception:
            return

    def _gradient(self, found: Probed) -> None:
        if found.in_place or not self.floating:
            return
        inputs = on_tensors(self.inputs, lambda one: one.requires_grad_() if one.is_floating_point() else one)
        try:
            found.keeps_gradient = any(one.requires_grad for one in tensors(self._run(inputs)))
        except Exception:
            return

    # -- values ----------------------------------------------------------------------------------------------

    def _linearity(self, found: Probed) -> None:
        found.linear = self._linear_in(self.floating[0])
        if len(self.floating) > 1:
            found.linear_in_second = self._linear_in(self.floating[1])

    def _linear_in(self, place: int) -> str:
        try:
            return self._compared(place, self._draw(place), self._draw(place))
        except Exception:
            return "?"

    def _compared(self, place: int, u: torch.Tensor, v: torch.Tensor) -> str:
        of_u, of_v = self._values(place, u), self._values(place, v)
        if of_u.numel() != of_v.numel() or not torch.isfinite(self._values(place, 2 * u - 3 * v)).all():
            return "?"
        if _close(of_u, of_v) and _close(of_u, self._values(place, 2 * u - 3 * v)):
            return "k"
        scales = (40.0, 0.02, 1.0)  # what clamps is linear in between
        if all(
            _close(
                self._values(place, k * (2 * u - 3 * v)),
                2 * self._values(place, k * u) - 3 * self._values(place, k * v),
            )
            for k in scales
        ):
            return "L"
        if _close(self._values(place, 3 * u - 2 * v), 3 * of_u - 2 * of_v):
            return "A"
        return "H" if all(_close(self._values(place, k * u), k * of_u) for k in (0.7, 30.0)) else "-"

    def _copied(self, found: Probed) -> None:
        """Whether the output's elements are the input's."""
        place = self.floating[0]
        shape = tensors(self.inputs)[place].shape
        count = max(shape.numel(), 1)
        spread = torch.logspace(-3, 2, count, dtype=torch.float64).reshape(shape)
        given = torch.randn(shape, generator=self.random, dtype=torch.float64) * spread
        got, values = self._values(place, given).tolist(), given.flatten().tolist()
        if got and set(got) <= set(values):
            found.copies = "=" if sorted(got) == sorted(values) else ("<" if len(got) == len(set(got)) else ">")
        elif got and set(got) - {0.0} <= set(values) and len(set(got)) > 1:
            found.copies = "0"
        else:
            found.copies = "-"

    def _mixing(self, found: Probed) -> None:
        """On how many elements of the input an element of the output depends, and the other way round."""
        place = self.floating[0]
        base = self._draw(place)
        before = self._values(place, base)
        depends, reached = torch.zeros(before.numel()), []
        for index in range(min(base.numel(), _MOST_ELEMENTS)):
            changed = base.clone()
            changed.view(-1)[index] *= 0.9
            differs = ~torch.isclose(self._values(place, changed), before, rtol=1e-12, atol=0, equal_nan=True)
            depends += differs.float()
            reached.append(int(differs.sum()))
        most = int(depends.max()) if depends.numel() else 0
        if most > 1:
            found.mixes = "s" if before.numel() < base.numel() else "x"
        elif most == 1:
            found.mixes = "e" if before.numel() == base.numel() and max(reached) <= 1 else "1"
        else:
            found.mixes = "0"

    def _growth(self, found: Probed) -> None:
        """What leaves half's range: with large values, with small ones, with many ones."""
        large = on_tensors(self.inputs, lambda one: torch.full_like(one, 300.0) if one.is_floating_point() else one)
        out = _flat(self._run(large))
        if out is not None and out.numel() and out.abs().nan_to_num(posinf=1e300).max() > _HALFS_LARGEST:
            found.grows.add("v")
        small = on_tensors(self.inputs, lambda one: torch.full_like(one, 1e-4) if one.is_floating_point() else one)
        out = _flat(self._run(small))
        rest = out[out != 0].abs() if out is not None else torch.zeros(0)
        if rest.numel() and rest.min() < _HALFS_SMALLEST and found.linear != "L":
            found.grows.add("u")
        self._growth_with_number(found)

    def _growth_with_number(self, found: Probed) -> None:
        is_layer = self.sample.made is not None
        for shape in (lambda n: (n, n), lambda n: (n,), lambda n: (2, n, n), lambda n: (1, 2, n, n)):
            try:
                largest = []
                for count in (8, 64):
                    ones = torch.ones(shape(count), dtype=torch.float64)
                    inputs = self.inputs
                    first = tensors(inputs)[self.floating[0]]

                    def enlarged(one: torch.Tensor, first: Any = first, ones: Any = ones) -> torch.Tensor:
                        return ones.clone() if one.is_floating_point() and (not is_layer or one is first) else one

                    out = _flat(self._run(on_tensors(inputs, enlarged)))
                    assert out is not None
                    largest.append(out.abs().max().item())
            except Exception:
                continue
            if largest[0] > 0 and largest[1] / largest[0] > 2:
                found.grows.add("n")
            return


def _flat(out: Any) -> torch.Tensor | None:
    parts = [one.detach().reshape(-1).double() for one in tensors(out) if one.is_floating_point()]
    return torch.cat(parts) if parts else None


def _storages(given: list[torch.Tensor]) -> set[int]:
    return {one.untyped_storage().data_ptr() for one in given if one.layout is torch.strided}


def _close(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.numel() == right.numel() and torch.allclose(left, right, rtol=1e-8, atol=1e-9)
