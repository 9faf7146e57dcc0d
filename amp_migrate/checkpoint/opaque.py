"""Values of other packages in a checkpoint, taken along as they are: their packages are not needed, no code is run.

    {"model": ..., "args": argparse.Namespace(lr=0.1), "best": numpy.float64(0.9)}

Each is read as an `Opaque` of the same name, which keeps what it was made of, and is written back under that name.
"""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any


class Opaque:
    """A value of a class that is not looked into, or what a function makes: by its arguments and its state."""

    _args: tuple[Any, ...]
    _states: list[Any]

    def __new__(cls, *args: Any) -> Opaque:
        made = super().__new__(cls)
        made._args = args
        made._states = []
        return made

    def __setstate__(self, state: Any) -> None:
        self._states = [state]

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._args, *self._states)


def stand_in(module: str, name: str, base: type) -> type:
    """A class that the unpickler takes for another one: it compares the names."""
    return type(name, (base,), {"__module__": module, "__qualname__": name})


# Plain data by other names; numpy's functions make numbers and arrays, under the names of numpy 1 and 2.
OPAQUE = [
    stand_in(module, name, Opaque)
    for module, name in (
        ("argparse", "Namespace"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
        *((f"pathlib{inner}", name) for inner in ("", "._local") for name in ("PosixPath", "WindowsPath")),
    )
]


class _Pickler(pickle._Pickler):
    """Writes the names of what is opaque without asking for the real ones, which may not be there."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if isinstance(obj, type) and issubclass(obj, Opaque):
            self.write(pickle.GLOBAL + f"{obj.__module__}\n{obj.__qualname__}\n".encode())  # type: ignore[attr-defined]
            self.memoize(obj)  # type: ignore[attr-defined]
        else:
            super().save_global(obj, name)  # type: ignore[misc]


def _dump(obj: Any, file: Any, protocol: int | None = None) -> None:
    _Pickler(file, protocol).dump(obj)


# For `torch.save`.
PICKLE = SimpleNamespace(__name__="pickle", Pickler=_Pickler, dump=_dump)
