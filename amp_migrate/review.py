"""What the checks say about native AMP that somebody else wrote: reported, never changed."""

from __future__ import annotations

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.findings import Finding
from amp_migrate.rules.native import (
    BACKWARD_AFTER_UNSCALE,
    BACKWARD_UNDER_AUTOCAST,
    CLIP_OF_SCALED,
    FOREIGN_SCALER,
    LOSS_ON_HALF,
    SCALED_TWICE,
    SCALER_IN_LOOP,
    SCALER_NOT_SAVED,
    STEP_PAST_SCALER,
    STEPPED_TWICE,
    UNSCALED_AFTER_STEP,
    UNSCALED_LOSS,
    UNSCALED_TWICE,
    UPDATE_BETWEEN_STEPS,
    UPDATE_MISSING,
    UPDATE_WITHOUT_STEP,
)

_RULES = {
    "clip of scaled gradients": CLIP_OF_SCALED,
    "unscale_ twice": UNSCALED_TWICE,
    "unscale_ after step": UNSCALED_AFTER_STEP,
    "step twice": STEPPED_TWICE,
    "bare step": STEP_PAST_SCALER,
    "plain backward": UNSCALED_LOSS,
    "update without step": UPDATE_WITHOUT_STEP,
    "backward after unscale_": BACKWARD_AFTER_UNSCALE,
    "backward without update": UPDATE_MISSING,
    "backward under autocast": BACKWARD_UNDER_AUTOCAST,
    "criterion on half": LOSS_ON_HALF,
    "scaler in a loop": SCALER_IN_LOOP,
    "scaler not saved": SCALER_NOT_SAVED,
    "foreign scaler": FOREIGN_SCALER,
    "update between steps": UPDATE_BETWEEN_STEPS,
    "scaled twice": SCALED_TWICE,
}


def review(facts: Facts) -> list[Finding]:
    """The mistakes in the native AMP of some files, in the order of their lines.

    Other files may use the same scalers: what cannot be told without them is no mistake.
    """
    return sorted(
        Finding(one.path, one.line, _RULES[one.kind].code, one.message, case=one.case) for one in check_module(facts)
    )
