"""Which files belong together: the units of a project."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from amp_migrate.files.imports import module_name
from amp_migrate.files.lent import text_with
from amp_migrate.units.context import evaluations, options
from amp_migrate.units.definition import Definition
from amp_migrate.units.inheritance import Inheritance
from amp_migrate.units.links import Link, find_links
from amp_migrate.units.nearby import Nearby
from amp_migrate.units.reach import Reach
from amp_migrate.units.receivers import receivers
from amp_migrate.units.sources import Node, Sources, node_of
from amp_migrate.units.summary import MODULE
from amp_migrate.units.tie import APEX_AMP, Tie
from amp_migrate.units.universe import universe_of

__all__ = ["Index", "Unit", "universe_of"]

# Methods that are called without their name.
_UNNAMED = re.compile(r"__\w+__|forward")


@dataclasses.dataclass(frozen=True)
class Unit:
    """Files, resolved and in path order, that are migrated together or not at all; `reasons` says for each why."""

    files: tuple[Path, ...]
    reasons: Mapping[Path, str]

    def joined(self, *others: Unit) -> Unit:
        """One unit of this and others."""
        return self.extended({file: reason for other in others for file, reason in other.reasons.items()})

    def extended(self, files: Mapping[Path, str]) -> Unit:
        """This unit with other files, and why they are in it."""
        reasons = dict(sorted({**files, **self.reasons}.items()))
        return Unit(tuple(reasons), reasons)


class Index:
    """The units of a universe of files; `contents` has those that were read already, by their resolved paths.

    Nothing else is read, and nothing parsed, before it is asked for. `shown` writes a path in the reasons; without it,
    they are relative to the folder that holds all files.
    """

    def __init__(
        self,
        universe: Iterable[Path],
        contents: Mapping[Path, bytes] | None = None,
        shown: Callable[[Path], str] | None = None,
        tie: Tie = APEX_AMP,
    ) -> None:
        self._sources = Sources(universe, contents or {}, tie)
        self._reach = Reach(self._sources)
        self._concern = Nearby(self._sources) if tie.common else self._reach
        self._inheritance = Inheritance(self._sources, self._concern)
        self._shown = shown or self._below_root

    def holding(self, words: re.Pattern[bytes]) -> list[Path]:
        """The files of the universe whose bytes match."""
        return self._sources.holding(words)

    def name_of(self, file: Path) -> str:
        """The canonical name of the module in a file."""
        return module_name(file)

    def source(self, file: Path) -> bytes:
        """The content of a file of the universe."""
        return self._sources.source(file)

    def touches(self, file: Path) -> set[str]:
        """The definitions of a file that use a handle directly, and the names that it imports one by."""
        return {node.name for node in self._reach.touching if node.file == file.resolve()}

    def unit_of(self, seed: Path) -> Unit:
        """The smallest set of files that can be migrated: what is linked to `seed` by the handle."""
        file = seed.resolve()
        if self._sources.tie.common:
            return Unit((file,), {file: "trains"})
        return self._closed({file: f"uses {self._reach.tie.title}" if file in self._reach.files else "imports apex"})

    def grown(self, unit: Unit, *, with_makers: bool = False) -> Unit | None:
        """The next larger unit: with the callers of what comes to a handle, what else they use of that kind, base and
        derived classes, what a table holds beside it, and helpers that do a part of the training; `with_makers` also
        those that return a handle.
        None where nothing is left to add.
        """
        reasons = dict(unit.reasons)
        helpers = self._helpers(unit, with_makers=with_makers)
        used = (*self._callers(unit), *self._used(unit), *helpers, *self._in_tables(unit))
        for file, reason in (*used, *self.relatives(unit).items()):
            reasons.setdefault(file, reason)
        if len(reasons) == len(unit.reasons):
            return None
        return Unit((), {}).extended(reasons) if self._sources.tie.common else self._closed(reasons)

    def users(self, unit: Unit, *, of_training: bool = False) -> dict[Path, str]:
        """Files outside that use something of the unit, whatever it is, or what trains in it alone."""
        users = {} if of_training else self.users_of_apex(unit)
        for node in self._definitions(unit.files):
            definition = self._sources.definition(node)
            if of_training and (definition is None or not definition.trains):
                continue
            users |= self.users_of(node.name, node.file, unit)
        return users

    def users_of_apex(self, unit: Unit) -> dict[Path, str]:
        """Files outside that have names of Apex from those of the unit."""
        users: dict[Path, str] = {}
        for node in self._handed_on(unit.files):
            users |= self.users_of(node.name, node.file, unit)
        return users

    def relatives(self, unit: Unit) -> dict[Path, str]:
        """Files outside with classes that decide, too, what the classes of the unit do that touch or reach a handle:
        they inherit from them, and can override a method; or are their bases, and can use a name for something else.
        """
        found: dict[Path, str] = {}
        for node, other, is_derived in self._inheritance.relatives(unit.files):
            how = "inherits from" if is_derived else "is a base class of"
            if node.file not in unit.files:
                found.setdefault(node.file, f"its {node.name} {how} {other.name} of {self._shown(other.file)}")
        return found

    def with_context(self, unit: Unit, *, and_options: bool) -> Unit | None:
        """This unit with the evaluation code that nobody else uses, and with the declarations of its options: in files
        that it uses, or in its callers. None where there is nothing to add.
        """
        reasons: dict[Path, str] = {}
        for node in evaluations(self._sources, self._definitions(unit.files)):
            if node.file not in unit.files and not self.users_of(node.name, node.file, unit):
                reasons.setdefault(node.file, f"its {node.name} runs the model without gradients")
        declaring = self._declaring(unit.files) if and_options else {}
        for caller, reason in self._callers(unit) if and_options and not declaring else ():
            declared = self._declaring([caller])
            declaring |= {caller: reason, **declared} if declared else {}
        larger = unit.extended({**declaring, **reasons})
        return larger if len(larger.files) > len(unit.files) else None

    def holding_names(self, names: Iterable[str]) -> dict[Path, str]:
        """The files that define some local names, given by their canonical form, and those on the way, with why."""
        nodes = [node for name in sorted(names) if (node := node_of(name)) is not None]
        found = {node.file: f"passes {node.name} on" if node.name else "is used as a whole" for node in nodes}
        found |= {node.file: f"passes {node.name} on" for node in self._sources.passing(nodes)}
        behind = [one for node in nodes for one in self._behind(node)]
        return {one.file: f"its {one.name or 'code'} is a part of what is trained" for one in behind} | found

    def used_with(
        self, unit: Unit, words: re.Pattern[bytes], *, anywhere: bool = False, by_helpers: bool = False
    ) -> Unit:
        """This unit with the files that hold some words in what it uses of them, directly or through others, and with
        those that pass their names on. With `anywhere` the words may stand in the rest of such a file as well;
        `by_helpers` also with those that have functions of others cast for them.
        """
        reasons: dict[Path, str] = {}
        waiting = self._definitions(unit.files)
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            origins = set(self._sources.origins(self._sources.referred(node)))
            for used in sorted(origins) if by_helpers else ():
                definition = self._sources.definition(used)
                if definition is not None and definition.casts:
                    reasons.setdefault(node.file, f"its {node.name} casts by {used.name} of {self._shown(used.file)}")
            for used in sorted(origins - seen):
                seen.add(used)
                waiting.append(used)
                if self._holds(used, words, anywhere=anywhere):
                    reasons.setdefault(used.file, f"its {used.name} is used by {self._shown(node.file)}")
                    for file in self._between(node, used):
                        reasons.setdefault(file, f"passes {used.name} on")
        return unit.extended(reasons)

    def _holds(self, node: Node, words: re.Pattern[bytes], *, anywhere: bool) -> bool:
        """True where some words stand in what comes with a name of a file."""
        source = self.source(node.file)
        found = words.search(source) is not None
        return found and (anywhere or words.search(text_with(source, node.name)) is not None)

    def _behind(self, node: Node) -> Iterator[Node]:
        """The definitions behind a name, or behind all names of a module that is a value (`models.__dict__[arch]`)."""
        if node.name:
            yield from self._sources.origins([node])
            return
        summary = self._sources.summary(node.file)
        yield from self._sources.origins(Node(node.file, name) for name in summary.exports)
        yield from (star for name in summary.stars if (star := node_of(name)) is not None)

    def programs(self, unit: Unit, given: Iterable[tuple[Path, str]] = ()) -> dict[Path, tuple[Path, ...]]:
        """The scripts of a unit: each file that no other uses, with all that it uses, directly or through others.

        A file with amp of its own is used where its training is, not where a script borrows a function that has
        nothing to do with it; base classes and the functions in `given` do have to do with it. Files that use each
        other, and that no others do, are one program; the first counts as its script.
        """
        if len(unit.files) == 1:
            return {unit.files[0]: unit.files}
        nodes = {Node(file.resolve(), name.partition(".")[0]) for file, name in given}
        used = {file: self._used_inside(file, unit, nodes) for file in unit.files}
        largest = {files: file for file, files in reversed(used.items()) if not any(map(files.__lt__, used.values()))}
        return {script: tuple(sorted(files)) for files, script in sorted(largest.items(), key=lambda item: item[1])}

    def runs(self, file: Path) -> bool:
        """False for a file that only lends what it defines: its own code calls nothing of the project."""
        code = self._sources.definition(Node(file, MODULE))
        used = map(self._sources.definition, self._sources.origins(self._sources.referred(Node(file, MODULE))))
        return code is None or code.trains or any(one is not None and not one.passes_on for one in used)

    def come_to(self, files: Iterable[Path], names: Collection[tuple[Path, str]]) -> bool:
        """True where the code of some files uses one of some names, directly or through others; all of a module where
        it is used as a whole, or where its own code, `""`, is among them.
        """
        homes = {file for file, name in names if not name}
        waiting = self._definitions(files)
        seen = set(waiting)
        while waiting:
            referred = set(self._sources.referred(waiting.pop()))
            used = referred.union(self._sources.origins(referred)) - seen
            if any((one.file, one.name) in names or one.file in homes for one in used):
                return True
            if any(not one.name and one.file in {file for file, _ in names} for one in used):
                return True
            seen |= used
            waiting += used
        return False

    def users_of(self, name: str, file: Path, unit: Unit) -> dict[Path, str]:
        """Files outside of the unit that refer to a top-level definition; for `Class.method`, that may call it.

        Who may call a method is anybody that speaks of its name and gets at the class: by itself, through a derived
        class, or through something that refers to one of them.
        """
        top, _, method = name.partition(".")
        seen = {Node(file.resolve(), top)}
        waiting = list(seen)
        users: dict[Path, str] = {}
        while waiting:
            node = waiting.pop()
            for user in self._sources.referring(node, loosely=True):
                definition = self._sources.definition(user)
                if definition is not None and user.file not in unit.files and self._may_call(user.file, method):
                    users.setdefault(user.file, f"uses {node.name} of {self._shown(node.file)}")
                if user not in seen and (method or definition is None or self._passes_on(definition, node)):
                    seen.add(user)
                    waiting.append(user)
        return dict(sorted(users.items()))

    def naming(self, name: str, file: Path) -> list[Path]:
        """The other files that refer to a name of a file themselves, in path order: `from file import name`."""
        node = Node(file.resolve(), name)
        return sorted({user.file for user in self._sources.referring(node, loosely=True)} - {node.file})

    def receivers(self, name: str, file: Path, unit: Unit) -> dict[Path, str]:
        """Files outside that may call a method of the unit on an object that they are handed."""
        found = receivers(self._sources, file.resolve(), name, unit.files)
        return dict.fromkeys(sorted(found), f"may call {name} of {self._shown(file)}")

    def _passes_on(self, definition: Definition, node: Node) -> bool:
        """True for what others get at a name by: tables, functions that look it up, and classes derived from it."""
        return definition.passes_on or node in map(node_of, definition.bases)

    @cached_property
    def _links(self) -> Mapping[Path, list[Link]]:
        """The links of each file."""
        links: dict[Path, list[Link]] = {}
        for link in find_links(self._reach, self._shown):
            links.setdefault(link.one, []).append(link)
            links.setdefault(link.other, []).append(link)
        return links

    def _closed(self, found: Mapping[Path, str]) -> Unit:
        """A unit of some files and all that they are linked to, with the callers that hold it together."""
        unit = self._linked(found)
        alone = {script for script, files in self.programs(unit).items() if len(files) == 1}
        callers = {
            link.caller: f"uses {link.name} of {self._shown(link.one)}"
            for file in unit.files
            for link in self._links.get(file, ())
            if link.caller is not None and alone & {link.one, link.other}
        }
        return self._linked({**callers, **unit.reasons}) if callers.keys() - set(unit.files) else unit

    def _linked(self, found: Mapping[Path, str]) -> Unit:
        reasons = dict(found)
        waiting = sorted(reasons)
        passing: dict[Path, str] = {}
        while waiting:
            file = waiting.pop(0)
            for link in self._links.get(file, ()):
                other, reason = (link.other, link.why_other) if file == link.one else (link.one, link.why_one)
                if other not in reasons:
                    reasons[other] = reason
                    waiting.append(other)
                passing |= dict.fromkeys(link.through, f"passes {link.name} on")
        return Unit((), reasons).extended(passing)

    def _callers(self, unit: Unit) -> Iterator[tuple[Path, str]]:
        """Files outside that use something of the unit that touches or reaches a handle."""
        if self._sources.tie.common:
            for node in self._leading_to_training(unit):
                users = self.users_of(node.name, node.file, unit)
                yield from users.items()
                for user in self._definitions(users):
                    yield from ((file, f"passes {node.name} on") for file in self._between(user, node))
            return
        for file in self._reach.reaching_files:
            for use in self._reach.uses_of(file) if file not in unit.files else ():
                if use.used.file in unit.files:
                    why = f"uses {use.used.name} of {self._shown(use.used.file)}"
                    yield file, why
                    yield from ((passing, f"passes {use.used.name} on") for passing in sorted(use.through))

    def _leading_to_training(self, unit: Unit) -> list[Node]:
        """The definitions of a unit that concern a handle, and those that come to one through others of the unit: a
        function that chooses one of the trainings of its file is what scripts call.
        """
        found = [node for file in unit.files for node in self._concern.definitions(file)]
        seen = set(found)
        for node in found:
            users = {user for user in self._sources.referring(node) if user.file in unit.files} - seen
            seen |= users
            found += sorted(users)
        return found

    def _in_tables(self, unit: Unit) -> Iterator[tuple[Path, str]]:
        """Files outside with what trains and stands in a table with something of the unit: who takes one takes any."""
        own = [node for file in unit.files for node in self._concern.definitions(file)]
        for table in dict.fromkeys(table for node in own for table in self._sources.referring(node)):
            one = self._sources.definition(table)
            if not self._sources.tie.common or one is None or not one.passes_on or one.trains:
                continue
            for part in sorted(self._sources.origins(self._sources.referred(table))):
                definition = self._sources.definition(part)
                if definition is not None and definition.trains and part.file not in unit.files:
                    yield part.file, f"its {part.name} stands in {table.name} of {self._shown(table.file)}, too"

    def _used(self, unit: Unit) -> Iterator[tuple[Path, str]]:
        """Files outside with something that touches or reaches a handle and is used in the unit."""
        for file in unit.files if not self._sources.tie.common else ():
            for use in self._reach.uses_of(file):
                if use.used.file not in unit.files:
                    yield use.used.file, f"its {use.used.name} is used by {self._shown(file)}"
                    yield from ((passing, f"passes {use.used.name} on") for passing in sorted(use.through))

    def _helpers(self, unit: Unit, *, with_makers: bool) -> Iterator[tuple[Path, str]]:
        """Files outside whose definitions do a part of the training of the unit, or are bases of its classes."""
        waiting = [node for file in unit.files for node in self._concern.definitions(file)]
        if with_makers:  # `return model, Schedule(model)` says nothing of an optimizer
            waiting = self._definitions(unit.files)
        seen = set(waiting)
        while waiting:
            node = waiting.pop(0)
            for helper in sorted(self._parts(node, with_makers=with_makers) - seen):
                seen.add(helper)
                if helper.file in unit.files:
                    waiting.append(helper)
                else:
                    yield helper.file, f"its {helper.name} is used by {self._shown(node.file)}"
                    yield from ((file, f"passes {helper.name} on") for file in self._between(node, helper))

    def _between(self, node: Node, helper: Node) -> Iterator[Path]:
        """The files through which a definition comes to the name of a helper."""
        for referred in self._sources.referred(node):
            way = list(self._sources.passing([referred]))
            if helper in way:
                yield from (one.file for one in way if one.file not in (node.file, helper.file))

    def _parts(self, node: Node, *, with_makers: bool) -> set[Node]:
        """The base classes of a class, and what a definition refers to that has code of a training, or runs a function
        that it is given; `with_makers` also what makes a handle or hands one on.
        """
        definition = self._sources.definition(node)
        if definition is None:
            return set()
        used = self._sources.origins(self._sources.referred(node))
        found = {part: self._sources.definition(part) for part in used}
        return set(self._inheritance.bases(node)) | {
            part
            for part, one in found.items()
            if one is not None
            and (one.trains or one.runs_parameter or (with_makers and (one.hands_on or one.uses_handle)))
            and not one.is_optimizer
        }

    def sets_up_and_scales(self, unit: Unit) -> bool:
        """True where both halves of a training are in a unit."""
        return self._concern.is_whole(*unit.files)

    def _declaring(self, files: Iterable[Path]) -> dict[Path, str]:
        """The files that declare the options of the command line that some files use."""
        found = options(self._sources, self._definitions(files))
        return {node.file: "declares options of the command line" for node in found}

    def _definitions(self, files: Iterable[Path]) -> list[Node]:
        return [Node(file, name) for file in files for name in self._sources.summary(file).definitions]

    def _handed_on(self, files: Iterable[Path]) -> Iterator[Node]:
        """The names of Apex that files only hand on to others: they go where a migration takes the import out."""
        for file in files:
            for name, origins in self._sources.summary(file).exports.items():
                if any(origin.startswith("apex.") and self._sources.tie.means(origin) for origin in origins):
                    yield Node(file, name)

    def _used_inside(self, file: Path, unit: Unit, given: set[Node]) -> frozenset[Path]:
        """A file of a unit, with those of the unit that it uses, directly or through others."""
        found = {file}
        waiting = self._brought_by(file)
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            if node.file in unit.files and node.file not in found:
                found.add(node.file)
                waiting += self._brought_by(node.file)
            concerning = given.union(self._inheritance.bases(node))
            used = {one for one in self._sources.referred(node) if one in concerning or self._concern.may_concern(one)}
            waiting += used - seen
            seen |= used
        return frozenset(found)

    def _brought_by(self, file: Path) -> list[Node]:
        """The definitions of a file, and what its star imports bring of models: `eval(name)` may mean any of these.
        What holds a handle is used where it is named.
        """
        stars = [star for name in self._sources.summary(file).stars if (star := node_of(name)) is not None]
        models = [star for star in stars if not self._concern.definitions(star.file)]
        return [*self._definitions([file]), *models, *(one for star in models for one in self._behind(star))]

    def _may_call(self, file: Path, method: str) -> bool:
        return not method or _UNNAMED.fullmatch(method) is not None or self._sources.mentions(file, method)

    def _below_root(self, file: Path) -> str:
        return os.path.relpath(file, self._sources.root)
