"""The fixtures: one folder each under `fixtures/<source form>/`.

before.py   a training script
after.py    what it has to become; absent where it must stay as it is
about.txt   a line that says what the fixture shows; `options: ...` where it needs any; then the findings,
            as `LINE CODE message`
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from amp_migrate import Options, Result, migrate_source

ROOT = Path(__file__).parent.parent / "fixtures"


@dataclasses.dataclass(frozen=True)
class Fixture:
    folder: Path
    shows: str
    options: Options
    findings: list[str]

    @property
    def name(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    @property
    def before(self) -> bytes:
        return (self.folder / "before.py").read_bytes()

    @property
    def migrates(self) -> bool:
        return (self.folder / "after.py").exists()

    @property
    def expected(self) -> bytes:
        return (self.folder / "after.py").read_bytes() if self.migrates else self.before

    @property
    def status(self) -> str:
        if self.migrates:
            return "migrated"
        return "left" if self.findings else "untouched"

    def migrate(self, source: bytes | None = None) -> Result:
        return migrate_source(self.before if source is None else source, self.options)


def read_fixture(folder: Path) -> Fixture:
    shows, *rest = (folder / "about.txt").read_text(encoding="utf-8").splitlines()
    words: list[str] = []
    if rest and rest[0].startswith("options: "):
        words = shlex.split(rest.pop(0).removeprefix("options: "))
    values = {"api": "torch.amp"}
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        values[name] = True if name == "repair_clip" else words.pop(0)
    return Fixture(folder, shows, Options(**values), [line for line in rest if line])


FIXTURES = [read_fixture(about.parent) for about in sorted(ROOT.glob("*/*/about.txt"))]
