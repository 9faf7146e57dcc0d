"""Where on disk a function or class is defined, whichever file it is imported from, and what it calls there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import (
    Definition,
    assigned_in,
    definitions_in,
    imported_from,
    imported_member,
    imported_names,
    parsed,
)
from amp_migrate.files.imports import member, module_name, split
from amp_migrate.files.read import read_if_there

_MOST_NAMES = 400
_MOST_CALLED = 60


def definitions(resolved: str, *, and_what_they_name: bool = False) -> Iterator[tuple[Path, Definition]]:
    """The function or class, in the file that defines it, whichever file it is imported from; of a module as a whole
    with what it names, all that it has.
    """
    seen: set[tuple[Path, str]] = set()
    place = split(resolved)
    waiting = [place] if place is not None else []
    while waiting and len(seen) < _MOST_NAMES:
        file, name = waiting.pop()
        if (file, name) in seen:
            continue
        seen.add((file, name))
        definition = definitions_in(file).get(name)
        if definition is None:
            waiting += [*imported_from(file, name), *_inherited(file, name)]
        else:
            yield file, definition
        values = _functions_assigned(file, name) if definition is None else [definition]
        if and_what_they_name and not name:
            waiting += _held_by(file)
        for value in values if and_what_they_name else ():
            waiting += named_in(file, value)


def any_named(does: Callable[[Definition], bool], resolved: str) -> bool:
    """True where a function or class is found, and it, or another one that it names, does something."""
    return any(does(one) for _, one in definitions(resolved, and_what_they_name=True))


@cache
def named_in(file: Path, value: ast.AST) -> tuple[tuple[Path, str], ...]:
    """What a definition names, and what it takes of modules that its file imports: `losses.overlap(...)`."""
    nodes = list(ast.walk(value))
    places = (_in_module(file, node) for node in nodes if isinstance(node, ast.Attribute))
    named = [(file, node.id) for node in nodes if isinstance(node, ast.Name)]
    return (*named, *(place for place in places if place is not None))


def _held_by(file: Path) -> Iterator[tuple[Path, str]]:
    """What a module defines, or imports by name: `eval(name)` after a star import of it may mean any of these."""
    yield from ((file, name) for name in definitions_in(file))
    yield from (place for name in imported_names(file).values() if (place := split(name)) is not None)


def _functions_assigned(file: Path, name: str) -> list[ast.expr]:
    """What `scale = Scale.apply` and `loss = partial(focal, gamma=2)` call by another name; an object is no function,
    whatever the methods of its class do.
    """
    return [
        value
        for value in assigned_in(file).get(name, [])
        if isinstance(value, (ast.Name, ast.Attribute))
        or (isinstance(value, ast.Call) and called_name(value) == "partial")
    ]


def values_of(file: Path, name: str) -> Iterator[ast.expr]:
    """What a variable of a module holds (`bce_loss = nn.BCELoss()`), whichever file it is imported from."""
    waiting, seen = [(file, name)], set[tuple[Path, str]]()
    while waiting and len(seen) < _MOST_NAMES:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            found = assigned_in(place[0]).get(place[1])
            yield from found or ()
            waiting += imported_from(*place) if found is None else ()


def _inherited(file: Path, name: str) -> Iterator[tuple[Path, str]]:
    """The methods of that name in the base classes of a class, for `Class.method` that it does not define itself."""
    owner, _, method = name.partition(".")
    definition = definitions_in(file).get(owner) if method else None
    for place, base in base_classes(file, definition) if definition is not None else ():
        yield place, f"{base}.{method}"


def base_classes(file: Path, definition: Definition) -> Iterator[tuple[Path, str]]:
    """The base classes of a class by their names, each with the file where that name is known."""
    for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
        place = (file, base.id) if isinstance(base, ast.Name) else None
        if isinstance(base, ast.Attribute):
            place = _in_module(file, base)
        if place is not None:
            yield place


def lineage(resolved: str) -> list[tuple[Path, ast.ClassDef]]:
    """The classes on disk that a class is made of by inheritance, itself first, each where it is defined."""
    found = list(definitions(resolved))
    for file, definition in found:
        bases = [place for base in base_classes(file, definition) for place in definitions(_name(*base))]
        found += [place for place in bases if place not in found]
    return [(file, definition) for file, definition in found if isinstance(definition, ast.ClassDef)]


def _name(file: Path, name: str) -> str:
    return f"{module_name(file)}.{name}"


def _in_module(file: Path, node: ast.Attribute) -> tuple[Path, str] | None:
    """Where `losses.overlap` is defined, of a module that a file imports."""
    resolved = imported_member(file, node)
    return split(resolved) if resolved is not None else None


@cache
def file_of(resolved: str) -> Path | None:
    """The file that defines a function or class, or gives a variable its value."""
    for file, _ in definitions(resolved):
        return file
    return _assigning(resolved)


def _assigning(resolved: str) -> Path | None:
    """The file that gives a variable its value (`scale = Scale.apply`), whichever file it is imported from; and that of
    a class or function where Python does not parse it.
    """
    seen: set[tuple[Path, str]] = set()
    place = split(resolved)
    waiting = [place] if place is not None else []
    while waiting and len(seen) < _MOST_NAMES:
        file, name = waiting.pop()
        if (file, name) in seen or not name.isidentifier():
            continue
        seen.add((file, name))
        if re.search(rb"^(?:(?:class|def) +%s\b|%s\s*=)" % (name.encode(), name.encode()), read_if_there(file), re.M):
            return file
        waiting += imported_from(file, name)
    return None


def leads_to(file: Path, dotted: str, target: Path) -> bool:
    """True where a file has something of another one: `zoo.MODELS` where that makes it, or has the class of it."""
    first, *others = dotted.split(".")
    imported = imported_names(file).get(first, "")
    for other in others if imported else ():
        imported = member(imported, other)
    place = split(imported)
    waiting = [(file, first), *([place] if place is not None else [])]
    seen: set[tuple[Path, str]] = set()
    while waiting and len(seen) < _MOST_NAMES:
        current, name = waiting.pop()
        if current == target:
            return True
        if (current, name) not in seen:
            seen.add((current, name))
            root = name.partition(".")[0]
            waiting += [*imported_from(current, root), *((current, maker) for maker in _makers(current, root))]
    return False


def _makers(file: Path, name: str) -> list[str]:
    """X of `name = X(...)` in a module."""
    if not name.isidentifier():
        return []
    words = rb"^%s\s*=\s*(\w+)\(" % name.encode()
    return [one.decode() for one in re.findall(words, read_if_there(file), re.MULTILINE)]


@cache
def called_from(resolved: str) -> tuple[tuple[Path, Definition], ...]:
    """A function with the functions that it calls, in its file and through its imports. Classes are not looked into."""
    found: dict[str, tuple[Path, Definition]] = {}
    waiting = [resolved]
    while waiting and len(found) < _MOST_CALLED:
        name = waiting.pop(0)
        for file, definition in definitions(name) if name not in found else ():
            if not isinstance(definition, ast.ClassDef):
                found[name] = file, definition
                calls = (node for node in ast.walk(definition) if isinstance(node, ast.Call))
                waiting += [target for call in calls if (target := target_of(file, name, call.func)) is not None]
    return tuple(found.values())


def target_of(file: Path, caller: str, function: ast.expr) -> str | None:
    """The resolved name of what a call means, by names of the module; `self.f` is a method of the caller's class, and
    `Net.f` one of a class of the module.
    """
    if isinstance(function, ast.Name):
        return imported_names(file).get(function.id) or member(module_name(file), function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.value.id in ("self", "cls"):
            return f"{caller.rpartition('.')[0]}.{function.attr}"
        if f"{function.value.id}.{function.attr}" in definitions_in(file):
            return f"{module_name(file)}.{function.value.id}.{function.attr}"
        return imported_member(file, function)
    return None


# Variables of modules that hold nothing but True and False (`MIXED_PRECISION = True`).


def holds_bool(file: Path, name: str, seen: set[tuple[Path, str]] | None = None) -> bool:
    """True where the file, or the one that it has the variable from, gives it nothing but True and False.

    A local variable of the same name counts as well.
    """
    seen = set() if seen is None else seen
    if (file, name) in seen:
        return False
    seen.add((file, name))
    known = _booleans(file).get(name)
    return any(holds_bool(*place, seen) for place in imported_from(file, name)) if known is None else known


@cache
def _booleans(file: Path) -> dict[str, bool]:
    """Of the names that a file binds or deletes, in functions as well, whether they get nothing but True and False."""
    nodes = list(ast.walk(parsed(file)))
    given = {
        id(target)
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_literal_bool(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    found: dict[str, bool] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] = found.get(node.id, True) and id(node) in given
    return found


def _is_literal_bool(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


# What stands under a decorator in a project, by its text: nobody else need name what is in a registry.

# @zoo.register("small")
# class Small(nn.Module):
_DECORATED = rb"^@((?:\w+\.)*)(%s)\b[^\n]*\n(?:[@#)\s][^\n]*\n)*(?:class|def) +(\w+)"


def decorations(
    decorator: bytes, holding: Callable[[re.Pattern[bytes]], list[Path]]
) -> Iterator[tuple[Path, str, str]]:
    """Each file with the decorator as it is written there (`zoo.register`), and the name of the class or function."""
    words = re.compile(_DECORATED % re.escape(decorator), re.MULTILINE)
    for file in holding(words):
        for before, last, name in words.findall(read_if_there(file)):
            yield file, (before + last).decode(), name.decode()
