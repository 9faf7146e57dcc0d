"""Sums over a batch that are made by a product and kept: an overflow in them would stay for the rest of the training.

    counts = assigned.sum(0)                                              (float32 under autocast)
    sums = x.transpose(0, 1) @ assigned                  =>    with autocast(enabled=False):
    self.mean.data.mul_(0.99).add_(sums, alpha=0.01)               sums = x.transpose(0, 1).float() @ assigned.float()

What goes into the weights of a loss is scaled back by a skipped step; what a forward writes into a buffer is not.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name, walk
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.products import factors, isolate

_WRITES = frozenset("add_ copy_ lerp_ sub_".split())


def isolate_statistics(context: Context) -> None:
    """An island without autocast for each product whose result is written into what is kept."""
    for call, _ in list(context.reach.calls()):
        if called_name(call) not in _WRITES or not isinstance(call.func, cst.Attribute) or not _is_kept(call.func):
            continue
        for product in _products(context, call):
            isolate(context, product, factors(context.facts, product), "is kept")


def _is_kept(func: cst.Attribute) -> bool:
    """True for `self.mean.data.mul_(...).add_` and `self.mean.add_`: nothing that a statement before has made."""
    names = [part for part in walk(func.value) if isinstance(part, cst.Attribute)]
    return any(isinstance(one.value, cst.Name) and one.value.value == "self" for one in names)


def _products(context: Context, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The products that an argument is, or that its name was given just before."""
    for arg in call.args:
        value = context.precisions.behind(arg.value)
        for part in walk(value) if value is not None else ():
            if isinstance(part, (cst.BinaryOperation, cst.Call)) and factors(context.facts, part):
                yield part
