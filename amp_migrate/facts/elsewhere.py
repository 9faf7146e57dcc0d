"""What is asked about the code of other modules; who reads the disk answers.

Modules on disk have resolved names: the path of the file without `.py`, or that of the package's folder, and after it
the names in it, as in `/project/pkg/utils.log_norms`. Installed packages keep their dotted names.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Protocol


def shown(resolved: str) -> str:
    """A resolved name for people: without the folders above the module."""
    return PurePath(resolved).name


class Elsewhere(Protocol):
    """Modules, functions and classes that the files of a unit import."""

    @property
    def is_set_up(self) -> bool:
        """True where other files of the unit are known to set mixed precision up for these."""
        ...

    @property
    def makes_by_settings(self) -> bool:
        """True where some file of the project makes objects of classes that a file of settings names."""
        ...

    @property
    def imports_by_name(self) -> bool:
        """True where some file of the project that speaks of a GPU imports modules by names of run time."""
        ...

    def resolved(self, importer: str, dotted: str) -> str:
        """The resolved name of what the file `importer` imports as `dotted` (`.utils.log_norms`)."""
        ...

    def member(self, base: str, name: str) -> str:
        """The resolved name of an attribute of something resolved: a submodule, or what is in a module."""
        ...

    def source_of(self, resolved: str) -> bytes | None:
        """The file that defines it, None where it is not found."""
        ...

    def may_make_modules(self, resolved: str) -> bool:
        """True for a local module as a whole, and for what is a network or a loss in it, or may make one."""
        ...

    def package_behind(self, module: str, name: str) -> str | None:
        """The dotted name in another package (`torch.nn`) that `from module import *` gives `name`, None for others."""
        ...

    def use_gradients(self, resolved: str) -> bool:
        """True where it certainly reads gradients that somebody else computed."""
        ...

    def train(self, resolved: str) -> bool:
        """True where it certainly makes a backward or an optimizer step, itself or in what it calls."""
        ...

    def spare_gradients(self, resolved: str) -> bool:
        """True where it certainly does not look at gradients."""
        ...

    def average_gradients(self, resolved: str) -> bool:
        """True where it certainly averages gradients over processes, and does nothing else with them."""
        ...

    def compute_bce(self, resolved: str) -> bool:
        """True where it certainly computes a binary cross entropy outside of any autocast of its own."""
        ...

    def want_one_dtype(self, resolved: str) -> bool:
        """True where it certainly writes by index or in place, which raises for half beside float32."""
        ...

    def multiply_in_place(self, resolved: str) -> bool:
        """True where it certainly multiplies matrices in place, which raises for half beside float32."""
        ...

    def multiply(self, resolved: str, *, casts: bool) -> bool:
        """True where it certainly multiplies tensors, and `casts` something to float32 by hand."""
        ...

    def multiply_in_backward(self, resolved: str) -> bool:
        """True where it certainly multiplies matrices in the backward of an autograd function of its own."""
        ...

    def run_models(self, resolved: str) -> bool:
        """True where it certainly runs a model that it is given, for inference."""
        ...

    def only_read(self, resolved: str, position: int | str) -> bool:
        """True where it certainly neither runs nor keeps the argument at a position, or under a name."""
        ...

    def save_state(self, resolved: str, position: int | str) -> bool:
        """True where it certainly saves or loads the state of the argument at a position, or under a name."""
        ...

    def take_of(self, resolved: str, position: int | str) -> frozenset[str]:
        """The attributes and methods that it certainly takes of the argument at a position, or under a name."""
        ...

    def hand_back(self, resolved: str) -> bool:
        """True where it certainly returns its first argument, with no other parameters than before."""
        ...

    def freeze(self, resolved: str, position: int | str) -> bool:
        """True where it certainly stops gradients of the argument at a position, or under a name."""
        ...

    def leave_parameters_out(self, resolved: str, called: frozenset[str]) -> bool:
        """True where the model that it makes leaves parameters without a gradient in some iterations, given the names
        of the methods that are called on the model once it is made.
        """
        ...

    def package(self, importer: str, dotted: str) -> str:
        """The resolved name of a package from which the file `importer` imports modules by names of run time."""
        ...

    def modules_in(self, package: str) -> list[str]:
        """The full names of the modules in a local package, or in a folder without an `__init__.py`."""
        ...

    def importable(self, importer: str) -> list[str]:
        """The full names of the modules that the file `importer` can import by a name without dots."""
        ...

    def decorated(self, decorator: str) -> list[str]:
        """The full names of the local classes and functions that a function or method of that full name decorates."""
        ...

    def is_there(self, resolved: str) -> bool:
        """True for a local module, and for what one of them defines."""
        ...

    def inherited(self, resolved: str) -> list[str]:
        """The resolved names of the local classes that a class inherits from, and its own: where each is defined."""
        ...

    def is_bool(self, resolved: str) -> bool:
        """True for a variable of a module that its own code sets to nothing but True and False."""
        ...

    def may_use_scaler(self, resolved: str, attribute: str) -> bool:
        """False where the module of `resolved` is at hand, and no file out of the unit uses a scaler of that name."""
        ...

    def use_function(self, path: str, name: str) -> bool:
        """True where other files refer to a function, or to the class of a method, of one of the unit's files."""
        ...

    def declared_torch(self, path: str) -> tuple[int, int] | None:
        """The oldest torch that a file's project declares, (0, 0) without a lower bound; None if it says nothing."""
        ...


class Nowhere:
    """No other module is known."""

    is_set_up = False
    makes_by_settings = False
    imports_by_name = False

    def declared_torch(self, path: str) -> tuple[int, int] | None:
        return None

    def use_function(self, path: str, name: str) -> bool:
        return False

    def may_use_scaler(self, resolved: str, attribute: str) -> bool:
        return True

    def resolved(self, importer: str, dotted: str) -> str:
        return dotted

    def member(self, base: str, name: str) -> str:
        return f"{base}.{name}"

    def source_of(self, resolved: str) -> bytes | None:
        return None

    def may_make_modules(self, resolved: str) -> bool:
        return False

    def package_behind(self, module: str, name: str) -> str | None:
        return None

    def use_gradients(self, resolved: str) -> bool:
        return False

    def train(self, resolved: str) -> bool:
        return False

    def spare_gradients(self, resolved: str) -> bool:
        return False

    def average_gradients(self, resolved: str) -> bool:
        return False

    def compute_bce(self, resolved: str) -> bool:
        return False

    def want_one_dtype(self, resolved: str) -> bool:
        return False

    def multiply_in_place(self, resolved: str) -> bool:
        return False

    def multiply(self, resolved: str, *, casts: bool) -> bool:
        return False

    def multiply_in_backward(self, resolved: str) -> bool:
        return False

    def run_models(self, resolved: str) -> bool:
        return False

    def only_read(self, resolved: str, position: int | str) -> bool:
        return False

    def save_state(self, resolved: str, position: int | str) -> bool:
        return False

    def take_of(self, resolved: str, position: int | str) -> frozenset[str]:
        return frozenset()

    def hand_back(self, resolved: str) -> bool:
        return False

    def freeze(self, resolved: str, position: int | str) -> bool:
        return False

    def leave_parameters_out(self, resolved: str, called: frozenset[str]) -> bool:
        return False

    def package(self, importer: str, dotted: str) -> str:
        return dotted

    def modules_in(self, package: str) -> list[str]:
        return []

    def importable(self, importer: str) -> list[str]:
        return []

    def decorated(self, decorator: str) -> list[str]:
        return []

    def is_there(self, resolved: str) -> bool:
        return False

    def inherited(self, resolved: str) -> list[str]:
        return []

    def is_bool(self, resolved: str) -> bool:
        return False
