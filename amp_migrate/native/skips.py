"""Writing the question whether a step was skipped."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.native.edits import Edits
from amp_migrate.plan.steps.skips import SkipTest


def write_skip(facts: Facts, skip: SkipTest, scaler: str, edits: Edits, *, is_first: bool) -> None:
    """`not optimizer.overflow` becomes `scaler.get_scale() >= scale`; the first one for a step keeps the scale."""
    if is_first:
        edits.insert_before(skip.step, f"{skip.name} = {scaler}.get_scale()")
    parent = facts.tree.parents.get(skip.node)
    if skip.taken:
        edits.replace(skip.node, f"{scaler}.get_scale() >= {skip.name}")
        return
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        edits.replace(parent, f"{scaler}.get_scale() >= {skip.name}")
        return
    text = f"{scaler}.get_scale() < {skip.name}"
    stands_alone = isinstance(
        parent, (cst.If, cst.IfExp, cst.BooleanOperation, cst.Assign, cst.Arg, cst.Return, cst.While)
    )
    edits.replace(skip.node, text if stands_alone else f"({text})")
