"""What the packaging files of a project ask for, read as text: nothing is executed, and no file has to parse.

Four layouts: pip's requirements files, the tables and lists of setup.py, setup.cfg, pyproject.toml and Pipfile, and
the environments of conda. `tomllib` comes with Python 3.11 only and setup.py is a program, so lists are found by
the name of the section or key in front of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

_TABLES = frozenset(("setup.py", "setup.cfg", "pyproject.toml", "Pipfile", "tox.ini"))
_YAML = (".yml", ".yaml")
_PIP_NAME = re.compile(r"(?:requirement|constraint)", re.IGNORECASE)
_SECTION = re.compile(r"\[\[?(\w[^\[\]]*)\]\]?\s*$")
_KEY = re.compile(r"""\s*["']?(?P<key>[\w.-]+)["']?(?:\[[^\]]*\])?\s*\+?=(?!=)\s*(?P<value>.*)""")
_ASKS = re.compile(r"requir|depend|extras|\bdeps\b", re.IGNORECASE)
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_DEPENDENCIES = re.compile(r"^dependencies:", re.MULTILINE)
_COMMENT = re.compile(r"(?<!\S)#[^\n]*")


@dataclasses.dataclass(frozen=True)
class Requirement:
    """One requirement as it is written, on a line counted from 1; `conda` where conda resolves it, else pip."""

    line: int
    text: str
    conda: bool = False


def declares_requirements(path: Path) -> bool:
    """True for the files that may say what pip or conda has to install, by name."""
    return path.name in _TABLES or _is_pip_file(path) or path.suffix in _YAML


def requirements(path: Path, text: str) -> Iterator[Requirement]:
    """The requirements in the text of such a file."""
    lines = without_comments(text).split("\n")
    if path.name in _TABLES:
        yield from _in_tables(path, lines)
    elif _is_pip_file(path):
        yield from _in_pip_file(lines)
    elif path.suffix in _YAML:
        yield from _in_conda_file(lines)


def remarks(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The comments of a requirements file or a conda environment: what is to be installed by hand stands there."""
    if _is_pip_file(path) or (path.suffix in _YAML and _DEPENDENCIES.search(text)):
        for number, line in enumerate(text.split("\n"), 1):
            comment = _COMMENT.search(line)
            if comment:
                yield number, comment[0]


def without_comments(text: str) -> str:
    """The text with comments blanked: every character keeps its place. The `#` of a URL starts none."""
    return _COMMENT.sub(lambda comment: " " * len(comment[0]), text)


def _is_pip_file(path: Path) -> bool:
    named = _PIP_NAME.search(path.name) or path.parent.name == "requirements"
    return bool(named) and path.suffix in (".txt", ".in", ".pip")


def _in_pip_file(lines: list[str]) -> Iterator[Requirement]:
    for number, line in enumerate(lines, 1):
        text = re.sub(r"^\s*(?:-e|--editable)[\s=]", "", line).strip()
        if text and not text.startswith("-"):
            yield Requirement(number, text)


def _in_tables(path: Path, lines: list[str]) -> Iterator[Requirement]:
    """What stands under a section or key that speaks of requirements."""
    section = key = ""
    for number, line in enumerate(lines, 1):
        header = _SECTION.match(line)
        if header:
            section, key = header[1], ""
            continue
        assigned = _KEY.match(line)
        if assigned:
            key = assigned["key"]
        if path.name == "Pipfile" or _ASKS.search(section) or _ASKS.search(key):
            yield from (Requirement(number, text) for text in _in_value(path, assigned, line))


def _in_value(path: Path, assigned: re.Match[str] | None, line: str) -> list[str]:
    value = assigned["value"] if assigned else line
    if assigned and path.suffix in ("", ".toml") and value.startswith(('"', "'", "{")):
        return [f"{assigned['key']} {value.strip()}"]  # `apex = "^0.1"`: the name is the key
    if path.suffix in (".cfg", ".ini"):
        return [text.strip() for text in re.split(r"[,;]", value)]
    return [quoted[2] for quoted in _QUOTED.finditer(value)]


def _in_conda_file(lines: list[str]) -> Iterator[Requirement]:
    """The items under `dependencies:`; what is indented below `- pip:` goes to pip."""
    inside, pip_indent = False, None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0 and not text.startswith("-"):
            inside, pip_indent = text == "dependencies:", None
        elif inside and text.startswith("- "):
            if pip_indent is not None and indent <= pip_indent:
                pip_indent = None
            if text == "- pip:":
                pip_indent = indent
            else:
                yield Requirement(number, text[2:].strip(" \"'"), conda=pip_indent is None)
