"""What is asked about the code of other modules; who reads the disk answers.

What their functions and classes do is asked of `files/`: `uses_gradients("/project/logs.log_norms")`.

Modules on disk have resolved names: the path of the file without `.py`, or that of the package's folder, and after it
the names in it, as in `/project/pkg/utils.log_norms`. Installed packages keep their dotted names.
"""

from __future__ import annotations

from pathlib import PurePath


def shown(resolved: str) -> str:
    """A resolved name for people: without the folders above the module."""
    return PurePath(resolved).name


class Elsewhere:
    """Modules, functions and classes that the files of a unit import. What is answered here holds where none of them is
    known.
    """

    is_set_up = False  # other files of the unit are known to set mixed precision up for these

    @property
    def makes_by_settings(self) -> bool:
        """True where some file of the project makes objects of classes that a file of settings names."""
        return False

    @property
    def imports_by_name(self) -> bool:
        """True where some file of the project that speaks of a GPU imports modules by names of run time."""
        return False

    def resolved(self, importer: str, dotted: str) -> str:
        """The resolved name of what the file `importer` imports as `dotted` (`.utils.log_norms`)."""
        return dotted

    def member(self, base: str, name: str) -> str:
        """The resolved name of an attribute of something resolved: a submodule, or what is in a module."""
        return f"{base}.{name}"

    def source_of(self, resolved: str) -> bytes | None:
        """The file that defines it, None where it is not found."""
        return None

    def may_make_modules(self, resolved: str) -> bool:
        """True for a local module as a whole, and for what is a network or a loss in it, or may make one."""
        return False

    def package_behind(self, module: str, name: str) -> str | None:
        """The dotted name in another package (`torch.nn`) that `from module import *` gives `name`, None for others."""
        return None

    def leave_parameters_out(self, resolved: str, called: frozenset[str]) -> bool:
        """True where the model that it makes leaves parameters without a gradient in some iterations, given the names
        of the methods that are called on the model once it is made.
        """
        return False

    def package(self, importer: str, dotted: str) -> str:
        """The resolved name of a package from which the file `importer` imports modules by names of run time."""
        return dotted

    def modules_in(self, package: str) -> list[str]:
        """The full names of the modules in a local package, or in a folder without an `__init__.py`."""
        return []

    def importable(self, importer: str) -> list[str]:
        """The full names of the modules that the file `importer` can import by a name without dots."""
        return []

    def decorated(self, decorator: str) -> list[str]:
        """The full names of the local classes and functions that a function or method of that full name decorates."""
        return []

    def is_there(self, resolved: str) -> bool:
        """True for a local module, and for what one of them defines."""
        return False

    def is_bool(self, resolved: str) -> bool:
        """True for a variable of a module that its own code sets to nothing but True and False."""
        return False

    def may_use_scaler(self, resolved: str, attribute: str) -> bool:
        """False where the module of `resolved` is at hand, and no file out of the unit uses a scaler of that name."""
        return True

    def use_function(self, path: str, name: str) -> bool:
        """True where other files refer to a function, or to the class of a method, of one of the unit's files."""
        return False

    def may_be_handed(self, path: str, name: str) -> bool:
        """True where other files use a method or an attribute of that name, and may do so of an instance of its class
        that they are handed.
        """
        return False

    def declared_torch(self, path: str) -> tuple[int, int] | None:
        """The oldest torch that a file's project declares, (0, 0) without a lower bound; None if it says nothing."""
        return None
