"""Names for what a migration adds."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.rules.regions import UNKNOWN_FORWARD


def free_name(facts: Facts, *candidates: str) -> str:
    """The first of the names that the file uses for nothing else."""
    taken = {name for name, _ in facts.objects.all_stores()}
    for part, _ in facts.tree.every(cst.Name):
        if _is_taken(facts, part):
            taken.add(part.value)
    return next((name for name in candidates if name not in taken), f"amp_{candidates[0]}")


def _is_taken(facts: Facts, name: cst.Name) -> bool:
    """True for names of their own, and for attributes of `self`, which a base class may set elsewhere."""
    parent = facts.tree.parents.get(name)
    if isinstance(parent, cst.Attribute) and parent.attr is name:
        return isinstance(parent.value, cst.Name) and parent.value.value == "self"
    return not facts.tree.is_label(name)


# Names that certainly nothing binds: the script stops there with a NameError.


def not_bound(facts: Facts, call: cst.Call, place: cst.CSTNode) -> Refusal | None:
    """The refusal of a call by such a name, `amp.scale_loss(...)` without an import, to be shown at a place."""
    name = facts.names.unbound_root(call.func)
    if name is None:
        return None
    message = f"nothing in this file binds `{name}` of {facts.text(call)}"
    return Refusal(UNKNOWN_FORWARD, place, message, case="unbound")
