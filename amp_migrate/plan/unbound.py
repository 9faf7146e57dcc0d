"""Names that certainly nothing binds: the script stops there with a NameError."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.rules.regions import UNKNOWN_FORWARD


def not_bound(facts: Facts, call: cst.Call, place: cst.CSTNode) -> Refusal | None:
    """The refusal of a call by such a name, `amp.scale_loss(...)` without an import, to be shown at a place."""
    name = facts.names.unbound_root(call.func)
    if name is None:
        return None
    message = f"nothing in this file binds `{name}` of {facts.text(call)}"
    return Refusal(UNKNOWN_FORWARD, place, message, case="unbound")
