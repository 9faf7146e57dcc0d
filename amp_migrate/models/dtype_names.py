"""The names of dtypes: of torch.dtype, of tensor types, of NumPy, and of these as text."""

from __future__ import annotations

from amp_migrate.models.dtypes import Dtype

_NAMES = {
    Dtype.HALF: "half float16 bfloat16 HalfTensor BFloat16Tensor",
    Dtype.SINGLE: "float float32 FloatTensor",
    Dtype.DOUBLE: "double float64 DoubleTensor",
    Dtype.INTEGER: "long int short int8 int16 int32 int64 uint8 uint16 uint32 uint64 LongTensor IntTensor ShortTensor "
    "ByteTensor CharTensor",
    Dtype.BOOLEAN: "bool BoolTensor",
    Dtype.COMPLEX: "cfloat cdouble chalf complex32 complex64 complex128",
}
_BY_NAME = {name: dtype for dtype, names in _NAMES.items() for name in names.split()}


def dtype_named(name: str) -> Dtype | None:
    """SINGLE for `torch.float32`, `torch.cuda.FloatTensor`; None for what is no dtype, such as a device."""
    space, _, last = name.rpartition(".")
    return _BY_NAME.get(last) if space in ("torch", "torch.cuda") else None


def dtype_of_array(name: str) -> Dtype | None:
    """SINGLE for `numpy.float32` and for the text "float32"; Python's `float` is DOUBLE, as for NumPy."""
    space, _, last = name.rpartition(".")
    if space not in ("", "numpy"):
        return None
    return Dtype.DOUBLE if last in ("float", "float_") else _BY_NAME.get("float" if last == "single" else last)
