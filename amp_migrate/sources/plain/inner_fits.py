"""Fits of a few tensors within a training step: they stay in float32.

    class Fit:
        def __call__(self, points, wanted):
            shift = torch.zeros(3, requires_grad=True)
            optimizer = torch.optim.Adam([shift])
            for _ in range(20):
                ...
                loss.backward()
                optimizer.step()

    for points, wanted in loader:
        target = fit(points, wanted)
        loss = criterion(net(wanted), target)

A GradScaler made there would start anew with every batch, and skip most of the few steps until its scale fits.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.interp.steps import Steps
from amp_migrate.plan.steps.inputs import makes_tensor
from amp_migrate.rules.plain import UNKNOWN_CALLER
from amp_migrate.sources.plain.losses import Loss


def is_inner_fit(facts: Facts, loss: Loss, losses: list[Loss]) -> bool:
    """True where the function of a loss makes an optimizer of tensors of its own, and another training runs it.

    Raises Refusal where it cannot be said, since files out of sight use the function.
    """
    function = loss.statement.function
    if function.is_module or not _makes_optimizer_of_tensors(facts, loss):
        return False
    others = {one.statement.function for one in losses} - {function}
    if any(facts.calls.reaches(one, {function}.__contains__) for one in others):
        return True
    if facts.is_used_outside(function.outermost) or facts.calls.value_uses(function):
        raise Refusal(UNKNOWN_CALLER, loss.call, f"{function.outermost.name} may run for each batch", case="fit")
    return False


def _makes_optimizer_of_tensors(facts: Facts, loss: Loss) -> bool:
    calls = (call for inner in loss.statement.function.descendants() for call in facts.tree.calls(inner))
    made = [call for call in calls if (facts.names.dotted(call.func) or "").startswith("torch.optim.") and call.args]
    return bool(made) and all(_is_of_tensors(facts, call) for call in made)


def _is_of_tensors(facts: Facts, call: cst.Call) -> bool:
    origins = [one.origin for one in facts.objects.elements(call.args[0].value)]
    steps = facts.analysis(Steps)
    return bool(origins) and all(isinstance(one, cst.BaseExpression) and makes_tensor(steps, one) for one in origins)
