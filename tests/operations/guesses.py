"""Arguments for operations without sample inputs: from the operator's schema, else from the signature."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.overrides import get_testing_overrides

from tests.operations.public import Public

_MOST = 160
_SHAPES = [(3, 3), (3,), (2, 3, 3), (1, 2, 4, 4), (1, 2, 4), (1, 2, 4, 4, 4), (2, 2, 2)]
_TENSORS = frozenset(
    "input other self src source weight target tensor mat1 mat2 batch1 batch2 vec vec1 vec2 x y a b A B x1 x2 query "
    "key".split()
)
_INDICES = ("index", "indices")
_MASKS = ("mask", "condition")
_LISTS = ("tensors", "operands")
_VALUES: dict[str, Any] = {
    "dim": 0, "dims": [0], "dim0": 0, "dim1": 1, "axis": 0, "axes": [0], "size": [3, 3], "shape": [3, 3], "n": 1,
    "k": 1, "kernel_size": 2, "p": 1, "output_size": 2, "repeats": [2], "sizes": [3, 3], "dims_self": [0], "start": 0,
    "end": 4, "length": 1, "step": 1, "chunks": 2, "sections": 1, "split_size": 1, "split_size_or_sections": 1,
    "num_classes": 5, "value": 0.5, "num_groups": 1, "normalized_shape": [3], "eps": 1e-5, "num_samples": 1,
    "dtype": torch.float32, "device": "cpu", "upscale_factor": 2, "downscale_factor": 2, "groups": 1, "pad": [1, 1],
    "exponent": 2, "training": False, "equation": "ij,jk->ik", "N": 3, "decimals": 0, "bins": 4, "min": 0.1, "max": 0.9,
}  # fmt: skip
_CONSTRUCTORS: list[tuple[Any, ...]] = [
    (), (2,), (2, 2), (2, 2, 1), (1, 2), (0.1,), (2, 2, 2), (4, [1, 2]), (2, 1)
]  # fmt: skip


def guessed(operation: Public) -> list[tuple[Any, ...]]:
    """Arguments to try."""
    signatures = list(_signatures(operation))
    if operation.kind == "method" and not signatures:
        return [
            (torch.randn(shape), *more)
            for shape in _SHAPES[:3]
            for more in ((), (torch.randn(shape),), (0,), (1, 0), (torch.zeros(shape, dtype=torch.long),))
        ]
    choices = itertools.product(signatures, _SHAPES, (False, True))
    return [
        tuple(_argument(name, kind, shape, is_bare) for name, kind in signature)
        for signature, shape, is_bare in itertools.islice(choices, _MOST)
    ]


def guessed_layer() -> Iterator[tuple[Any, tuple[torch.Tensor, ...]]]:
    """Arguments of the class, and inputs."""
    for made, shape, count in itertools.product(_CONSTRUCTORS, [*_SHAPES, (2,), (2, 4), (4, 2)], (1, 2, 3)):
        yield (made, {}), tuple(torch.randn(shape) for _ in range(count))


def _signatures(operation: Public) -> Iterator[list[tuple[str, str]]]:
    bare = operation.bare
    for name in dict.fromkeys((bare, "special_" + bare, "linalg_" + bare, "fft_" + bare)):
        for schema in torch._C._jit_get_schemas_for_operator("aten::" + name):
            if not any(one.kwarg_only and one.name == "out" for one in schema.arguments):
                yield [(one.name, str(one.type)) for one in schema.arguments if not one.has_default_value()]
    try:
        parameters = inspect.signature(_overrides().get(operation.call, operation.call)).parameters.values()
    except (ValueError, TypeError):
        return
    yield [(one.name, "") for one in parameters if one.default is one.empty and one.kind in (0, 1)]


@cache
def _overrides() -> dict[Any, Any]:
    return dict(get_testing_overrides())


def _argument(name: str, kind: str, shape: tuple[int, ...], is_bare: bool) -> Any:
    if kind == "Optional[Tensor]" and is_bare:
        return None
    if kind in ("Tensor", "Optional[Tensor]") or (not kind and name in (*_TENSORS, *_INDICES, *_MASKS)):
        return _tensor(name, shape)
    if kind.startswith("List[Tensor]") or (not kind and name in _LISTS):
        return [torch.randn(shape), torch.randn(shape)]
    value = _VALUES.get(name, 1)
    if kind.startswith("List[int]"):
        return value if isinstance(value, list) else [value]
    if kind == "bool":
        return False
    if kind == "float":
        return 0.5
    if kind == "int":
        return value if isinstance(value, int) else 1
    return 1 if kind == "number" else value


def _tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name in _INDICES:
        return torch.zeros(shape, dtype=torch.long)
    return torch.randn(shape) > 0 if name in _MASKS else torch.randn(shape)
