"""Models that leave parameters of their own without a gradient, which torch's DistributedDataParallel does not forgive.

def train(self, mode=True):             frozen once it is wrapped
    super().train(mode)
    self.bn.weight.requires_grad = False
if random.random() < self.p:            run in some iterations, in others not
    x = self.layer(x)
for layer in self.layers[:depth]:       as many as somebody says
    x = layer(x)
self.auxiliary = nn.Linear(8, 2)        read by nobody
sequence, _ = self.bert(x)              with what only the second part is made of
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeGuard

from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import Definition, imported_names, parsed
from amp_migrate.files.definitions import definitions, lineage
from amp_migrate.files.freezes import freezes
from amp_migrate.files.imports import member, module_name, modules_in, package_of_names, split
from amp_migrate.files.random_arms import Layers, skips_at_random
from amp_migrate.files.returned import Parts, made_of, parts_taken
from amp_migrate.models import layers
from amp_migrate.models.queries import has_parameters
from amp_migrate.vocabulary import IMPORTERS

_ROOTS = frozenset("torch.nn.Module torch.nn.modules.Module abc.ABC object".split())
_BY_OTHER_NAMES = frozenset(
    "children named_children _modules __dict__ __getattr__ __getattribute__ getattr eval exec vars".split()
)
_ALL_MODULES = frozenset(("modules", "named_modules"))
_LIST = "torch.nn.ModuleList"
_MOST_MODULES = 60

_Holding = Callable[[re.Pattern[bytes]], list[Path]]


def leaves_parameters_out(resolved: str, called: Collection[str], holding: _Holding) -> bool:
    """True for a class, or a function that makes a model, where a class that it is made of does so.

    `called` are the methods that are called on the model once it is wrapped; `holding` finds the project's files by
    what stands in them.
    """
    families = _families(resolved)
    return any(
        one.freezes_again({"train", "forward", *called})
        or one.skips_at_random()
        or one.runs_some()
        or one.has_unread_layer(holding)
        or one.drops()
        for one in families
    )


def _families(resolved: str) -> list[Family]:
    """The classes behind a name, each with its bases; what is a base of another one has no family of its own."""
    found = dict.fromkeys((file, one) for file, one in _parts(resolved) if isinstance(one, ast.ClassDef))
    families = [Family(file, one) for file, one in found]
    bases = {base for family in families for _, base in family.classes[1:]}
    return [family for family in families if family.classes[0][1] not in bases]


def _parts(resolved: str) -> Iterator[tuple[Path, Definition]]:
    """What a model is made of: all that a name leads to, modules of a package that are imported by name included."""
    owner = resolved.rpartition(".")[0]  # of `Net.from_pretrained`
    place = split(owner)
    waiting = [resolved, owner] if place is not None and place[1] else [resolved]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_MODULES:
        for file, definition in definitions(waiting.pop(), and_what_they_name=True):
            yield file, definition
            by_name = {module for node in ast.walk(definition) for module in _imported_by_name(file, node)}
            waiting += by_name - seen
            seen |= by_name


def _imported_by_name(file: Path, node: ast.AST) -> list[str]:
    """The modules of `pkg` for `import_module("pkg." + name)`, also where the text is put together before."""
    if not isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call):
        return []
    if isinstance(node, ast.Call):
        is_import = called_name(node) in IMPORTERS and bool(node.args)
        return _imported_by_name(file, node.args[0]) if is_import and not isinstance(node.args[0], ast.Call) else []
    first: ast.AST = node.left if isinstance(node, ast.BinOp) else node.values[0]
    said = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    package, dot, _ = said.rpartition(".")
    return modules_in(package_of_names(file, package)) if dot and package.isidentifier() else []


class Family:
    """A class and its bases in the project, itself first, each with its file."""

    def __init__(self, file: Path, node: ast.ClassDef) -> None:
        self.classes = lineage(f"{module_name(file)}.{node.name}")
        self.methods: dict[str, list[tuple[Path, ast.FunctionDef]]] = {}
        for place, one in self.classes:
            for inner in one.body:
                if isinstance(inner, ast.FunctionDef):
                    self.methods.setdefault(inner.name, []).append((place, inner))

    def freezes_again(self, called: Collection[str]) -> bool:
        """True where methods stop gradients of what the model has, and not already while it is made."""
        later = self._run_by(called) - self._run_by(["__init__"])
        return any(
            freezes(one, {"self"}, partial(_resolved, file)) for name in later for file, one in self.methods[name]
        )

    def skips_at_random(self) -> bool:
        """True where chance decides in a forward whether a layer runs."""
        layers = Layers(self.methods, self._layers())
        return any(
            skips_at_random(one, partial(_resolved, file), layers)
            for name in self._run_by(["forward"])
            for file, one in self.methods[name]
        )

    def runs_some(self) -> bool:
        """True where a forward takes as many of a list of layers as a name says that it is given."""
        layers = self._layers()
        run = (one for name in self._run_by(["forward"]) for _, one in self.methods[name])
        return any(
            isinstance(part, ast.Subscript)
            and _is_of_self(part.value)
            and part.value.attr in layers
            and isinstance(part.slice, ast.Slice)
            and any(bound is not None and not _is_own_number(bound) for bound in (part.slice.lower, part.slice.upper))
            for one in run
            for part in ast.walk(one)
        )

    def has_unread_layer(self, holding: _Holding) -> bool:
        """True for a layer with parameters that is made and never read, neither here nor by anybody else."""
        if not self._is_known() or self._is_read_by_other_names():
            return False
        read = {
            node.attr
            for _, one in self.classes
            for node in ast.walk(one)
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store)
        }
        return any(not self._is_read(name, holding) for name in self._layers(certain=True) if name not in read)

    def drops(self) -> bool:
        """True where nothing that the forward returns is made of what a layer returns, or a part of that."""
        held = (found for layer in self._layers(certain=True) if (found := self._family_of(layer)) is not None)
        return self._drops(None, set()) or any(family._drops(parts, read) for family, parts, read in held)

    def _drops(self, parts: Parts | None, reaching: set[str]) -> bool:
        """True for a layer that a forward calls, and that no part which is taken of its result is made of; what is
        `reaching` is read by others.
        """
        forward = next((one for _, one in self.methods.get("forward", ())), None)
        found = made_of(forward, parts) if forward is not None else None
        if forward is None or found is None or self._names_run() & (_BY_OTHER_NAMES | _ALL_MODULES):
            return False
        reaching = reaching | found
        for name in self._run_by(reaching):
            reaching |= {node.attr for _, one in self.methods[name] for node in ast.walk(one) if _is_of_self(node)}
        calls = (node for node in ast.walk(forward) if isinstance(node, ast.Call))
        called = {node.func.attr for node in calls if _is_of_self(node.func)}
        return not (called & self._layers(certain=True)) <= reaching

    def _family_of(self, layer: str) -> tuple[Family, Parts, set[str]] | None:
        """The class of a layer, the parts that are taken of what its forward returns, and what else is read of it; None
        where some is out of sight.
        """
        taken = [parts_taken(one, layer) for name in self._run_by(["forward"]) for _, one in self.methods[name]]
        known = [one for one in taken if one is not None]
        made = [
            (file, node.value)
            for file, one in (pair for pairs in self.methods.values() for pair in pairs)
            for node in ast.walk(one)
            if isinstance(node, ast.Assign) and any(_is_of_self(to) and to.attr == layer for to in node.targets)
        ]
        if len(known) < len(taken) or len(made) != 1 or not isinstance(made[0][1], ast.Call):
            return None
        name = _resolved(made[0][0], made[0][1].func) or ""
        owners = (name, name.rpartition(".")[0])  # of `Net.from_pretrained`
        classes = [(at, cls) for one in owners for at, cls in definitions(one) if isinstance(cls, ast.ClassDef)]
        parts = frozenset[int]().union(*(one for one, _ in known))
        read = set[str]().union(*(one for _, one in known))
        return (Family(*classes[0]), parts, read) if len(classes) == 1 and parts else None

    def _run_by(self, names: Iterable[str]) -> set[str]:
        """Some methods, and those that they call on their object."""
        waiting, found = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            if name in self.methods and name not in found:
                found.add(name)
                waiting += [
                    node.attr
                    for _, one in self.methods[name]
                    for node in ast.walk(one)
                    if isinstance(node, ast.Attribute) and _is_of_self(node)
                ]
        return found

    def _layers(self, *, certain: bool = False) -> set[str]:
        """The attributes that hold layers with parameters; where it need not be certain, lists of modules and what is
        given as well.
        """
        found = set[str]()
        for file, one in (pair for pairs in self.methods.values() for pair in pairs):
            given = {argument.arg for argument in one.args.args[1:]} if one.name == "__init__" and not certain else ()
            for node in ast.walk(one):
                target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
                if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute) and _is_of_self(target):
                    is_given = isinstance(node.value, ast.Name) and node.value.id in given
                    is_list = not certain and _resolved(file, getattr(node.value, "func", node.value)) == _LIST
                    if is_given or is_list or _has_parameters(file, node.value):
                        found.add(target.attr)
        return found

    def _is_known(self) -> bool:
        """False where code that is not at hand may read what the class has."""
        bases = {_resolved(file, base) or "" for file, one in self.classes for base in one.bases} - _ROOTS
        return all(any(definitions(base)) for base in bases)

    def _is_read_by_other_names(self) -> bool:
        names = {name for _, one in self.classes for name in _names(one)}
        return bool(names & _BY_OTHER_NAMES) or bool(self._names_run() & _ALL_MODULES)

    def _names_run(self) -> set[str]:
        """The names in what a forward runs."""
        return {name for method in self._run_by(["forward"]) for _, one in self.methods[method] for name in _names(one)}

    def _is_read(self, name: str, holding: _Holding) -> bool:
        """True where some file of the project may read an attribute of this class."""
        files = {*holding(re.compile(rb"\b%s\b" % name.encode())), *(file for file, _ in self.classes)}
        return any(self._is_read_in(file, name) for file in files)

    def _is_read_in(self, file: Path, name: str) -> bool:
        strangers = set[ast.AST]()  # what says `self` of an object of another class
        for owner in (node for node in ast.walk(parsed(file)) if isinstance(node, ast.ClassDef)):
            related = lineage(f"{module_name(file)}.{owner.name}")
            if related and not {one for _, one in related} & {one for _, one in self.classes}:
                strangers.update(node for node in ast.walk(owner) if _is_of_self(node))
        own = [inner for _, one in self.classes for inner in ast.walk(one) if _is_of_self(inner)]
        written = {node for node in own if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        return any(
            (isinstance(node, ast.Attribute) and node.attr == name and node not in strangers | written)
            or (isinstance(node, ast.Constant) and node.value == name)
            for node in ast.walk(parsed(file))
        )


def _names(node: ast.AST) -> Iterator[str]:
    """The names, attributes and functions that stand in some code."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.FunctionDef):
            yield part.name


def _is_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_own_number(node: ast.expr) -> bool:
    """True for a number of the class: `4`, `-1`, `self.depth`, `len(self.layers) // 2`."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names <= {"self", "len"}


def _has_parameters(file: Path, value: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
    """True for what makes a layer with parameters, or a container of some."""
    for call in (node for node in ast.walk(value) if isinstance(node, ast.Call)):
        name = _resolved(file, call.func)
        if name is None or name in seen:
            continue
        if name.startswith("torch.nn.") and name.rpartition(".")[2] in {*layers(has_parameters), "Parameter"}:
            return True
        if any(_has_parameters(place, one, seen | {name}) for place, one in definitions(name)):
            return True
    return False


def _resolved(file: Path, node: ast.AST) -> str | None:
    """The resolved name of `nn.Linear`, `Linear` and `blocks.Block`, and of what the file defines itself."""
    if isinstance(node, ast.Attribute):
        base = _resolved(file, node.value)
        return member(base, node.attr) if base is not None else None
    if not isinstance(node, ast.Name):
        return None
    return imported_names(file).get(node.id) or member(module_name(file), node.id)
