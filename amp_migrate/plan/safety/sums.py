"""Losses that are summed, not averaged: the scaler starts too high for them (rule H8).

criterion(output, target).sum().backward()
F.cross_entropy(output, target, reduction="sum").backward()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding
from amp_migrate.plan.model import Backward
from amp_migrate.plan.safety.reach import Reach


def summed_losses(facts: Facts, reach: Reach, backwards: Iterable[Backward]) -> Iterator[Finding]:
    """A finding for each criterion under autocast that sums over the batch, and for each loss that is a sum itself."""
    noted: set[cst.Call] = set()
    for call, statement in reach.calls():
        for one in (call, *_made(facts, call.func)):
            if one not in noted and _sums(one) and not _is_divided(facts, call, statement):
                noted.add(one)
                yield facts.finding(one, "AMP187", f"{facts.text(one.func)} sums over the batch")
    for backward in backwards:
        loss = backward.loss
        values = [loss, *facts.objects.values_of(loss)] if isinstance(loss, (cst.Name, cst.Attribute)) else [loss]
        if any(isinstance(value, cst.Call) and _is_torchs_sum(value) for value in values):
            yield facts.finding(backward.call, "AMP187", f"{facts.text(loss)} is a sum over the batch")


def _is_divided(facts: Facts, call: cst.Call, statement: Statement) -> bool:
    """True for `F.l1_loss(x, y, reduction="sum") / n`, and for a sum that is divided afterwards: it is an average."""
    node = statement.node
    target = node.targets[0].target if isinstance(node, cst.Assign) and node.value is call else None
    name = target.value if isinstance(target, cst.Name) else None
    parts = [part for later in statement.next_siblings() for part in walk(later.node)]
    dividends = [one for part in (facts.tree.parents.get(call), *parts) if (one := _dividend(part)) is not None]
    return any(one is call or (isinstance(one, cst.Name) and one.value == name) for one in dividends)


def _dividend(node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """What is divided, in place or not."""
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.DivideAssign):
        return node.target
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return node.left
    return None


def _is_torchs_sum(call: cst.Call) -> bool:
    """True for `loss.sum()` and `torch.sum(loss)`; Python's own adds up losses, not the samples of a batch."""
    return called_name(call) == "sum" and isinstance(call.func, cst.Attribute)


def _made(facts: Facts, node: cst.BaseExpression) -> Iterator[cst.Call]:
    """The calls that made what a name means: `nn.MSELoss(reduction="sum")` for `criterion`."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        yield from facts.objects.calls_behind(node)


def _sums(call: cst.Call) -> bool:
    given = {arg.keyword.value: literal_value(arg.value) for arg in call.args if arg.keyword is not None}
    return given.get("reduction") == "sum" or (given.get("size_average") is False and given.get("reduce") is not False)
