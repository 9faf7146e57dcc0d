"""Local modules that a script imports, as far as they can be found on disk, and what in them only apex makes right,
casts and reads of its state: they belong to no unit, yet without `amp.initialize` they break.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

from amp_migrate.files.bindings import called_name, imported, stars_of
from amp_migrate.files.imports import canonical, modules_in, package_of_names, split
from amp_migrate.files.read import read_regular
from amp_migrate.files.syntax import tree_of
from amp_migrate.models.queries import module_of
from amp_migrate.models.traits import named
from amp_migrate.vocabulary import IMPORTERS

_MOST_FILES = 400
# Registrations of torch's own functions mean the file that makes them: they go with it, or it is refused.
_CASTS = re.compile(rb"\bamp\s*\.\s*(?:register_)?(?:half|float|promote)_function\b(?!\s*\(\s*torch\b)")
_REGISTERED = re.compile(rb"""register_float_function\(\s*torch\s*,\s*["'](\w+)""")
# Layers with kernels for half weights, of which native AMP has none.
_HALF_LAYERS = re.compile(rb"\bapex(?:\.contrib)?(?:\.|[ \t]+import[ \t]+)(?:multihead_attn|mlp|fused_dense)\b")
_STATE = re.compile(rb"\b_amp_state\b")
_LEVEL = re.compile(rb"""[=!]=\s*["']O[123]["']""")
_HALF = re.compile(rb"\.half\(\s*\)")


@dataclasses.dataclass(frozen=True)
class NeighbourCast:
    """A local module that a migrated file imports, and what it does. One that `joins` can be migrated with the file."""

    file: Path
    what: str
    joins: bool


def casts_that_need_apex(path: Path, source: bytes, known: Collection[Path] = ()) -> list[NeighbourCast]:
    """The local modules, imported directly or through others, whose casts, or reads of the state of apex.amp, need the
    setup of this file; but for those in `known`. None where there is none, or where the modules are not on disk.
    """
    modules = list(local_modules(path, source))
    what = "has layers of Apex that take half weights only, and native AMP keeps weights in float32"
    using = (file for file, content in [(path, source), *modules] if _HALF_LAYERS.search(content))
    found = [NeighbourCast(file, what, joins=False) for file in using]
    registered = _operations(source)
    for file, content in modules:
        if _LEVEL.search(content) and _HALF.search(content):
            found.append(NeighbourCast(file, "casts to half by the level, and autocast has no levels", joins=False))
        elif file in known:
            continue
        elif b"apex" in content and _CASTS.search(content):
            what = "changes the casts of apex.amp, which work only where this file sets it up"
            found.append(NeighbourCast(file, what, joins=True))
        elif b"apex" in content and _STATE.search(content):
            found.append(NeighbourCast(file, "reads the state of apex.amp, which this file sets up", joins=False))
        elif registered is not None and registered.search(content):
            what = "calls an operation that is registered as a float function"
            found.append(NeighbourCast(file, what, joins=True))
    return found


def _operations(source: bytes) -> re.Pattern[bytes] | None:
    """The calls of operations of torch that a file registers: `torch.sigmoid(`, `nn.Sigmoid(`."""
    names = {name for name in _REGISTERED.findall(source) if name.decode() in named("float function")}
    if not names:
        return None
    modules = {module_of(name.decode()).rpartition(".")[2].encode() for name in names} - {b""}
    return re.compile(rb"\btorch\.(?:%s)\(|\b(?:%s)\(" % (b"|".join(sorted(names)), b"|".join(sorted(modules)) or b"$"))


def local_modules(path: Path, source: bytes) -> Iterator[tuple[Path, bytes]]:
    """The local files that a script imports, directly or through others, with their content; not the script."""
    seen = {path.resolve()}
    waiting = [(path, source)]
    while waiting and len(seen) < _MOST_FILES:
        for file in imported_files(*waiting.pop()):
            if file in seen:
                continue
            seen.add(file)
            try:
                found = read_regular(file)
            except OSError:
                continue
            yield file, found
            waiting.append((file, found))


def imported_files(path: Path, source: bytes) -> Iterator[Path]:
    """The local files that a script imports itself, by their resolved paths."""
    for node in _importing(source):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        known = [canonical(path, dotted) for dotted in (*names, *(name for _, name in imported(node)), *stars_of(node))]
        for found in map(split, (*known, *_imported_by_name(path, node))):
            if found is not None:
                yield found[0].resolve()


@lru_cache(_MOST_FILES)  # every file of a unit is asked what it imports through others
def _importing(source: bytes) -> list[ast.AST]:
    """The imports of a script, and its calls of functions that import."""
    return [
        node
        for node in ast.walk(tree_of(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        or (isinstance(node, ast.Call) and called_name(node) in IMPORTERS)
    ]


def _imported_by_name(path: Path, node: ast.AST) -> list[str]:
    """The canonical names of the modules that `import_module(name)` may mean: where run time alone knows the name,
    those of the package that it begins with (`"models." + name`), else those beside the file.
    """
    if not isinstance(node, ast.Call) or not node.args:
        return []
    given = node.args[0]
    if isinstance(given, ast.Constant):
        return [canonical(path, given.value)] if isinstance(given.value, str) and given.value else []
    first = next((one.value for one in ast.walk(given) if isinstance(one, ast.Constant)), "")
    if isinstance(first, str) and first.lstrip(".").endswith("."):
        return modules_in(package_of_names(path, first.rstrip(".")))
    return modules_in(str(path.resolve().parent))
