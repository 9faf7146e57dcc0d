"""The units of all fixtures that migrate, with what becomes of them."""

from __future__ import annotations

import ast
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.indentation import with_spaces
from amp_migrate.rules.source_forms import PLAIN
from tests.fixture import FIXTURES, Fixture
from tests.structural.kinds import KINDS, Change
from tests.structural.roles import sets_scale
from tests.structural.syntax import Source
from tests.unit_fixture import UNIT_FIXTURES, UnitFixture

Tree = dict[str, bytes]


@dataclasses.dataclass(frozen=True)
class Case:
    """One unit: the tree before and after its migration, the paths of its files, and those that change, as they stand in
    the fixture. In the trees they are written as `ast` writes them, on both sides, so that a mutant differs from the
    output in what it is about and nowhere else.
    """

    name: str
    before: Tree
    after: Tree
    paths: tuple[str, ...]
    outputs: dict[str, str]
    is_plain: bool  # a training in float32, before


@dataclasses.dataclass(frozen=True)
class Mutant:
    case: Case
    path: str
    kind: str
    line: int  # in the output of the fixture
    source: Source
    change: Change

    def tree(self) -> Tree | None:
        """The tree with this mutant in it; None where Python could not read it."""
        text = self.change.apply(self.source)
        try:
            compile(text, self.path, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        return {**self.case.after, self.path: text.encode()}

    @property
    def text(self) -> str:
        """The line that it is about."""
        return self.source.text.splitlines()[self.line - 1].strip()


def all_fixtures() -> list[Fixture | UnitFixture]:
    single = [fixture for fixture in FIXTURES if fixture.migrates]
    return [*single, *(fixture for fixture in UNIT_FIXTURES if fixture.changes)]


def form_of(fixture: Fixture | UnitFixture) -> str:
    return fixture.folder.parent.name


def cases_of(fixture: Fixture | UnitFixture) -> list[Case]:
    """The units of a fixture that change."""
    if isinstance(fixture, Fixture):
        is_plain = form_of(fixture) == "plain"
        trees = ({"train.py": content} for content in (fixture.before, fixture.expected))
        return [_case(fixture.name, *trees, ("train.py",), is_plain)]
    before = _scripts(fixture.before)
    after = before | _scripts(fixture.changes)
    cases = (_case(f"units/{fixture.name}", before, after, *unit) for unit in _units(fixture))
    return [case for case in cases if case.outputs]


def _units(fixture: UnitFixture) -> list[tuple[tuple[str, ...], bool]]:
    """The files of each unit, as the migration puts them together, and whether it is a plain one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        results = fixture.migrate(root, fixture.before)
        forms: dict[tuple[str, ...], str] = {}
        for result in results:
            forms[result.members] = forms.get(result.members) or result.form
        return [
            (tuple(Path(path).relative_to(root).as_posix() for path in members), form == PLAIN)
            for members, form in forms.items()
        ]


def _scripts(tree: Tree) -> Tree:
    return {path: with_spaces(content) for path, content in tree.items() if path.endswith(".py")}


def _case(name: str, before: Tree, after: Tree, paths: tuple[str, ...], is_plain: bool) -> Case:
    changed = [path for path in paths if before[path] != after[path]]
    plain = ({**tree, **{path: _as_ast_writes(tree[path]) for path in changed}} for tree in (before, after))
    return Case(name, *plain, paths, {path: after[path].decode() for path in changed}, is_plain)


def _as_ast_writes(content: bytes) -> bytes:
    return ast.unparse(ast.parse(content)).encode()


def mutants_of(case: Case) -> Iterator[Mutant]:
    """All mutants of a unit."""
    for path, output in case.outputs.items():
        others = "\n".join(content.decode(errors="replace") for other, content in case.after.items() if other != path)
        source = Source(output, case.before[path].decode(), others, is_plain=case.is_plain)
        for kind, find in KINDS.items():
            for change in find(source):
                if not sets_scale(source, change.node):
                    yield Mutant(case, path, kind, getattr(change.node, "lineno", 1), source, change)
