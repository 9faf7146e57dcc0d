"""The source forms, in the order of precedence: a unit has one (rule H1)."""

from __future__ import annotations

from collections.abc import Callable

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition
from amp_migrate.sources import apex_amp, fp16_utils, half, plain

_FORMS: tuple[Callable[[Facts], tuple[Recognition, list[Refusal]]], ...] = (
    apex_amp.recognise,
    fp16_utils.recognise,
    half.recognise,
    plain.recognise,
)


def recognise(facts: Facts) -> tuple[Recognition, list[Refusal]]:
    """What the first form with a site in the files found, and every reason why it cannot all be migrated."""
    for form in _FORMS:
        found, refusals = form(facts)
        if found.sites:
            break
    return found, refusals
