"""What the checks say about native AMP that somebody else wrote: reported, never changed."""

from __future__ import annotations

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.findings import Finding

_CODES = {
    "clip of scaled gradients": "AMP401",
    "unscale_ twice": "AMP402",
    "unscale_ after step": "AMP403",
    "step twice": "AMP404",
    "bare step": "AMP405",
    "plain backward": "AMP406",
    "update without step": "AMP407",
    "backward after unscale_": "AMP408",
    "backward without update": "AMP409",
    "backward under autocast": "AMP410",
    "criterion on half": "AMP411",
    "scaler in a loop": "AMP412",
    "scaler not saved": "AMP413",
    "foreign scaler": "AMP414",
    "update between steps": "AMP415",
    "scaled twice": "AMP416",
}


def review(facts: Facts) -> list[Finding]:
    """The mistakes in the native AMP of some files, in the order of their lines.

    Other files may use the same scalers: what cannot be told without them is no mistake.
    """
    return sorted(
        Finding(one.path, one.line, _CODES[one.kind], one.message, case=one.case) for one in check_module(facts)
    )
