"""Arguments for each operation: torch's own sample inputs, else guesses, of which those stay that the CPU runs."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.operations.guesses import guessed, guessed_layer
from tests.operations.public import Public
from tests.operations.trees import cloned, tensors

_MOST = 3
_LARGEST = 600  # elements of a tensor
_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64, torch.bfloat16)
# Operators whose samples torch has under another name.
_BITWISE = {
    f"__{prefix}{name}__": f"bitwise_{meant}"
    for prefix in ("", "i")
    for name, meant in (
        ("and", "and"),
        ("or", "or"),
        ("xor", "xor"),
        ("invert", "not"),
        ("lshift", "left_shift"),
        ("rshift", "right_shift"),
    )
}
_CASTING = ("dtype", "out", "layout", "memory_format")  # arguments that decide the dtype, or are none of ours


@dataclass
class Sample:
    """One call. For a layer, `made` are the arguments of its class."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: tuple[tuple[Any, ...], dict[str, Any]] | None = None


@dataclass
class Samples:
    """The calls of one operation, and where they come from."""

    source: str
    calls: list[Sample] = field(default_factory=list)
    declared: frozenset[str] = frozenset()  # the dtypes that torch says CUDA has kernels for


def samples(operation: Public) -> Samples:
    """Calls that run on the CPU; none where none was found."""
    for found in _candidates(operation):
        found.calls = list(itertools.islice((one for one in found.calls if _runs(operation, one)), _MOST))
        if found.calls:
            return found
    return Samples("none")


def _candidates(operation: Public) -> Iterator[Samples]:
    if operation.kind == "layer":
        yield Samples("module_db", list(_of_module_db(operation)))
        yield Samples("guessed", [Sample(args, {}, made) for made, args in guessed_layer()])
        return
    infos = _infos(operation) if operation.kind != "property" else []
    for info in infos[:2]:
        declared = frozenset(str(one).removeprefix("torch.") for one in info.dtypesIfCUDA)
        yield Samples("op_db", _of_op_db(info), declared)
    for info in infos[:2]:
        declared = frozenset(str(one).removeprefix("torch.") for one in info.dtypesIfCUDA)
        yield Samples("op_db", _captured(operation, info), declared)
    if operation.kind == "property":
        yield Samples("guessed", [Sample((torch.randn(3, 3),), {})])
        yield Samples("guessed", [Sample((torch.randn(3, 3, dtype=torch.complex64),), {})])
    else:
        yield Samples("guessed", [Sample(args, {}) for args in guessed(operation)])


def _runs(operation: Public, sample: Sample) -> bool:
    torch.default_generator.manual_seed(0)
    own = cloned((sample.args, sample.kwargs))
    if operation.kind in ("method", "property") and not (own[0] and isinstance(own[0][0], torch.Tensor)):
        return False
    try:
        function = operation.call
        if sample.made is not None:
            made = cloned(sample.made)
            function = function(*made[0], **made[1]).eval()
        function(*own[0], **own[1])
    except Exception:
        return False
    return True


# -- torch's own ---------------------------------------------------------------------------------------------


@cache
def _by_object() -> dict[int, list[Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    found = defaultdict(list)
    for info in op_db:
        for one in (info, *info.aliases):
            for variant in (one.op, one.method_variant, one.inplace_variant):
                if variant is not None:
                    found[id(variant)].append(info)
    return found


@cache
def _by_name() -> dict[str, list[Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    found = defaultdict(list)
    for info in op_db:
        for name in (info.name, *(alias.name for alias in info.aliases)):
            found[name.rpartition(".")[2]].append(info)
            found[name.replace(".", "_")].append(info)
    return found


def _infos(operation: Public) -> list[Any]:
    by_object = _by_object().get(id(operation.call))
    if by_object:
        return by_object
    spellings = (_BITWISE.get(operation.bare, operation.bare), operation.bare.rstrip("_"), "special_" + operation.bare)
    return [info for name in dict.fromkeys(spellings) for info in _by_name().get(name, [])]


def _of_op_db(info: Any) -> list[Sample]:
    for dtype in _DTYPES:
        if dtype not in info.dtypes:
            continue
        torch.default_generator.manual_seed(0)
        try:
            given = list(itertools.islice(info.sample_inputs("cpu", dtype), 80))
        except Exception:
            continue
        found = [Sample((one.input, *one.args), dict(one.kwargs)) for one in given]
        chosen = _chosen([one for one in found if _is_plain(one)] or found)
        if chosen:
            return chosen
    return []


def _captured(operation: Public, info: Any) -> list[Sample]:
    """What reaches the operation where torch's tests call it through a function that exchanges its arguments."""
    captured = _Capture(operation.call)
    for sample in _of_op_db(info):
        with contextlib.suppress(Exception), captured:
            info.op(*cloned(sample.args), **cloned(sample.kwargs))
    return captured.calls


class _Capture(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.calls: list[Sample] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function == self.function:
            self.calls.append(Sample(tuple(cloned(args)), cloned(kwargs or {})))
        return function(*args, **(kwargs or {}))


def _is_plain(sample: Sample) -> bool:
    """True for small dense tensors, and for no argument that names a dtype."""
    if any(name in sample.kwargs for name in _CASTING) or any(isinstance(one, torch.dtype) for one in sample.args):
        return False
    given = tensors((sample.args, sample.kwargs))
    return all(0 < one.numel() < _LARGEST and one.layout is torch.strided for one in given)


def _chosen(found: list[Sample]) -> list[Sample]:
    """One for each way to call it, those with several tensors of several elements first."""

    def order(sample: Sample) -> tuple[bool, int, bool]:
        given = tensors((sample.args, sample.kwargs))
        first = given[0] if given else torch.zeros(())
        return first.numel() < 4, -min(2, len(given)), first.ndim < 2

    dimensional = [one for one in found if all(part.ndim for part in tensors((one.args, one.kwargs)))]
    ordered = sorted(dimensional or found, key=order)
    ways: dict[object, Sample] = {}
    for sample in ordered:
        way = (tuple(sorted(sample.kwargs)), tuple(type(one).__name__ for one in sample.args))
        ways.setdefault(way, sample)
    return list({id(one): one for one in (*list(ways.values())[:_MOST], *ordered[:10])}.values())


def _of_module_db(operation: Public) -> Iterator[Sample]:
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        if info.module_cls is not operation.call:
            continue
        try:
            inputs = info.module_inputs_func(info, "cpu", torch.float32, False, training=False)
            for one in itertools.islice(inputs, 6):
                made, given = one.constructor_input, one.forward_input
                if given is not None:
                    yield Sample(tuple(given.args), dict(given.kwargs), (tuple(made.args), dict(made.kwargs)))
        except Exception:
            continue
