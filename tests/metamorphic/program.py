"""A fixture as syntax trees: what is rewritten, and what is migrated afterwards."""

from __future__ import annotations

import ast
import dataclasses
import tempfile
from functools import cache
from pathlib import Path, PurePosixPath

from amp_migrate import Options, Result, migrate_project, migrate_source
from tests.fixture import FIXTURES, Fixture
from tests.unit_fixture import UNIT_FIXTURES, UnitFixture, write_tree

ALONE = "train.py"  # what the script of a fixture of one file is called


@dataclasses.dataclass(eq=False)
class Program:
    """The Python files of a fixture by their paths, its other files, and which files are run as scripts."""

    name: str
    files: dict[str, ast.Module]
    others: dict[str, bytes]
    scripts: frozenset[str]
    options: Options

    @property
    def sources(self) -> dict[str, bytes]:
        """The content of each file, as Python's own printer writes it."""
        return {path: f"{ast.unparse(tree)}\n".encode() for path, tree in self.files.items()}

    def nodes(self) -> list[ast.AST]:
        """Every node of every file."""
        return [node for tree in self.files.values() for node in ast.walk(tree)]

    def module_names(self) -> dict[str, str]:
        """The path of each file by the name under which the project's root imports it."""
        return {module_name(path): path for path in self.files}


def module_name(path: str) -> str:
    """`pkg/steps.py` is `pkg.steps`, `pkg/__init__.py` is `pkg`."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def migrated(sources: dict[str, bytes], options: Options) -> list[Result]:
    """The results of a program: of a file alone as `migrate_source` has them, of several as a project of their own."""
    if set(sources) == {ALONE}:
        return [migrate_source(sources[ALONE], options)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, sources)
        (root / ".git").mkdir()
        results = migrate_project([root], options)
        return [dataclasses.replace(one, path=Path(one.path).relative_to(root).as_posix()) for one in results]


def source_of(fixture: Fixture | UnitFixture) -> dict[str, bytes]:
    """The files of a fixture, as they are on the disk."""
    return fixture.before if isinstance(fixture, UnitFixture) else {ALONE: fixture.before}


def program_of(fixture: Fixture | UnitFixture) -> Program:
    """A fixture, parsed anew, so that it can be changed."""
    files, others = {}, {}
    for path, content in source_of(fixture).items():
        try:
            if not path.endswith(".py"):
                raise SyntaxError
            files[path] = ast.parse(content)
        except SyntaxError:
            others[path] = content
    scripts = {run.script for run in fixture.runs} if isinstance(fixture, UnitFixture) else {ALONE}
    return Program(name_of(fixture), files, others, frozenset(scripts), fixture.options)


def name_of(fixture: Fixture | UnitFixture) -> str:
    """`apex/accumulation_window`, `units/checkpoint_helper`."""
    return f"units/{fixture.name}" if isinstance(fixture, UnitFixture) else fixture.name


@cache
def every_fixture(forms: frozenset[str] = frozenset()) -> dict[str, Fixture | UnitFixture]:
    """The fixtures by their names: all, or those in these folders. What is refused has to be refused in every spelling,
    what has nothing to migrate stays out. A comment that asks to be left alone would not survive Python's printer.
    """
    every: list[Fixture | UnitFixture] = [one for one in FIXTURES if one.status != "untouched"]
    every += UNIT_FIXTURES
    named = {name_of(one): one for one in every if not any(b"amp-migrate" in text for text in source_of(one).values())}
    return {name: one for name, one in named.items() if not forms or name.partition("/")[0] in forms}
