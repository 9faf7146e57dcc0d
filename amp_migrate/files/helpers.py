"""What is known of the project's other modules, where they can be found on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.binary_cross_entropy import computes
from amp_migrate.files.contents import forget_contents, imported_names
from amp_migrate.files.definitions import called_from, decorations, file_of, holds_bool, leads_to, named_in
from amp_migrate.files.imports import canonical, importable, member, module_name, modules_in, package_of_names, split
from amp_migrate.files.left_out import leaves_parameters_out
from amp_migrate.files.read import read_if_there
from amp_migrate.files.star_imports import handed_on
from amp_migrate.vocabulary import IMPORTERS

_BY_SETTINGS = re.compile(rb"\bhydra\b.*\b(?:instantiate|call)\b")
_FORWARD = b"def forward"
_BY_NAME = re.compile(
    rb"""\b(?:%s)\(\s*(?![a-zA-Z]?["'][.\w]*["']\s*[,)])""" % "|".join(sorted(IMPORTERS)).encode()
)  # of a name that is put together


class Helpers(Elsewhere):
    """What scripts import: functions, classes, methods and variables by resolved name (`/project/utils.log_norms`).

    `use_function` tells, for the path of a file and the name of a function in it, whether other files refer to it,
    `declared_torch`, for the path of a file, the oldest torch of its project, `holding` the files whose bytes match.
    `is_set_up` says that mixed precision is set up by other files of the unit.
    """

    def __init__(
        self,
        use_function: Callable[[str, str], bool] | None = None,
        declared_torch: Callable[[str], tuple[int, int] | None] | None = None,
        holding: Callable[[re.Pattern[bytes]], list[Path]] | None = None,
        *,
        may_be_handed: Callable[[str, str], bool] | None = None,
        is_set_up: bool = False,
    ) -> None:
        self.is_set_up = is_set_up
        self._use_function = use_function or super().use_function
        self._may_be_handed = may_be_handed or super().may_be_handed
        self._declared_torch = declared_torch or super().declared_torch
        self._holding = holding or (lambda words: [])

    def use_function(self, path: str, name: str) -> bool:
        return self._use_function(path, name)

    def may_be_handed(self, path: str, name: str) -> bool:
        return self._may_be_handed(path, name)

    def declared_torch(self, path: str) -> tuple[int, int] | None:
        return self._declared_torch(path)

    @cached_property
    def makes_by_settings(self) -> bool:
        return bool(self._holding(_BY_SETTINGS))

    @cached_property
    def imports_by_name(self) -> bool:
        return any(b"cuda" in (read_if_there(file) or b"") for file in self._holding(_BY_NAME))

    def resolved(self, importer: str, dotted: str) -> str:
        return canonical(Path(importer), dotted)

    def member(self, base: str, name: str) -> str:
        return member(base, name)

    def source_of(self, resolved: str) -> bytes | None:
        """The file that defines the function, class or variable, None where it is not found."""
        file = file_of(resolved)
        return read_if_there(file) if file is not None else None

    def may_make_modules(self, resolved: str) -> bool:
        """True for a module as a whole, and for what stands in a file with a forward, or may call what does."""
        place, source = split(resolved), self.source_of(resolved)
        if place is None or source is None:
            return place is not None and not place[1]
        files = {file for file, _ in called_from(resolved)}
        named = (split(name) for file in files for name in imported_names(file).values())
        behind = {one[0] for one in named if one is not None} | files
        return _FORWARD in source or any(_FORWARD in (read_if_there(one) or b"") for one in behind)

    def package_behind(self, module: str, name: str) -> str | None:
        """What a star import of a module hands on of a package that it imports itself: its `torch`, its `nn`."""
        place = split(module)
        path = handed_on(place[0], name) if place is not None and not place[1] else None
        return path if path is not None and split(path) is None else None

    def leave_parameters_out(self, resolved: str, called: frozenset[str]) -> bool:
        """True where a class of the model that is made by that name leaves parameters of its own without a gradient."""
        return leaves_parameters_out(resolved, called, self._holding)

    def package(self, importer: str, dotted: str) -> str:
        return package_of_names(Path(importer), dotted)

    def modules_in(self, package: str) -> list[str]:
        return modules_in(package)

    def importable(self, importer: str) -> list[str]:
        return importable(Path(importer))

    def decorated(self, decorator: str) -> list[str]:
        """The full names of the classes and functions that a function, or a method, decorates."""
        place = split(decorator)
        found = decorations(decorator.rpartition(".")[2].encode(), self._holding) if place is not None else ()
        return [
            f"{module_name(file)}.{name}"
            for file, dotted, name in found
            if place is not None and leads_to(file, dotted, place[0])
        ]

    def is_there(self, resolved: str) -> bool:
        place = split(resolved)
        return place is not None and (not place[1] or self.source_of(resolved) is not None)

    def is_bool(self, resolved: str) -> bool:
        """True for a variable of a module (`MIXED_PRECISION = True`) that its file gives nothing but True and False."""
        place = split(resolved)
        return place is not None and holds_bool(*place)


def forget_parsed(most: int) -> None:
    """Frees the syntax trees that are kept of files, where they are more than so many."""
    for answers in (called_from, named_in, computes) if forget_contents(most) else ():
        answers.cache_clear()  # these hold trees, too
