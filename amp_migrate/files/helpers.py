"""What the project's other modules do with what a script hands them, where they can be found on disk.

`update_logs(model)` between backward and step does not say by its name whether it looks at gradients, nor does
`criterion = DiceLoss()` that it computes a binary cross entropy. Their bodies do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

from amp_migrate.facts.elsewhere import Nowhere
from amp_migrate.files.averaging import only_averages
from amp_migrate.files.bindings import called_name
from amp_migrate.files.decorations import decorations
from amp_migrate.files.handed_back import hands_back_its_first
from amp_migrate.files.imports import canonical, importable, member, module_name, modules_in, package_of_names, split
from amp_migrate.files.inference import runs_what_it_is_given
from amp_migrate.files.one_dtype import wants_one_dtype
from amp_migrate.files.own_backward import multiplies_in_backward
from amp_migrate.files.read import read_if_there
from amp_migrate.files.saving import saves_given
from amp_migrate.vocabulary import BINARY_CROSS_ENTROPIES, GRADIENT_CLIPS

_MOST_NAMES = 400
_MOST_CALLED = 60
_BY_SETTINGS = re.compile(rb"\bhydra\b.*\b(?:instantiate|call)\b")
# Words in the names of what is stepped, and is no optimizer.
_NO_OPTIMIZER = ("sched", "prof", "env")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Helpers:
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
        self.use_function = use_function or Nowhere().use_function
        self.declared_torch = declared_torch or Nowhere().declared_torch
        self._holding = holding or (lambda words: [])

    @cached_property
    def makes_by_settings(self) -> bool:
        return bool(self._holding(_BY_SETTINGS))

    def resolved(self, importer: str, dotted: str) -> str:
        return canonical(Path(importer), dotted)

    def member(self, base: str, name: str) -> str:
        return member(base, name)

    def source_of(self, resolved: str) -> bytes | None:
        """The file that defines the function, class or variable, None where it is not found."""
        file = _file_of(resolved)
        return read_if_there(file) if file is not None else None

    def package_behind(self, module: str, name: str) -> str | None:
        """What a star import of a module hands on of a package that it imports itself: its `torch`, its `nn`."""
        place = split(module)
        path = _handed_on(place[0], name) if place is not None and not place[1] else None
        return path if path is not None and split(path) is None else None

    def use_gradients(self, resolved: str) -> bool:
        """True where the function is found and reads gradients, itself or in a function that it calls.

        A function that also makes a backward or a step of its own on the way is a training step, not a use.
        """
        called = _called_from(resolved)
        return any(_reads_gradients(*one) for one in called) and not any(_trains(one) for _, one in called)

    def train(self, resolved: str) -> bool:
        """True where the function is found and makes a backward or a step, itself or in a function that it calls."""
        return any(_trains(definition) for _, definition in _called_from(resolved))

    def spare_gradients(self, resolved: str) -> bool:
        """True where the function is found, and neither it nor what it names says a word of gradients, and no function
        that it calls reads them.
        """
        found = [definition for _, definition in _definitions(resolved, and_what_they_name=True)]
        speaks = any(_speaks_of_gradients(definition) for definition in found)
        return bool(found) and not speaks and not self.use_gradients(resolved)

    def average_gradients(self, resolved: str) -> bool:
        """True where the function is found, and averages gradients over processes and does nothing else with them."""
        found = list(_definitions(resolved))
        return bool(found) and all(only_averages(one, _definitions_in(file)) for file, one in found)

    def compute_bce(self, resolved: str) -> bool:
        """True where the function or class is found and computes a binary cross entropy, itself or by another
        one that it names, outside of any autocast of its own.
        """
        return any(_computes_bce(*found) for found in _definitions(resolved, and_what_they_name=True))

    def want_one_dtype(self, resolved: str) -> bool:
        """True where the function or class is found, and it, or another one that it names, writes by index or in
        place.
        """
        return any(wants_one_dtype(definition) for _, definition in _definitions(resolved, and_what_they_name=True))

    def multiply_in_backward(self, resolved: str) -> bool:
        """True where the function or class is found, and it, or another one that it names, is an autograd function with
        a product in its backward.
        """
        named = _definitions(resolved, and_what_they_name=True)
        return any(multiplies_in_backward(definition) for _, definition in named)

    def run_models(self, resolved: str) -> bool:
        """True where the function is found and runs a model that it is given, itself or in a function that it calls."""
        return any(runs_what_it_is_given(definition) for _, definition in _called_from(resolved))

    def save_state(self, resolved: str, position: int | str) -> bool:
        """True where the function or class is found, and saves or loads the state of the argument at a position, or
        under a name.
        """
        return any(saves_given(definition, position) for _, definition in _definitions(resolved))

    def hand_back(self, resolved: str) -> bool:
        """True where the function is found, and always returns its first argument without new layers."""
        found = [definition for _, definition in _definitions(resolved)]
        return bool(found) and all(map(hands_back_its_first, found))

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
            if place is not None and _leads_to(file, dotted, place[0])
        ]

    def is_there(self, resolved: str) -> bool:
        place = split(resolved)
        return place is not None and (not place[1] or self.source_of(resolved) is not None)

    def inherited(self, resolved: str) -> list[str]:
        """The classes on disk that a class is made of by inheritance, itself first, each where it is defined."""
        found = list(_definitions(resolved))
        for file, definition in found:
            bases = [place for base in _bases(file, definition) for place in _definitions(_name(*base))]
            found += [place for place in bases if place not in found]
        return [_name(file, definition.name) for file, definition in found if isinstance(definition, ast.ClassDef)]

    def is_bool(self, resolved: str) -> bool:
        """True for a variable of a module (`MIXED_PRECISION = True`) that its file gives nothing but True and False.

        A local variable of the same name counts as well.
        """
        place = split(resolved)
        return place is not None and _holds_bool(*place, set())


def _holds_bool(file: Path, name: str, seen: set[tuple[Path, str]]) -> bool:
    if (file, name) in seen:
        return False
    seen.add((file, name))
    bound = _bound(file).get(name)
    if bound is None:
        return any(_holds_bool(*place, seen) for place in _imported_from(file, name))
    return bound <= _given_bool(file)


@cache
def _bound(file: Path) -> dict[str, set[ast.Name]]:
    """Where a file binds or deletes names, in functions as well."""
    found: dict[str, set[ast.Name]] = {}
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, set()).add(node)
    return found


@cache
def _given_bool(file: Path) -> frozenset[ast.expr]:
    """The targets of all assignments of True and False in a file."""
    return frozenset(
        target
        for node in ast.walk(_parsed(file))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_literal_bool(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


def _is_literal_bool(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _definitions(resolved: str, *, and_what_they_name: bool = False) -> Iterator[tuple[Path, _Definition]]:
    """The function or class, in the file that defines it, whichever file it is imported from."""
    seen: set[tuple[Path, str]] = set()
    place = split(resolved)
    waiting = [place] if place is not None else []
    while waiting and len(seen) < _MOST_NAMES:
        file, name = waiting.pop()
        if (file, name) in seen:
            continue
        seen.add((file, name))
        definition = _definitions_in(file).get(name)
        if definition is None:
            waiting += [*_imported_from(file, name), *_inherited(file, name)]
        else:
            yield file, definition
        values = _functions_assigned(file, name) if definition is None else [definition]
        for value in values if and_what_they_name else ():
            waiting += [(file, node.id) for node in ast.walk(value) if isinstance(node, ast.Name)]
            waiting += _of_modules(file, value)


def _functions_assigned(file: Path, name: str) -> list[ast.expr]:
    """What `scale = Scale.apply` and `loss = partial(focal, gamma=2)` call by another name; an object is no function,
    whatever the methods of its class do.
    """
    return [
        value
        for value in _assigned_in(file).get(name, [])
        if isinstance(value, (ast.Name, ast.Attribute))
        or (isinstance(value, ast.Call) and called_name(value) == "partial")
    ]


def _inherited(file: Path, name: str) -> Iterator[tuple[Path, str]]:
    """The methods of that name in the base classes of a class, for `Class.method` that it does not define itself."""
    owner, _, method = name.partition(".")
    definition = _definitions_in(file).get(owner) if method else None
    for place, base in _bases(file, definition) if definition is not None else ():
        yield place, f"{base}.{method}"


def _bases(file: Path, definition: _Definition) -> Iterator[tuple[Path, str]]:
    """The base classes of a class by their names, each with the file where that name is known."""
    for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
        place = (file, base.id) if isinstance(base, ast.Name) else None
        if isinstance(base, ast.Attribute):
            place = _in_module(file, base)
        if place is not None:
            yield place


def _name(file: Path, name: str) -> str:
    return f"{module_name(file)}.{name}"


def _of_modules(file: Path, definition: ast.AST) -> Iterator[tuple[Path, str]]:
    """What a definition takes of modules that its file imports: `losses.overlap(...)`."""
    for node in ast.walk(definition):
        place = _in_module(file, node) if isinstance(node, ast.Attribute) else None
        if place is not None:
            yield place


def _in_module(file: Path, node: ast.Attribute) -> tuple[Path, str] | None:
    """Where `losses.overlap` is defined, of a module that a file imports."""
    resolved = _imported_member(file, node)
    return split(resolved) if resolved is not None else None


@cache
def _file_of(resolved: str) -> Path | None:
    """The file that defines a function or class, or gives a variable its value."""
    for file, _ in _definitions(resolved):
        return file
    return _assigning(resolved)


def _assigning(resolved: str) -> Path | None:
    """The file that gives a variable its value (`scale = Scale.apply`), whichever file it is imported from."""
    seen: set[tuple[Path, str]] = set()
    place = split(resolved)
    waiting = [place] if place is not None else []
    while waiting and len(seen) < _MOST_NAMES:
        file, name = waiting.pop()
        if (file, name) in seen or not name.isidentifier():
            continue
        seen.add((file, name))
        if re.search(rb"^%s\s*=" % name.encode(), read_if_there(file), re.MULTILINE):
            return file
        waiting += _imported_from(file, name)
    return None


def _leads_to(file: Path, dotted: str, target: Path) -> bool:
    """True where a file has something of another one: `zoo.MODELS` where that makes it, or has the class of it."""
    first, *others = dotted.split(".")
    imported = _imports(file).get(first, "")
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
            waiting += [*_imported_from(current, root), *((current, maker) for maker in _makers(current, root))]
    return False


def _makers(file: Path, name: str) -> list[str]:
    """X of `name = X(...)` in a module."""
    if not name.isidentifier():
        return []
    words = rb"^%s\s*=\s*(\w+)\(" % name.encode()
    return [one.decode() for one in re.findall(words, read_if_there(file), re.MULTILINE)]


@cache
def _called_from(resolved: str) -> tuple[tuple[Path, _Definition], ...]:
    """A function with the functions that it calls, in its file and through its imports. Classes are not looked into."""
    found: dict[str, tuple[Path, _Definition]] = {}
    waiting = [resolved]
    while waiting and len(found) < _MOST_CALLED:
        name = waiting.pop(0)
        for file, definition in _definitions(name) if name not in found else ():
            if not isinstance(definition, ast.ClassDef):
                found[name] = file, definition
                calls = (node for node in ast.walk(definition) if isinstance(node, ast.Call))
                waiting += [target for call in calls if (target := _target(file, name, call.func)) is not None]
    return tuple(found.values())


def _target(file: Path, caller: str, function: ast.expr) -> str | None:
    """The resolved name of what a call means, by names of the module; `self.f` is a method of the caller's class."""
    if isinstance(function, ast.Name):
        return _imports(file).get(function.id) or member(module_name(file), function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.value.id == "self":
            return f"{caller.rpartition('.')[0]}.{function.attr}"
        return _imported_member(file, function)
    return None


def _imported_member(file: Path, node: ast.Attribute) -> str | None:
    """The resolved name of `losses.overlap`, where a file imports `losses`."""
    imported = _imports(file).get(node.value.id) if isinstance(node.value, ast.Name) else None
    return member(imported, node.attr) if imported is not None else None


@cache
def _imports(file: Path) -> dict[str, str]:
    """The resolved names of what a module imports by name, `as` what it is bound to."""
    found: dict[str, str] = {}
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.ImportFrom):
            module = canonical(file, "." * node.level + (node.module or ""))
            found |= {alias.asname or alias.name: member(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or bound] = canonical(file, bound)
    return found


def _handed_on(file: Path, name: str, known: dict[Path, str | None] | None = None) -> str | None:
    """The resolved name that a star import of a module gives a name which the module imports itself.

    `known` are the answers for modules on the way, None for those that are being asked: modules may import each other.
    """
    known = {} if known is None else known
    if file not in known:
        known[file] = None
        known[file] = _bound_at_end(file, name, known)
    return known[file]


def _bound_at_end(file: Path, name: str, known: dict[Path, str | None]) -> str | None:
    exported = _exported(file)
    if name.startswith("_") or (exported is not None and name not in exported):
        return None
    found = None
    for node in _at_import(_parsed(file).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found = _import_bound(file, node, name, known) or found
        elif isinstance(node, _Definition) and node.name == name:
            found = None
    return found


def _import_bound(
    file: Path, node: ast.Import | ast.ImportFrom, name: str, known: dict[Path, str | None]
) -> str | None:
    """What one import gives a name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if name == (alias.asname or alias.name.partition(".")[0]):
                return canonical(file, alias.name if alias.asname else name)
        return None
    module = canonical(file, "." * node.level + (node.module or ""))
    for alias in node.names:
        if name == (alias.asname or alias.name):
            return member(module, alias.name)
    place = split(module)
    if node.names[0].name == "*" and place is not None and not place[1]:
        return _handed_on(place[0], name, known)
    return None


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those in an `if` or a `try` included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            for inner in getattr(node, field, []) if isinstance(node, (ast.If, ast.Try)) else ():
                yield from _at_import(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


@cache
def _exported(file: Path) -> frozenset[str] | None:
    """The names in `__all__`; None for a module without one, or with one that is computed."""
    for node in _parsed(file).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            if isinstance(node.value, (ast.List, ast.Tuple)):
                given = [one.value for one in node.value.elts if isinstance(one, ast.Constant)]
                return frozenset(one for one in given if isinstance(one, str))
    return None


@cache
def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(read_if_there(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _imported_from(file: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Where a module has a name from that it does not define; of `Class.method`, the class."""
    first, dot, method = name.partition(".")
    for module, theirs, ours in _names_imported(file):
        if theirs == "*" or first == ours:
            place = split(member(module, first if theirs == "*" else theirs) + dot + method)
            if place is not None:
                yield place


@cache
def _names_imported(file: Path) -> tuple[tuple[str, str, str], ...]:
    """What a module imports from others: the module, the name there (`*` for all of them), and the name here."""
    return tuple(
        (canonical(file, "." * node.level + (node.module or "")), alias.name, alias.asname or alias.name)
        for node in _parsed(file).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


@cache
def _definitions_in(file: Path) -> dict[str, _Definition]:
    known: dict[str, _Definition] = {}
    for node in _parsed(file).body:
        if isinstance(node, _Definition):
            known[node.name] = node
        if isinstance(node, ast.ClassDef):
            known |= {f"{node.name}.{inner.name}": inner for inner in node.body if isinstance(inner, _Definition)}
    return known


def _computes_bce(file: Path, definition: _Definition) -> bool:
    """True for a binary cross entropy, and for the name of one that stands at the top of a file."""
    if "autocast" in _names_called(definition):
        return False
    names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    values = (value for name in names for value in _values_at_the_top(file, name))
    called = (_names_called(definition), *map(_names_in, values))
    return any(one & BINARY_CROSS_ENTROPIES for one in called)


def _names_called(node: ast.AST) -> set[str]:
    return {called_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}


def _names_in(value: ast.expr) -> set[str]:
    """Of `nn.BCELoss()`, `F.binary_cross_entropy` and `partial(F.binary_cross_entropy, reduction="sum")`."""
    parts = list(ast.walk(value))
    attributes = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return attributes | {part.id for part in parts if isinstance(part, ast.Name)}


def _values_at_the_top(file: Path, name: str) -> Iterator[ast.expr]:
    """What a variable of a module holds (`bce_loss = nn.BCELoss()`), whichever file it is imported from."""
    waiting, seen = [(file, name)], set[tuple[Path, str]]()
    while waiting and len(seen) < _MOST_NAMES:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            found = _assigned_in(place[0]).get(place[1])
            yield from found or ()
            waiting += _imported_from(*place) if found is None else ()


@cache
def _assigned_in(file: Path) -> dict[str, list[ast.expr]]:
    known: dict[str, list[ast.expr]] = {}
    for node in _parsed(file).body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                known.setdefault(target.id, []).append(node.value)
    return known


def _trains(function: ast.AST) -> bool:
    """True for a function with a backward, or a step of something that is no scheduler, profiler or environment."""
    methods = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(method.attr == "backward" or _steps(method) for method in methods if isinstance(method, ast.Attribute))


def _steps(method: ast.Attribute) -> bool:
    receiver = ast.unparse(method.value).lower()
    return method.attr == "step" and not any(word in receiver for word in _NO_OPTIMIZER)


def _reads_gradients(file: Path, function: ast.AST) -> bool:
    nodes = list(ast.walk(function))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    named |= {_imports(file).get(node.id, node.id).rpartition(".")[2] for node in nodes if isinstance(node, ast.Name)}
    cleared = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("zero_", "detach_", "requires_grad_")
    }
    return bool(named & GRADIENT_CLIPS) or any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in cleared
        and not (isinstance(node.value, ast.Name) and node.value.id == "autograd")
        for node in nodes
    )


def _speaks_of_gradients(definition: ast.AST) -> bool:
    attributes = {node.attr for node in ast.walk(definition) if isinstance(node, ast.Attribute)}
    names = attributes | {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    names -= {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
    words = ("grad", "norm", "clip", "backward", "hook")
    return "step" in attributes or any(word in name.lower() for name in names for word in words)


def forget_parsed(most: int) -> None:
    """Frees the syntax trees that are kept of files, where they are more than so many."""
    if _parsed.cache_info().currsize > most:
        for kept in (_parsed, _bound, _given_bool, _assigned_in, _definitions_in, _called_from):
            kept.cache_clear()
