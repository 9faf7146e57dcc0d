"""Points at which a picture is sampled: half has 11 bits, so that one of 1,000 pixels is placed to half a pixel.

grid = F.affine_grid(theta, x.size())       =>      with autocast(enabled=False):
                                                        grid = F.affine_grid(theta.float(), x.size())

What else makes such points (products of camera matrices, in functions far away) is said, not repaired.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import is_single_alone


def keep_coordinates(context: Context) -> None:
    """An island for each `affine_grid`; a note for each `grid_sample` whose grid is not known to be float32."""
    calls = [call for call, _ in context.reach.calls()]
    made = {call for call in calls if called_name(call) == "affine_grid" and _is_isolated(context, call)}
    for call in calls:
        grid = argument_value(call, "grid", 1) if called_name(call) == "grid_sample" else None
        value = context.precisions.value_before(grid) if isinstance(grid, cst.Name) else grid
        if grid is not None and value not in made and context.precisions.of(grid) is not Precision.SINGLE:
            context.note(call, "AMP188", f"{context.facts.text(grid)}, where it samples, may be made in half")


def _is_isolated(context: Context, call: cst.Call) -> bool:
    statement = context.facts.tree.statement_of(call)
    theta = argument_value(call, "theta", 0)
    if theta is None or not context.can_be_island(statement, call):
        return False
    if not is_single_alone(context, theta):
        context.safety.keep_float32(theta)
    context.safety.isolate(statement)
    return True
