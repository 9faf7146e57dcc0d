"""The multi-file fixtures: small projects, one folder each under `fixtures/units/`.

before/     the project
after/      the files of it that change, as they have to become; absent where the unit must stay as it is
about.txt   a line that says what the fixture shows; then headers as in `tests/fixture.py`, without `arguments:`, and
            `run: main.py --fp16` for each way to run it, in the project's root (`run in float32:` where the script
            switches mixed precision off); then the findings, as `PATH:LINE CODE message`
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from amp_migrate import Options, Result, migrate_project
from tests.fixture import options_of

ROOT = Path(__file__).parent.parent / "fixtures" / "units"

Tree = dict[str, bytes]  # the content of each file, by its path in the project


@dataclasses.dataclass(frozen=True)
class Run:
    script: str
    arguments: tuple[str, ...]
    mixed: bool  # in mixed precision

    def __str__(self) -> str:
        return " ".join([self.script, *self.arguments])


@dataclasses.dataclass(frozen=True)
class UnitFixture:
    folder: Path
    shows: str
    options: Options
    runs: list[Run]  # none where there is nothing to run
    verdict: str  # of running both: "same", "different", or "not comparable"
    reason: str  # a part of it; empty for "same"
    findings: list[str]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def before(self) -> Tree:
        return read_tree(self.folder / "before")

    @property
    def changes(self) -> Tree:
        """The files that migrating changes."""
        return read_tree(self.folder / "after")

    @property
    def expected(self) -> Tree:
        return {**self.before, **self.changes}

    def migrate(self, root: Path, project: Tree) -> list[Result]:
        """Lay the project out in the empty folder `root`, a repository of its own, and migrate it."""
        write_tree(root, project)
        (root / ".git").mkdir()
        return migrate_project([root], self.options)


_RUN_HEADERS = {"run": True, "run in float32": False}  # in mixed precision?


def read_unit_fixture(folder: Path) -> UnitFixture:
    shows, *rest = (folder / "about.txt").read_text(encoding="utf-8").splitlines()
    headers = {"options": "", "verdict": "same, "}
    runs = []
    while rest and (name := rest[0].partition(": ")[0]) in {*headers, *_RUN_HEADERS}:
        value = rest.pop(0).partition(": ")[2]
        if name in headers:
            headers[name] = value
        else:
            script, *arguments = shlex.split(value)
            runs.append(Run(script, tuple(arguments), _RUN_HEADERS[name]))
    verdict, _, reason = headers["verdict"].partition(", ")
    options = options_of(shlex.split(headers["options"]))
    return UnitFixture(folder, shows, options, runs, verdict, reason, [line for line in rest if line])


def read_tree(root: Path) -> Tree:
    """Every file below a folder, in the order of their paths; nothing where there is no such folder."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def write_tree(root: Path, tree: Tree) -> None:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


UNIT_FIXTURES = [read_unit_fixture(folder) for folder in sorted(ROOT.iterdir()) if folder.is_dir()]
