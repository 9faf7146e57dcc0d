"""Losses that are summed, not averaged: the scaler starts too high for them (rule H8).

criterion(output, target).sum().backward()
F.cross_entropy(output, target, reduction="sum").backward()

A sum that is divided at once, by the sum of a mask or by the number of samples, is an average.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Finding
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.models import traits
from amp_migrate.plan.model import Backward
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.rules.safety import SUMMED_LOSS


def summed_losses(facts: Facts, reach: Reach, backwards: Iterable[Backward]) -> Iterator[Finding]:
    """A finding for each criterion under autocast that sums over the batch, and for each loss that is a sum itself."""
    noted: set[cst.Call] = set()
    for call, _ in reach.calls():
        for one in (call, *_made(facts, call.func)):
            if one not in noted and _sums(one) and not _is_averaged(facts, call):
                noted.add(one)
                yield facts.finding(one, SUMMED_LOSS, f"{facts.text(one.func)} sums over the batch")
    steps = facts.analysis(Steps)
    for backward in backwards:
        ways = trace(steps, Place(backward.loss), moves)
        may_be_several = any(isinstance(one.node, cst.Tuple) and not one.keys for one in ways.places)
        ends = [made for made in ways.ends if made.is_plain or not may_be_several]  # a loss is one number
        if any(_is_sum(steps, made) for made in ends):
            text = facts.text(backward.loss)
            yield facts.finding(backward.call, SUMMED_LOSS, f"{text} is a sum over the batch")


def _is_sum(steps: Steps, made: Made) -> bool:
    """False for `(targets * logits).mean(0).sum()`, which sums averages over the batch."""
    summed = trace(steps, made.operands[0], moves).ends if made.is_a("sum") and made.operands else ()
    return made.is_a("sum") and not any(one.is_a("mean") for one in summed)


def _is_averaged(facts: Facts, call: cst.Call) -> bool:
    """True for `criterion(x, y) / n`, and for `loss = criterion(x, y)` before `loss /= n`, or where every use of it is
    `loss / n`.
    """
    parent = facts.tree.parents.get(call)
    if not isinstance(parent, cst.Assign) or not isinstance(parent.targets[0].target, cst.Name):
        return _is_divided(facts, call)
    bindings = facts.names.bindings_at(parent.targets[0].target)
    if any(one.statement is not None and _divides(one.statement.node) for one in bindings):
        return True
    loads = facts.names.loads_at(parent.targets[0].target) if len(bindings) == 1 else []
    return bool(loads) and all(_is_divided(facts, load) for load in loads)


def _divides(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.DivideAssign)


def _is_divided(facts: Facts, node: cst.CSTNode) -> bool:
    """True for `F.kl_div(p, q, reduction="sum") * t ** 2 / len(p)`, and for a sum with it: not for a number. So is
    `F.cross_entropy(x, y, reduction="sum").div(len(x))`.
    """
    above = facts.tree.parents.get(node)
    if isinstance(above, cst.Attribute) and above.attr.value in traits.named("quotient"):
        call = facts.tree.parents.get(above)
        return isinstance(call, cst.Call) and bool(call.args) and literal_value(call.args[0].value) is UNKNOWN
    while isinstance(above, cst.BinaryOperation) and isinstance(above.operator, (cst.Add, cst.Multiply, cst.Divide)):
        if isinstance(above.operator, cst.Divide):
            if above.right is node:
                return False
            if literal_value(above.right) is UNKNOWN:
                return True
        node, above = above, facts.tree.parents.get(above)
    return False


def _made(facts: Facts, node: cst.BaseExpression) -> Iterator[cst.Call]:
    """The calls that made what a name means: `nn.MSELoss(reduction="sum")` for `criterion`."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        yield from facts.objects.calls_behind(node)


def _sums(call: cst.Call) -> bool:
    given = {arg.keyword.value: literal_value(arg.value) for arg in call.args if arg.keyword is not None}
    return given.get("reduction") == "sum" or (given.get("size_average") is False and given.get("reduce") is not False)
