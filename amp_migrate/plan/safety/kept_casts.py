"""Models that cast their activations by themselves, and go on doing so: `h = x.type(self.dtype)`.

Such a model once had half weights. Under autocast its casts do no harm: what takes weights casts its input anyway. Out
of autocast a half input meets float32 weights, and torch raises. So each of its forwards has to be in a region, and so
has what an autograd function computes once more in its backward:

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")       it remembers that autocast was on
        def forward(ctx, run, x): ...
        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")       and the second forward runs as the first
        def backward(ctx, grad):
            with torch.enable_grad():
                y = ctx.run(ctx.x)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.forwards import Forwards, own_calls
from amp_migrate.plan.regions.training import Region
from amp_migrate.plan.safety.reach import Reach

_TYPES = frozenset("torch.half torch.float16 torch.HalfTensor torch.cuda.HalfTensor".split())


def check_forwards_outside(
    facts: Facts, backwards: list[Backward], forwards: Forwards, reach: Reach, regions: list[Region]
) -> None:
    """Raises Refusal for a forward of the training that stays out of autocast, where a model casts by itself."""
    casting = next((owner for owner in facts.tree.classes if _casts(facts, owner)), None)
    if casting is None:
        return
    covered = {region.function for region in regions}
    for backward in backwards:
        for site in facts.calls.callers(backward.statement.function):
            if site.caller not in covered and site.caller.owner is not backward.statement.function.owner:
                message = f"no forward behind {facts.text(site.call)} is in sight, and {casting.name} needs autocast"
                raise Refusal("AMP908", site.call, message)
    inside = set(reach.statements)
    for function in _of_training(facts, regions):
        for statement in (inner for top in function.body.statements for inner in top.descendants()):
            if statement not in inside and forwards.runs_model_here(statement):
                message = f"this forward stays in float32, and {casting.name} casts its activations to half by itself"
                raise Refusal("AMP920", statement.node, message)


def recomputes(facts: Facts, backward: Function) -> bool:
    """True for the backward of a function that runs a forward once more, as checkpoints do."""
    inner = [one for top in backward.body.statements for one in top.descendants()]
    calls = [call for one in inner for call in own_calls(facts, one)]
    names = {called_name(call) for call in calls}
    return "enable_grad" in names and bool(names & {"grad", "backward"})


def _casts(facts: Facts, owner: Class) -> bool:
    """True for a module whose code names half, whatever for: but for methods that cast the module as a whole."""
    if "forward" not in owner.methods:
        return False
    for method in owner.methods.values():
        for statement in (inner for top in method.body.statements for inner in top.descendants()):
            for part in facts.tree.expressions(statement):
                if isinstance(part, cst.Attribute) and facts.names.dotted(part) in _TYPES:
                    return True
                if isinstance(part, cst.Call) and called_name(part) == "half" and not part.args:
                    return True
    return False


def _of_training(facts: Facts, regions: list[Region]) -> Iterator[Function]:
    """The functions that run in a training: those that lead to a region, with all that they call."""
    found = {region.function for region in regions}
    waiting = list(found)
    while waiting:
        function = waiting.pop()
        around = [site.caller for site in facts.calls.callers(function)]
        around += [function.parent] if function.parent is not None and not function.parent.is_module else []
        around += list(_constructors(function))
        waiting += [one for one in around if one not in found]
        found.update(around)
    seen: set[Function] = set()
    for function in sorted(found, key=lambda one: one.name):
        for reached in facts.calls.reachable(function):
            if reached not in seen:
                seen.add(reached)
                yield reached


def _constructors(function: Function) -> Iterator[Function]:
    """What makes the instance that a method runs on."""
    if function.owner is not None and "__init__" in function.owner.methods:
        yield function.owner.methods["__init__"]
