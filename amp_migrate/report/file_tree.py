"""The tree of files of a repository's page: folders with what is in them; files with nothing to do are counted only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import PurePosixPath
from typing import NamedTuple

from amp_migrate.report.diff import repository_path
from amp_migrate.result import Result

_FOLDED = 100  # files from which on a tree begins with its first folders alone


class Leaf(NamedTuple):
    """A file of the page: the place of its section, the classes that filters ask for, and what became of it."""

    anchor: str
    classes: str
    status: str


class _Folder:
    def __init__(self) -> None:
        self.folders: dict[str, _Folder] = {}
        self.files: dict[str, Leaf] = {}
        self.quiet = 0

    def leaves(self) -> Iterator[Leaf]:
        """The files below it that have something to say."""
        yield from self.files.values()
        for folder in self.folders.values():
            yield from folder.leaves()

    def is_quiet(self) -> bool:
        """True where a file below it has nothing to say."""
        return bool(self.quiet) or any(folder.is_quiet() for folder in self.folders.values())


def file_tree(results: Iterable[Result], leaves: Mapping[str, Leaf]) -> str:
    """An element with links; `leaves` are the files that have a section, by the paths of their results."""
    root = _Folder()
    for result in results:
        folder = root
        *above, name = PurePosixPath(repository_path(result.path)).parts
        for part in above:
            folder = folder.folders.setdefault(part, _Folder())
        if result.path in leaves:
            folder.files[name] = leaves[result.path]
        else:
            folder.quiet += 1
    return _list(root, folded=len(leaves) > _FOLDED)


def _list(folder: _Folder, *, folded: bool) -> str:
    rows = [_folder(name, inner, folded=folded) for name, inner in sorted(folder.folders.items())]
    rows += [_file(name, leaf) for name, leaf in sorted(folder.files.items())]
    if folder.quiet:
        rows.append(f'<li class="quiet untouched">{folder.quiet} with nothing to do</li>')
    return f"<ul>{''.join(rows)}</ul>"


def _folder(name: str, folder: _Folder, *, folded: bool) -> str:
    """A folder that holds nothing but another one, or one file, shares its line."""
    while len(folder.folders) == 1 and not folder.files and not folder.quiet:
        ((inner, folder),) = folder.folders.items()
        name = f"{name}/{inner}"
    if not folder.folders and len(folder.files) == 1 and not folder.quiet:
        ((inner, leaf),) = folder.files.items()
        return _file(f"{name}/{inner}", leaf)
    told = list(folder.leaves())
    classes = {one for leaf in told for one in leaf.classes.split()} | ({"untouched"} if folder.is_quiet() else set())
    inside = _list(folder, folded=folded)
    head = f"<summary>{escape(name)}/ <small>{len(told) or ''}</small></summary>"
    opened = " open" if told and not folded else ""
    return f'<li data-has="{" ".join(sorted(classes))}"><details{opened}>{head}{inside}</details></li>'


def _file(name: str, leaf: Leaf) -> str:
    mark = f'<i role="img" title="{leaf.status}" aria-label="{leaf.status}"></i>'
    words = escape(name).replace("/", "/<wbr>")  # breaks at folders, where it has to
    return f'<li class="{leaf.classes}"><a href="#{leaf.anchor}">{mark}{words}</a></li>'
