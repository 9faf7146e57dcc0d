"""What is in the code of a model that was trained with half weights, and is trained with float32 weights now."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.rules.half import DEPENDS_ON_HALF
from amp_migrate.rules.regions import UNKNOWN_FORWARD
from amp_migrate.vocabulary import HALF_TYPES, is_forward_again


def check_models(facts: Facts, reach: Reach) -> None:
    """Raises Refusal for a model that is made in half, which no GradScaler takes, and for a forward that casts to half
    by itself: it would depend on autocast being on.
    """
    for owner in reach.classes:
        for name, what in (("__init__", "makes weights in half"), ("forward", "casts to half by itself")):
            for method in facts.calls.reachable(owner.methods[name]) if name in owner.methods else ():
                node = _cast(facts, method, owner)
                if node is not None:
                    raise Refusal(DEPENDS_ON_HALF, node, f"{name} of {owner.name} {what}")


def check_users(facts: Facts, backwards: list[Backward], regions: list[Region]) -> None:
    """Raises Refusal for a loss that is given to the class that scales it, and whose forward is in no region."""
    covered = {region.function for region in regions}
    for backward in backwards:
        owner = backward.statement.function.owner
        for site in facts.calls.callers(backward.statement.function) if owner is not None else ():
            if site.caller not in covered and site.caller.owner is not owner:
                raise Refusal(UNKNOWN_FORWARD, site.call, f"the forward behind {facts.text(site.call)} is not in sight")


def recomputes(facts: Facts, backward: Function) -> bool:
    """True for the backward of a function that runs a forward once more, as checkpoints and reversible layers do."""
    inner = list(backward.descendants())
    return is_forward_again({called_name(call) for one in inner for call in facts.tree.calls(one)})


def _cast(facts: Facts, method: Function, owner: Class) -> cst.CSTNode | None:
    """`x.half()` and `x.to(torch.float16)` in what a forward runs."""
    if method.owner is not None and method.owner is not owner and "forward" in method.owner.methods:
        return None  # another model, which has its turn
    for statement in method.descendants():
        for part in facts.tree.expressions(statement):
            if isinstance(part, (cst.Name, cst.Attribute)) and facts.names.dotted(part) in HALF_TYPES:
                return part
            if isinstance(part, cst.Call) and called_name(part) == "half" and not part.args:
                return part
    return None
