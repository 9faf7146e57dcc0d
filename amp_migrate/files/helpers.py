"""What the project's other modules do with what a script hands them, where they can be found on disk.

`update_logs(model)` between backward and step does not say by its name whether it looks at gradients, nor does
`criterion = DiceLoss()` that it computes a binary cross entropy. Their bodies do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.averaging import only_averages
from amp_migrate.files.binary_cross_entropy import computes_bce
from amp_migrate.files.booleans import holds_bool
from amp_migrate.files.contents import definitions_in, forget_contents, imported_names
from amp_migrate.files.decorations import decorations
from amp_migrate.files.definitions import called_from, definitions, file_of, leads_to, lineage, named_in
from amp_migrate.files.freezes import freezes_given
from amp_migrate.files.gradients import reads_gradients, speaks_of_gradients, trains
from amp_migrate.files.handed_back import hands_back_its_first
from amp_migrate.files.imports import canonical, importable, member, module_name, modules_in, package_of_names, split
from amp_migrate.files.inference import runs_what_it_is_given
from amp_migrate.files.left_out import leaves_parameters_out
from amp_migrate.files.one_dtype import casts_to_float32, multiplies, multiplies_in_place, wants_one_dtype
from amp_migrate.files.only_reading import only_reads
from amp_migrate.files.own_backward import multiplies_in_backward
from amp_migrate.files.read import read_if_there
from amp_migrate.files.saving import saves_given, taken_of_given
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
        is_set_up: bool = False,
    ) -> None:
        self.is_set_up = is_set_up
        self._use_function = use_function or super().use_function
        self._declared_torch = declared_torch or super().declared_torch
        self._holding = holding or (lambda words: [])

    def use_function(self, path: str, name: str) -> bool:
        return self._use_function(path, name)

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

    def use_gradients(self, resolved: str) -> bool:
        """True where the function is found and reads gradients, itself or in a function that it calls.

        A function that also makes a backward or a step of its own on the way is a training step, not a use.
        """
        called = called_from(resolved)
        return any(reads_gradients(*one) for one in called) and not any(trains(*one) for one in called)

    def train(self, resolved: str) -> bool:
        """True where the function is found and makes a backward or a step, itself or in a function that it calls."""
        return any(trains(*one) for one in called_from(resolved))

    def spare_gradients(self, resolved: str) -> bool:
        """True where the function is found, and neither it nor what it names says a word of gradients, and no function
        that it calls reads them.
        """
        found = [definition for _, definition in definitions(resolved, and_what_they_name=True)]
        speaks = any(speaks_of_gradients(definition) for definition in found)
        return bool(found) and not speaks and not self.use_gradients(resolved)

    def average_gradients(self, resolved: str) -> bool:
        """True where the function is found, and averages gradients over processes and does nothing else with them."""
        found = list(definitions(resolved))
        return bool(found) and all(only_averages(one, definitions_in(file)) for file, one in found)

    def compute_bce(self, resolved: str) -> bool:
        """True where the function or class is found and computes a binary cross entropy, itself or by another
        one that it names, outside of any autocast of its own.
        """
        return any(computes_bce(*found) for found in definitions(resolved, and_what_they_name=True))

    def want_one_dtype(self, resolved: str) -> bool:
        """True where the function or class is found, and it, or another one that it names, writes by index or in
        place.
        """
        return any(wants_one_dtype(definition) for _, definition in definitions(resolved, and_what_they_name=True))

    def multiply_in_place(self, resolved: str) -> bool:
        """True where the function or class is found, and it, or another one that it names, multiplies in place."""
        named = definitions(resolved, and_what_they_name=True)
        return any(multiplies_in_place(definition) for _, definition in named)

    def multiply(self, resolved: str, *, casts: bool) -> bool:
        """True where the function or class is found, and it, or another one that it names, multiplies tensors; and
        `casts` something to float32.
        """
        named = [definition for _, definition in definitions(resolved, and_what_they_name=True)]
        return any(map(multiplies, named)) and (not casts or any(map(casts_to_float32, named)))

    def multiply_in_backward(self, resolved: str) -> bool:
        """True where the function or class is found, and it, or another one that it names, is an autograd function with
        a product in its backward.
        """
        named = definitions(resolved, and_what_they_name=True)
        return any(multiplies_in_backward(definition) for _, definition in named)

    def run_models(self, resolved: str) -> bool:
        """True where the function is found and runs a model that it is given, itself or in a function that it calls."""
        return any(runs_what_it_is_given(definition) for _, definition in called_from(resolved))

    def only_read(self, resolved: str, position: int | str) -> bool:
        """True where the function is found, and neither runs nor keeps the argument at a position, or under a name."""
        return only_reads(resolved, position)

    def save_state(self, resolved: str, position: int | str) -> bool:
        """True where the function or class is found, and saves or loads the state of the argument at a position, or
        under a name.
        """
        return any(saves_given(definition, position) for _, definition in definitions(resolved))

    def take_of(self, resolved: str, position: int | str) -> frozenset[str]:
        """What the function or class, where it is found, takes of the argument at a position, or under a name."""
        return frozenset(one for _, found in definitions(resolved) for one in taken_of_given(found, position))

    def hand_back(self, resolved: str) -> bool:
        """True where the function is found, and always returns its first argument without new layers."""
        found = [definition for _, definition in definitions(resolved)]
        return bool(found) and all(map(hands_back_its_first, found))

    def freeze(self, resolved: str, position: int | str) -> bool:
        """True where the function is found, and stops gradients of the argument at a position, or under a name."""
        return any(freezes_given(definition, position) for _, definition in definitions(resolved))

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

    def inherited(self, resolved: str) -> list[str]:
        return [f"{module_name(file)}.{definition.name}" for file, definition in lineage(resolved)]

    def is_bool(self, resolved: str) -> bool:
        """True for a variable of a module (`MIXED_PRECISION = True`) that its file gives nothing but True and False."""
        place = split(resolved)
        return place is not None and holds_bool(*place)


def forget_parsed(most: int) -> None:
    """Frees the syntax trees that are kept of files, where they are more than so many."""
    for answers in (called_from, named_in, computes_bce) if forget_contents(most) else ():
        answers.cache_clear()  # these hold trees, too
