"""Where a repository asks for NVIDIA's Apex, or speaks of it, outside of its Python code.

Nothing here is edited: only its owners know whether something else still needs Apex, and what a document has to say
instead. The files are read as text, line by line.

The package that PyPI calls `apex` is a toolkit for the web framework Pyramid (versions 0.9.8.dev0 to 0.9.10.dev0);
NVIDIA's is built from its repository, or comes from conda (`nvidia-apex` on conda-forge).
"""

from __future__ import annotations

import codecs
import dataclasses
import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.discover import files_below
from amp_migrate.files.read import read_if_there
from amp_migrate.files.requirements import declares_requirements, remarks, requirements, without_comments
from amp_migrate.findings import Finding
from amp_migrate.rules.beside import APEX_FROM_PYPI, APEX_FROM_SOURCE, OLD_LAUNCHER, SPEAKS_OF_APEX
from amp_migrate.rules.rule import Rule

_DOCUMENTS = ("*.md", "*.mdx", "*.rst", "readme", "readme.txt", "install", "install.txt")
_HISTORIES = ("change*", "history*", "news*", "release*")  # what they say of the past stays true
_SCRIPTS = ("*.sh", "*.bash", "*dockerfile*", "*.def", "makefile", "jenkinsfile", ".gitmodules")

_ON_PYPI = re.compile(r"apex(?![\w.-])")
_ON_CONDA = re.compile(r"(?:[\w-]+::)?(?:nvidia-)?apex(?![\w.-])")
# Any owner's: forks of NVIDIA's were common. `/apex/other` is another project of somebody called apex.
_REPOSITORY = r"[/:]apex(?:(?:\.git)?/?(?![\w/-])|/archive/)"
_SOURCE = re.compile(rf"{_REPOSITORY}|^apex/|^apex\s*@|(?:^|/)apex-[\d*]", re.IGNORECASE)

_ARGUMENTS = r"(?P<arguments>[^\n;&|`]*)"
_PIP_INSTALL = re.compile(rf"\bpip[\d.]*\s+install\s{_ARGUMENTS}")
_CONDA_INSTALL = re.compile(rf"\b(?:conda|mamba)\s+install\s{_ARGUMENTS}")
# Wheels from a page of their own win: all that PyPI has are pre-releases.
_FIND_LINKS = re.compile(r"(?:^|\s)(?:-f|--find-links)[\s=]")
_CLONE = re.compile(
    rf"(?:\bgit\s+clone|\bsubmodule\s+add|\bwget|\bcurl|^\s*url\s*=)\s[^\n;&|`]*?{_REPOSITORY}",
    re.IGNORECASE | re.MULTILINE,
)
# The launchers of before torchrun, with what they are given.
_LAUNCH = re.compile(
    rf"\bpython[\d.]*\s[^\n;&|`]*?-m\s+(?P<by>torch\.distributed\.launch|apex\.parallel\.multiproc){_ARGUMENTS}"
)
_LONGEST_LINE = 5_000  # an image in a document, a file that a tool has packed: our patterns would go back and forth
_WORDS = ("apex", "torch.distributed.launch")
# A word of its own: no option, path, file name or image. What else is called Apex lacks the words beside it.
_WORD = re.compile(r"(?<![\w./-])apex(?![\w-])|nvidia(?:\.github\.io/|[/-])apex", re.IGNORECASE)
_OF_TRAINING = re.compile(
    r"nvidia|\bimport\b|install|fp16|float16|mixed|precision|\bamp\b|cuda|distributed|optimizer|sync.?b"
    r"|apex(?:\.[a-z]|\s*[=<>~]=)",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True, order=True)
class _Found:
    line: int
    rule: Rule = dataclasses.field(compare=False)
    text: str
    cell: tuple[int, int] | None = None  # in a notebook: the number of the cell, and the line in it


def mentions(root: Path, needed_by: str | None = None) -> list[Finding]:
    """The findings for the repository at `root`: one for each file and rule, at the first line, in path order.

    `needed_by` is a place (`train.py:3`) that still imports Apex after the migration, None where there is none.
    Files that cannot be read are passed over.
    """
    need = f"{needed_by} still imports apex" if needed_by else "no Python file imports apex after the migration"
    # What a link points to is read on its own.
    return [one for file in files_below(root) if not file.is_symlink() for one in _findings(file, need)]


def mentions_in_notebook(notebook: Path, needed_by: str | None = None) -> list[Finding]:
    """The findings for a notebook of which nothing else is known."""
    need = f"{needed_by} still imports apex" if needed_by else "the notebook imports no apex after the migration"
    return list(_findings(notebook, need))


def _findings(file: Path, need: str) -> Iterator[Finding]:
    found = _in_notebook(file) if file.suffix == ".ipynb" else _in_file(file)
    for rule in sorted({one.rule for one in found}, key=lambda rule: rule.code):
        places = [one for one in found if one.rule is rule]
        what = _what(places) if rule is OLD_LAUNCHER else f"{_what(places)}; {need}"
        yield Finding(str(file), places[0].line, rule.code, what, places[0].cell)


def _what(places: list[_Found]) -> str:
    first = places[0]
    asked = {
        APEX_FROM_PYPI: f"asks PyPI for `{first.text}`",
        APEX_FROM_SOURCE: f"installs `{first.text}`",
        SPEAKS_OF_APEX: "speaks of Apex",
        OLD_LAUNCHER: f"starts a script in an old way: write `{first.text}`",
    }
    more = len({place.line for place in places}) - 1
    others = f" (and {more} more line{'s' if more > 1 else ''})" if more else ""
    return asked[first.rule] + others


def _in_file(file: Path) -> list[_Found]:
    """What one file says of Apex, in the order of its lines."""
    instructions = declares_requirements(file) or _fits(file, _SCRIPTS)
    if not instructions and (_fits(file, _HISTORIES) or not _fits(file, _DOCUMENTS)):
        return []
    text = _text(file)
    if not any(word in text.lower() for word in _WORDS):
        return []
    found = list(_in_instructions(file, text) if instructions else _in_document(text))
    launches = list(_launches(without_comments(text) if instructions else text))
    lines = {launch.line for launch in launches}  # what they say of Apex is the launcher
    return sorted([*launches, *(one for one in found if one.rule is not SPEAKS_OF_APEX or one.line not in lines)])


def _in_notebook(file: Path) -> list[_Found]:
    """What the cells tell a shell to do, in their order."""
    content = read_if_there(file)
    if not any(word.encode() in content for word in _WORDS):
        return []
    from amp_migrate.files.notebook import Notebook, NotebookError  # a tree without notebooks does not wait for it

    try:
        notebook = Notebook(content)
    except NotebookError:
        return []
    lines = list(notebook.commands())
    text = without_comments("\n".join(line if len(line) <= _LONGEST_LINE else "" for _, _, line in lines))
    return [
        dataclasses.replace(one, line=notebook.file_line(cell, number), cell=(cell.number, number))
        for one in sorted([*_commands(text), *_launches(text)])
        for cell, number, _ in [lines[one.line - 1]]
    ]


def _in_instructions(file: Path, text: str) -> list[_Found]:
    """What a machine is told to install; if nothing, what the comments tell people to install by hand."""
    found = [*_declared(file, text), *_commands(without_comments(text))]
    return found or [
        _Found(line, SPEAKS_OF_APEX, remark) for line, remark in remarks(file, text) if _WORD.search(remark)
    ]


def _in_document(text: str) -> list[_Found]:
    found = list(_commands(text))
    lines = {install.line for install in found}
    for number, line in enumerate(text.split("\n"), 1):
        if number not in lines and _WORD.search(line) and _OF_TRAINING.search(line):
            found.append(_Found(number, SPEAKS_OF_APEX, line.strip()))
    return found


def _declared(file: Path, text: str) -> Iterator[_Found]:
    for requirement in requirements(file, text):
        rule = _which(requirement.text, conda=requirement.conda)
        if rule is not None:
            yield _Found(requirement.line, rule, requirement.text)


def _commands(text: str) -> Iterator[_Found]:
    """Clones and installs; a command may go on over several lines."""
    joined = _on_one_line(text)
    for clone in _CLONE.finditer(joined):
        yield _Found(_line(text, clone.end()), APEX_FROM_SOURCE, " ".join(clone[0].split()))
    for pattern in (_PIP_INSTALL, _CONDA_INSTALL):
        for command in pattern.finditer(joined):
            for word in re.finditer(r"\S+", re.sub(r"\s#.*", "", command["arguments"])):
                name = word[0].lstrip("\"'(*").rstrip("\"')*.,:")
                rule = _which(name, conda=pattern is _CONDA_INSTALL)
                if rule is APEX_FROM_PYPI and _FIND_LINKS.search(command["arguments"]):
                    rule = APEX_FROM_SOURCE
                if rule is not None:
                    yield _Found(_line(text, command.start("arguments") + word.start()), rule, name)


def _launches(text: str) -> Iterator[_Found]:
    """Starts of scripts by the launchers of before torchrun, as torchrun takes them."""
    for launch in _LAUNCH.finditer(_on_one_line(text)):
        words = [word for word in launch["arguments"].split() if word != "--use_env"]
        script = next((at for at, word in enumerate(words) if word.endswith(".py")), len(words))
        given = words[: script + 1] + (["..."] if script + 1 < len(words) else [])
        # apex.parallel.multiproc started a process for each GPU
        number = ["--nproc_per_node=gpu"] if launch["by"].startswith("apex") else []
        yield _Found(_line(text, launch.start("by")), OLD_LAUNCHER, " ".join(["torchrun", *number, *given]))


def _on_one_line(text: str) -> str:
    """Commands that go on over several lines joined; every character keeps its place."""
    return re.sub(r"\\(\r?\n)", lambda end: " " * len(end[0]), text)


def _which(requirement: str, *, conda: bool) -> Rule | None:
    """Which Apex a requirement means, if any."""
    if _SOURCE.search(requirement) or (conda and _ON_CONDA.match(requirement)):
        return APEX_FROM_SOURCE
    return APEX_FROM_PYPI if _ON_PYPI.match(requirement) else None


def _fits(file: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(file.name.lower(), pattern) for pattern in patterns)


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _text(file: Path) -> str:
    """The file as text, without lines that nobody wrote.

    PowerShell's `pip freeze > requirements.txt` writes UTF-16, and pip reads it.
    """
    content = read_if_there(file)
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")
    return "\n".join(line if len(line) <= _LONGEST_LINE else "" for line in text.split("\n"))
