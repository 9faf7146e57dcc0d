"""`torch.cuda.amp` to `torch.amp`: a rewrite of spelling, without a thought of what the names do.

    with torch.cuda.amp.autocast(use_amp):      with torch.amp.autocast("cuda", enabled=use_amp):
    from torch.cuda.amp import GradScaler       from torch.amp import GradScaler
    scaler = GradScaler(1024.0)                 scaler = GradScaler("cuda", 1024.0)
    @custom_fwd                                 @custom_fwd(device_type="cuda")

A name changes with everything that uses it, or stays. Facts by version: [T x.y.z] as of the reference, section 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.files.torch_version import FIRST_WITH_TORCH_AMP
from amp_migrate.findings import Finding
from amp_migrate.modernise.groups import Group, find_groups
from amp_migrate.modernise.rewrite import rewrite
from amp_migrate.modernise.traps import traps
from amp_migrate.native.edits import Edits


@dataclasses.dataclass(frozen=True)
class Modernised:
    """What to change, what to say, and every use of the old names, changed or not."""

    edits: Edits
    findings: Sequence[Finding]
    sites: Sequence[cst.CSTNode]


def modernise(facts: Facts, torch: tuple[int, int] | None) -> Modernised:
    """The new spelling of native AMP for a project that supports torch from this version on.

    With a torch older than 2.3, or None, the old names are right, and only mistakes in the use of the new ones are
    reported.
    """
    groups = find_groups(facts, torch) if torch is not None and torch >= FIRST_WITH_TORCH_AMP else []
    edits = rewrite(facts, groups)
    findings = [_finding(facts, group) for group in groups if group.stays is not None] + list(traps(facts))
    sites = [use.node for group in groups for use in group.uses]
    return Modernised(edits, sorted(set(findings)), sites)


def _finding(facts: Facts, group: Group) -> Finding:
    assert group.stays is not None
    return facts.finding(group.stays.node, group.stays.rule, group.stays.message, group.stays.case)


__all__ = ["Modernised", "modernise"]
