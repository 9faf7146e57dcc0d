"""Tests of whether there is a gradient: `p.grad is None` is as true of scaled gradients."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts


def asks_whether_there_is(facts: Facts, gradient: cst.Attribute) -> bool:
    """True for the `p.grad` of `p.grad is None` and `p.grad is not None`."""
    test = facts.tree.parents.get(gradient)
    return isinstance(test, cst.Comparison) and all(
        isinstance(one.operator, (cst.Is, cst.IsNot)) for one in test.comparisons
    )
