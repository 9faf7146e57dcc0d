"""What came of one file."""

from __future__ import annotations

import dataclasses
from typing import Literal

from amp_migrate.findings import Finding

Status = Literal["untouched", "migrated", "left", "error"]


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome for one file.

    `status` is "untouched" where there is nothing to migrate, "migrated", "left" where a unit was refused, and
    "error" where the file could not be processed; `output` differs from `source` only if it is "migrated".
    `sites` counts the uses of the source form. `unit` holds the paths of the files that belong together with this one,
    itself included, each with the reason; it is empty for files with nothing to do. `plan` is the printed TrainingPlan,
    empty without one.
    """

    path: str
    source: bytes
    output: bytes
    status: Status
    findings: tuple[Finding, ...] = ()
    sites: int = 0
    unit: tuple[tuple[str, str], ...] = ()
    plan: str = ""

    @property
    def changed(self) -> bool:
        return self.output != self.source
