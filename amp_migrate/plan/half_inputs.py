"""Inputs that are cast to half by hand: they only fit a model that runs in mixed precision.

scores = model(images.half())                 refused where the forward would stay in float32
matrix[i, j : j + n] = scores.half()          what comes out of a model, and is stored, may be half
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, names_in
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.tensors import leaves_torch
from amp_migrate.rules.regions import HALF_INPUTS


def cast_outside(facts: Facts, regions: list[Region], forwards: Forwards) -> Iterator[Statement]:
    """Statements outside of every region that run a model on what is cast to half in them."""
    for statement in facts.tree.all_statements():
        casts = any(called_name(call) == "half" for call in facts.tree.calls(statement))
        if casts and forwards.runs_model_here(statement) and not any(one.covers(statement) for one in regions):
            yield statement


def check_half_inputs(facts: Facts, found: Recognition, left: list[Statement]) -> None:
    """Raise Refusal for a cast in a function with forwards that are `left` in float32."""
    functions = {statement.function for statement in left}
    if left and not found.backwards:  # what inference is given may come from anywhere
        functions = {one for one in facts.tree.functions if facts.may_run(one)}
    for statement in facts.tree.all_statements():
        if statement.function not in functions or (isinstance(statement.node, cst.Expr) and statement not in left):
            continue
        for part in facts.tree.expressions(statement):
            if not isinstance(part, cst.Call) or called_name(part) != "half" or part.args:
                continue
            if not leaves_torch(facts, part) and not _is_stored(facts, statement, left):
                message = f"{facts.text(part)} feeds a model whose forward would stay in float32"
                raise Refusal(HALF_INPUTS, part, message)


def _is_stored(facts: Facts, statement: Statement, forwards: list[Statement]) -> bool:
    """True for `matrix[i, j] = scores.half()`, unless a forward reads the matrix."""
    targets = [one.target for one in statement.node.targets] if isinstance(statement.node, cst.Assign) else []
    stores = [target.value for target in targets if isinstance(target, cst.Subscript)]
    names = {name for store in stores for name in names_in(store)}
    read = {name for forward in forwards for part in facts.tree.expressions(forward) for name in names_in(part)}
    return len(stores) == len(targets) > 0 and statement not in forwards and not names & read
