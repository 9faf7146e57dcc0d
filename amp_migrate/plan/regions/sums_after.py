"""Sums of half outputs after a region: outside of autocast they are half, and infinite beyond 65504.

    def overlap(found, wanted):
        return 2 * (found * wanted).sum() / (found * found).sum()       =>      (found * found).float().sum()

    with autocast(...):
        scores = model(images)
    print(overlap(torch.sigmoid(scores), wanted))

A product with a float32 tensor is float32; squares of one mask of 256 x 256 pixels are not. What trained in half before
has summed half as well; a plain loop never did, nor did Apex's O1, which patched sums everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.interp.place import Place
from amp_migrate.interp.values import Values
from amp_migrate.models import names
from amp_migrate.models.queries import is_sum


def halves_summed_after(facts: Facts, values: Values) -> Iterator[cst.BaseExpression]:
    """X of each `X.sum()` and `torch.sum(X)` outside of autocast that may be half for all that is in sight."""
    for call, statement in facts.tree.every(cst.Call):
        if called_name(call) not in names(is_sum) or values.runs_under_autocast([statement]):
            continue
        for made in values.steps.of(Place(call)).made:
            value = values.at(made.operands[0]) if made.operands and made.cast is None else None
            if value is not None and value.may_be_half and not value.is_open:
                yield made.operands[0].node
