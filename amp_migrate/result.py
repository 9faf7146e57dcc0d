"""What came of one file."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from amp_migrate.findings import Finding

if TYPE_CHECKING:
    from amp_migrate.check.proof import Proof
    from amp_migrate.seen import Seen

Status = Literal["untouched", "migrated", "left", "error"]


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome for one file.

    `status` is "untouched" where there is nothing to migrate, "migrated", "left" where a unit was refused, and
    "error" where the file could not be processed; `output` differs from `source` only if it is "migrated".
    `sites` counts the uses of the source form. `unit` holds the paths of the files that belong together with this one,
    itself included, each with the reason; it is empty for files with nothing to do. `plan` is the printed TrainingPlan,
    empty without one. `form` is the code of the source form that was found, empty without one. `ignored` counts the
    findings that nobody wants to see. `companions` counts the uses of other parts of Apex: in the source, and in what
    the migration makes of it. With `only_companions` its unit was refused, and nothing but these changes in the file.
    `needs` are the paths of files in other units that have to be written for this one to be right. `proof` is what was
    shown of its unit and what was assumed, None where nothing changes. `seen` is what was recognised in it, `also` what
    would prevent its migration beside the findings.
    """

    path: str
    source: bytes
    output: bytes
    status: Status
    findings: tuple[Finding, ...] = ()
    sites: int = 0
    unit: tuple[tuple[str, str], ...] = ()
    plan: str = ""
    form: str = ""
    ignored: int = 0
    companions: tuple[int, int] = (0, 0)
    only_companions: bool = False
    needs: tuple[str, ...] = ()
    proof: Proof | None = None
    seen: tuple[Seen, ...] = ()
    also: tuple[Finding, ...] = ()

    @classmethod
    def broken(cls, path: str, source: bytes, message: str) -> Result:
        """The outcome for a file that a bug of ours, or of what it runs on, has stopped."""
        from amp_migrate.rules.units import INTERNAL_ERROR

        return cls(path, source, source, "error", (Finding(path, 1, INTERNAL_ERROR.code, message),))

    def left_with(self, other: str) -> Result:
        """The outcome where a file that this one needs stays as it is."""
        from amp_migrate.rules.units import BELONGS_TOGETHER

        finding = Finding(self.path, 1, BELONGS_TOGETHER.code, f"belongs together with {other}, which stays as it is")
        return dataclasses.replace(self, output=self.source, status="left", findings=(finding,), plan="")

    @property
    def members(self) -> tuple[str, ...]:
        """The paths of the files of the unit, this one alone where it belongs to none."""
        return tuple(path for path, _ in self.unit) or (self.path,)

    @property
    def form_status(self) -> Status:
        """What became of the source form of its unit."""
        return "left" if self.only_companions and self.status == "migrated" else self.status

    @property
    def companions_left(self) -> int:
        """The uses of other parts of Apex that stay."""
        found, staying = self.companions
        return staying if self.changed else found

    @property
    def first_line(self) -> int:
        """The line (from 1) of the source where the first change would be made."""
        lines = zip(self.source.splitlines(), self.output.splitlines(), strict=False)
        return next((number for number, (old, new) in enumerate(lines, 1) if old != new), 1)

    @property
    def changed(self) -> bool:
        return self.output != self.source
