"""Which spelling of native AMP a project's torch allows (rule J5).

`torch.amp.GradScaler` exists since torch 2.3. What the project declares counts first, then the torch that is
installed here; where neither is known, `torch.cuda.amp` works with every torch since 1.6.
"""

from __future__ import annotations

import dataclasses
import os
import re
from importlib import metadata
from pathlib import Path

from amp_migrate.files.read import read_if_there
from amp_migrate.options import Api

FIRST_WITH_TORCH_AMP = (2, 3)
_FIRST_WITH_NATIVE_AMP = (1, 6)
# `torch>=1.7`, `torch (>=1.5)`, `pytorch::pytorch=1.7`, `torch = "^1.10"`, `torch = {version = "1.10.0"}`,
# `.../torch-1.7.0-cp38-...whl`; what follows the name is kept for the bounds.
_REQUIREMENT = re.compile(
    r"""(?:^\s*-?|["'\s:/])(?:py)?torch(?:-(?=\d)|["']?\s*=\s*\{\s*version\s*=\s*|\s*=\s*(?=["'])|\s*\(\s*|\s*(?=[=<>!~^]))"""
    r"""["']?(?P<specifier>[\d=<>!~^][^\n"';}#]*)""",
    re.MULTILINE,
)
_BOUND = re.compile(r"(?P<operator>[=<>!~^]=?=?)?\s*(?P<version>\d+(?:\.\d+)*)")
_DECLARING = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "requirements.txt",
    "requirements.in",
    "environment.yml",
    "environment.yaml",
)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """Which torch a project asks for (`==1.4.0`), on a `line` (from 1) of a file that says `text`."""

    file: Path
    line: int
    text: str
    specifier: str

    @property
    def oldest(self) -> tuple[int, int]:
        """The oldest torch that it admits; (0, 0) where it gives no lower bound."""
        for bound in _BOUND.finditer(self.specifier):
            if bound["operator"] in (None, "==", ">=", "~=", "=", "===", ">", "^", "~"):
                return _pair(bound["version"])
        return (0, 0)

    @property
    def is_before_native_amp(self) -> bool:
        """True where it names a version without native AMP as the oldest, or the only one."""
        return (0, 0) < self.oldest < _FIRST_WITH_NATIVE_AMP


@dataclasses.dataclass(frozen=True, order=True)
class Spelling:
    """How native AMP is spelled in a file, and why: in words that end a line."""

    api: Api
    why: str


def spelling_in(file: Path, configured: tuple[int, int] | None) -> Spelling:
    """What the oldest torch of a file's project allows."""
    version, why = _oldest(file, configured)
    api = api_for(version)
    return Spelling(api, why if api == "torch.amp" else f"{why}; --api torch.amp for 2.4 and newer")


def api_for(version: tuple[int, int] | None) -> Api:
    """The spelling for the oldest torch to be supported; None where it is not known."""
    return "torch.amp" if version is not None and version >= FIRST_WITH_TORCH_AMP else "torch.cuda.amp"


def declared_torch(path: Path | None) -> tuple[int, int] | None:
    """The oldest torch that the project of a file declares to support; (0, 0) without a lower bound, None if it says
    nothing. What is installed here says nothing about where else the project runs.
    """
    found = declaration(path) if path is not None else None
    return found.oldest if found is not None else None


def oldest_torch(path: Path, configured: tuple[int, int] | None) -> tuple[int, int] | None:
    """The oldest torch that a file's project admits: the `configured` one, else the declared, else the installed."""
    return _oldest(path, configured)[0]


def _oldest(file: Path, configured: tuple[int, int] | None) -> tuple[tuple[int, int] | None, str]:
    """The same, and where it is said."""
    if configured is not None:
        return configured, f"target-torch is {_dotted(configured)}"
    declared = declaration(file)
    if declared is not None:
        oldest = _dotted(declared.oldest) if any(declared.oldest) else "of any age"
        return declared.oldest, f"{os.path.relpath(declared.file)}:{declared.line} admits torch {oldest}"
    installed = _installed()
    if installed is not None:
        return installed, f"torch {_dotted(installed)} is installed here"
    return None, "no torch is declared or installed here"


def declaration(path: Path) -> Declaration | None:
    """What the nearest packaging file above a file says of torch; None where nothing does."""
    folder = path.resolve().parent
    for current in (folder, *folder.parents):
        for name in _DECLARING:
            found = _declared_in(current / name) if os.path.isfile(current / name) else None
            if found is not None:
                return found
        if os.path.exists(current / ".git"):
            return None
    return None


def _declared_in(file: Path) -> Declaration | None:
    lines = [line.split("#")[0] for line in _text(file).splitlines()]
    found = _REQUIREMENT.search("\n".join(lines))
    if found is None:
        return None
    line = found.string.count("\n", 0, found.start("specifier")) + 1
    return Declaration(file, line, lines[line - 1].strip(" \t,"), found["specifier"])


def _installed() -> tuple[int, int] | None:
    try:
        return _pair(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _pair(version: str) -> tuple[int, int]:
    parts = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return (parts[0], parts[1] if len(parts) > 1 else 0)


def _text(file: Path) -> str:
    return read_if_there(file).decode("utf-8", errors="replace")
