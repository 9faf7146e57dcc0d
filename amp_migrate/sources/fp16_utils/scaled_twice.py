"""Losses that the script multiplies by the loss scale itself, beside an FP16_Optimizer that scales them as well.

    optimizer = FP16_Optimizer(optimizer, static_loss_scale=args.loss_scale)
    ...
    loss = loss * args.loss_scale
    optimizer.backward(loss)

One of the two is taken back before the step. Natively it is the same, so the product stays; but nobody wants it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.findings import Finding
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.fp16_utils import LOSS_TIMES_SCALE

_LOSS_SCALE = re.compile(r"(?:^|_)loss_?scale$", re.IGNORECASE)
_DEEPEST = 3  # from the loss of a backward through names


def scaled_twice(facts: Facts, found: Recognition) -> Iterator[Finding]:
    """Where a loss that a wrapper scales is multiplied by its scale."""
    scales = [one for setup in found.setups for one in (setup.loss_scale.name, setup.loss_scale.runtime)]
    keys = {source_key(one) for one in scales if isinstance(one, (cst.Name, cst.Attribute))}
    told: set[cst.BaseExpression] = set()
    for backward in found.backwards:
        for factor in _factors(facts, backward.loss, _DEEPEST):
            name = factor.attr if isinstance(factor, cst.Attribute) else factor
            is_scale = source_key(factor) in keys or (isinstance(name, cst.Name) and _LOSS_SCALE.search(name.value))
            if is_scale and factor not in told:
                told.add(factor)
                message = f"the loss is multiplied by {facts.text(factor)}, and then scaled: one of the two stays in"
                yield facts.finding(factor, LOSS_TIMES_SCALE, f"{message} its gradients")


def _factors(facts: Facts, loss: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
    """What a loss is multiplied by, in its own expression and in those that its name is bound to."""
    if isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, cst.Multiply):
        yield from (loss.left, loss.right)
        yield from _factors(facts, loss.left, depth)
        yield from _factors(facts, loss.right, depth)
    variable = facts.names.definition(loss) if depth and isinstance(loss, cst.Name) else None
    for binding in variable.bindings if variable is not None else ():
        node = binding.statement.node if binding.statement is not None else None
        if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.MultiplyAssign):
            yield node.value
        elif binding.kind == "assign" and binding.value is not None and not binding.selector:
            yield from _factors(facts, binding.value, depth - 1)
