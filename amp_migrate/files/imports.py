"""From an import to the file behind it, as far as it can be found on disk.

A module of the project has a canonical name: its path without `.py`, for a package its folder. What is in it follows
after a dot: `/repo/pkg/utils.save`. Names of other packages stay as they are: `torch.nn`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from amp_migrate.files.discover import files_below
from amp_migrate.files.read import read_if_there

_PYTHON_PATH = re.compile(rb"\bPYTHONPATH=([^\n]*)")
_PATH_WORD = re.compile(r"[\w.-]+")
_MARKS = frozenset((".git", "README.md", "README", "README.rst", "setup.py", "pyproject.toml"))  # of a project's root
_QUOTED = re.compile(rb"""["']([^"'\n]+)["']""")
# Packages whose names decide what we do, and a submodule that only they have: a copy in the project is still them.
_HALLMARKS = {"apex": "amp", "torch": "nn"}
_given: set[str] = set()  # the folders that users name


def canonical(importer: Path, dotted: str) -> str:
    """The canonical name of `dotted`, as it is written in an import of the file `importer`.

    Relative imports (with their leading dots) are looked up from the package; absolute ones from the script's folder,
    then in what shell scripts put on PYTHONPATH, then in each folder above up to the repository's root (outside of a
    repository up to a folder that was given, or three), then in its `src`, then in the folders that scripts of these
    folders add to `sys.path`, then those of scripts beside it that add its own.
    What is not found there is returned unchanged.
    """
    bare = dotted.lstrip(".")
    level = len(dotted) - len(bare)
    parts = tuple(bare.split(".")) if bare else ()
    file = _resolved(importer)
    if level:
        package = str(file.parents[min(level, len(file.parents)) - 1])
        return _descend(package, parts) or _joined(package, parts)
    if not parts or parts[0] not in _first_names(str(file.parent)):
        return dotted  # as most are: of installed packages
    return _absolute(file, parts) or dotted


def member(base: str, name: str) -> str:
    """The canonical name of an attribute of `base`: a submodule, where `base` is a package that holds it."""
    if os.path.isabs(base) and (_is_package(base) or not _is_module(base)):
        return _descend(base, (name,)) or f"{base}.{name}"
    return f"{base}.{name}"


@cache
def split(name: str) -> tuple[Path, str] | None:
    """The file of a canonical name and what is left of it (`""` for the module itself); None where no file is known."""
    if not os.path.isabs(name):
        return None
    folder, _, last = name.rpartition(os.sep)
    parts = last.split(".")
    for end in range(len(parts), 0, -1):
        base = f"{folder}{os.sep}{'.'.join(parts[:end])}"
        if _is_package(base):
            return Path(base, "__init__.py"), ".".join(parts[end:])
        if _is_module(base):
            return Path(f"{base}.py"), ".".join(parts[end:])
    return None


def package_of_names(importer: Path, dotted: str) -> str:
    """The canonical name of a package whose modules are imported by names that only run time knows, as in
    `import_module("models." + name)`. A folder without an `__init__.py` is one by this use.
    """
    found = canonical(importer, dotted)
    if not os.path.isabs(found):
        folders = (os.path.join(root, *dotted.split(".")) for root in _roots(str(_resolved(importer).parent)))
        return next((folder for folder in folders if modules_in(folder)), found)
    return found


def modules_in(package: str) -> list[str]:
    """The canonical names of the modules in a package, or in a folder that is one by its use."""
    names = sorted(_names(package)) if os.path.isabs(package) else []
    return [_joined_path(package, name[:-3]) for name in names if name.endswith(".py") and name != "__init__.py"]


def importable(importer: Path) -> list[str]:
    """The canonical names of the other modules that the file `importer` can import by a name without dots."""
    itself = module_name(importer)
    found = (name for root in _roots(str(_resolved(importer).parent)) for name in modules_in(root))
    return [name for name in dict.fromkeys(found) if name != itself]


def module_name(file: Path) -> str:
    """The canonical name of the module in a file."""
    resolved = _resolved(file)
    if resolved.suffix != ".py":
        return str(resolved)  # a notebook, which nobody imports
    return str(resolved.parent if resolved.name == "__init__.py" else resolved.with_suffix(""))


def look_up_to(folders: Iterable[Path]) -> None:
    """Take what was given to be migrated for the root of a project, where it lies in no repository."""
    _given.update(str(_resolved(folder)) for folder in folders)
    _roots.cache_clear()
    _first_names.cache_clear()
    _absolute.cache_clear()


def forget() -> None:
    """Look at the disk again: what was found is remembered for the life of the process."""
    for lookup in (
        split,
        _first_names,
        _absolute,
        _followed,
        _roots,
        _names,
        _added_to_path,
        _defines,
        _words_of_python_path,
    ):
        lookup.cache_clear()


@cache
def _first_names(folder: str) -> frozenset[str]:
    """What an absolute import of a script in `folder` may begin with, if it is of the project."""
    return frozenset(name.removesuffix(".py") for root in _roots(folder) for name in _names(root))


@cache
def _absolute(file: Path, parts: tuple[str, ...]) -> str | None:
    itself = module_name(file) if file.name != "__init__.py" else None
    roots = _roots(str(file.parent))
    for root in roots:
        if parts[0] in sys.stdlib_module_names and _is_package(root):
            continue  # `import logging` beside a `logging.py` of the same package means Python's
        if parts[0] in _HALLMARKS and not _is_namesake(root, parts):
            continue
        if _is_in_the_way(root, parts, roots):
            continue
        found = _descend(root, parts)
        is_itself = itself is not None and f"{found}.".startswith(f"{itself}.")
        if found is not None and (not is_itself or (not _is_package(root) and _defines(f"{itself}.py", parts[-1]))):
            return found  # `import wandb` in a wandb.py means the package, but a self-test may import its own class
    return None


def _is_in_the_way(folder: str, parts: tuple[str, ...], roots: tuple[str, ...]) -> bool:
    """True for `a.b` in a folder that holds a module `a.py` of its own, where a folder `a` with a module `b` lies
    further up: a module has no module in it. (Where it has a class or a variable of that name, a script beside it that
    says `from a import b` means that.)
    """
    own = _joined_path(folder, parts[0])
    if len(parts) == 1 or _is_package(own) or not _is_module(own):
        return False
    others = (_joined_path(root, parts[0]) for root in roots[roots.index(folder) + 1 :])
    below = [_joined_path(other, parts[1]) for other in others]
    return any(_is_module(one) or _is_package(one) for one in below) and not _defines(f"{own}.py", parts[1])


@cache
def _defines(file: str, name: str) -> bool:
    """True for a class, a function or a variable at the top of a file."""
    bound = rb"^(?:class +|def +|(?=\w+ *[:=]))%s\b" % name.encode()
    return re.search(bound, read_if_there(Path(file)), re.MULTILINE) is not None


def _is_namesake(root: str, parts: tuple[str, ...]) -> bool:
    """True for a package of the project that has nothing but its name in common with Apex or torch."""
    package = _joined_path(root, parts[0])
    return _descend(package, (_HALLMARKS[parts[0]],)) is None and _descend(package, parts[1:]) is not None


def _descend(folder: str, parts: tuple[str, ...]) -> str | None:
    """The deepest module that `parts` lead to below a folder, with the names that are left; None for none at all."""
    if not parts:
        return None
    below, rest = _joined_path(folder, parts[0]), parts[1:]
    if _is_package(below):
        return _descend(below, rest) or _joined(str(_followed(below)), rest)
    if _is_module(below):
        return _joined(module_name(Path(f"{below}.py")), rest)
    return _descend(below, rest) if parts[0] in _names(folder) else None


def _joined(module: str, names: tuple[str, ...]) -> str:
    return ".".join((module, *names))


def _joined_path(folder: str, name: str) -> str:
    return f"{folder.rstrip(os.sep)}{os.sep}{name}"


def _is_package(path: str) -> bool:
    folder, _, name = path.rpartition(os.sep)
    return name in _names(folder) and "__init__.py" in _names(path)


def _is_module(path: str) -> bool:
    folder, _, name = path.rpartition(os.sep)
    return f"{name}.py" in _names(folder)


@cache
def _names(folder: str) -> frozenset[str]:
    """What is in a folder; nothing where there is none."""
    try:
        return frozenset(os.listdir(folder or os.sep))
    except OSError:
        return frozenset()


def _resolved(path: Path) -> Path:
    return _followed(os.path.abspath(path))  # the current folder may change while we remember


@cache
def _followed(path: str) -> Path:
    return Path(path).resolve()


@cache
def _roots(folder: str) -> tuple[str, ...]:
    """Where an absolute import of a script in `folder` may start."""
    above = (Path(folder), *_folders_above(Path(folder)))
    if os.path.exists(above[0] / ".git"):
        above = above[:1]
    added = (below for one in above for below in _added_to_path(str(one)))
    own, *others = map(str, above)
    return tuple(
        dict.fromkeys((own, *_on_python_path(above), *others, str(above[-1] / "src"), *added, *_adding(folder)))
    )


def _on_python_path(above: tuple[Path, ...]) -> Iterator[str]:
    """The folders right below some folders that shell scripts of their repository name in PYTHONPATH:

    export PYTHONPATH=$ROOT/models:$ROOT/utils:$PYTHONPATH
    """
    roots = [str(one) for one in above if not _MARKS.isdisjoint(_names(str(one)))]
    words = _words_of_python_path(roots[-1]) if roots else frozenset()
    for folder in map(str, above):
        for name in sorted(words & _names(folder)):
            below = _joined_path(folder, name)
            if os.path.isdir(below):
                yield below


@cache
def _words_of_python_path(root: str) -> frozenset[str]:
    """What stands in PYTHONPATH in the shell scripts of a project."""
    scripts = (file for file in files_below(Path(root)) if file.suffix == ".sh")
    lines = (line for file in scripts for line in _PYTHON_PATH.findall(read_if_there(file)))
    words = {word for line in lines for word in _PATH_WORD.findall(line.decode("utf-8", "replace"))}
    return frozenset(words - {"PYTHONPATH", ".", ".."})


def _adding(folder: str) -> Iterator[str]:
    """The folders beside a folder whose scripts add it to `sys.path`: what they run with lies beside them."""
    if ".git" in _names(folder):
        return
    parent = os.path.dirname(folder)
    for name in sorted(_names(parent)):
        beside = _joined_path(parent, name)
        if beside != folder and "." not in name and folder in _added_to_path(beside):
            yield beside


@cache
def _added_to_path(folder: str) -> tuple[str, ...]:
    """The folders that its scripts name where they change `sys.path`, as they stand there, or right below it or its
    parent:

    sys.path.insert(0, osp.join(osp.dirname(__file__), "..", "lib"))
    """
    scripts = [Path(folder, name) for name in sorted(_names(folder)) if name.endswith(".py")]
    sources = (source for source in map(read_if_there, scripts) if b"sys.path" in source)
    said = {text.decode("utf-8", "replace") for source in sources for text in _QUOTED.findall(source)}
    words = {word for text in said for word in text.split("/")}
    near = [Path(folder), Path(folder).parent] if ".git" not in _names(folder) else [Path(folder)]
    found = [str(base / name) for base in near for name in sorted(words & _names(str(base)))]
    found += [os.path.normpath(_joined_path(folder, text)) for text in sorted(said) if text.startswith("../")]
    return tuple(one for one in found if os.path.isdir(one))


def _folders_above(folder: Path) -> Iterator[Path]:
    """The folders above a folder, up to the repository's root; outside of a repository up to one that was given, or
    three.
    """
    repository = next((depth for depth, above in enumerate(folder.parents) if os.path.exists(above / ".git")), None)
    given = (depth for depth, above in enumerate(folder.parents) if str(above) in _given)
    yield from islice(folder.parents, 1 + (max([2, *given]) if repository is None else repository))
