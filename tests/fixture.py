"""The fixtures of one file: a folder each under `fixtures/<source form>/` and `fixtures/companions/`.

before.py   a training script
after.py    what it has to become; absent where it must stay as it is
about.txt   a line that says what the fixture shows; where it needs any, `options: ...` for the migration,
            `arguments: ...` for the script, `guard: ...` for what turns its mixed precision on (both run with it;
            and once more the original without it, see rule G3), `verdict: VERDICT, REASON` where running both must
            not come out "same"; then the findings, as `LINE CODE message`
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from amp_migrate import Options, Result, migrate_source
from amp_migrate.selection import Selection

ROOT = Path(__file__).parent.parent / "fixtures"


@dataclasses.dataclass(frozen=True)
class Fixture:
    folder: Path
    shows: str
    options: Options
    arguments: tuple[str, ...]
    guard: tuple[str, ...]
    verdict: str  # of running both: "same", "different", or "not comparable"
    reason: str  # a part of it; empty for "same"
    findings: list[str]

    @property
    def name(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    @property
    def is_about_amp(self) -> bool:
        """False for scripts that may use nothing but what Apex has beside amp."""
        return self.folder.parent.name != "companions"

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
        is_left = any(code.startswith("AMP9") for _, code, *_ in map(str.split, self.findings))
        return "left" if is_left else "untouched"

    def migrate(self, source: bytes | None = None) -> Result:
        return migrate_source(self.before if source is None else source, self.options)


def read_fixture(folder: Path) -> Fixture:
    shows, *rest = (folder / "about.txt").read_text(encoding="utf-8").splitlines()
    headers = {"options": "", "arguments": "", "guard": "", "verdict": "same, "}
    while rest and rest[0].partition(":")[0] in headers:
        name, _, value = rest.pop(0).partition(": ")
        headers[name] = value
    verdict, _, reason = headers["verdict"].partition(", ")
    options = options_of(shlex.split(headers["options"]))
    arguments = tuple(shlex.split(headers["arguments"]))
    guard = tuple(shlex.split(headers["guard"]))
    return Fixture(folder, shows, options, arguments, guard, verdict, reason, [line for line in rest if line])


def options_of(words: list[str]) -> Options:
    values = {"api": "torch.amp"}
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        values[name] = True if name == "repair_clip" else words.pop(0)
    ignore = tuple(filter(None, values.pop("ignore", "").split(",")))
    return Options(**values, selection=Selection(ignore=ignore))


def _read_all(*forms: str) -> list[Fixture]:
    return [read_fixture(about.parent) for form in forms for about in sorted(ROOT.glob(f"{form}/*/about.txt"))]


FIXTURES = _read_all(*sorted(folder.name for folder in ROOT.iterdir() if folder.name not in ("pairs", "units")))
# Written by hand where no front end writes them yet: `verify` runs them, nothing migrates them.
PAIRS = _read_all("pairs")
