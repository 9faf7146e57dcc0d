"""Points at which a picture is sampled: half has 11 bits, so that one of 1,000 pixels is placed to half a pixel.

grid = F.affine_grid(theta, x.size())       =>      with autocast(enabled=False):
                                                        grid = F.affine_grid(theta.float(), x.size())
points = torch.matmul(rays, pixels)         =>      with autocast(enabled=False):
seen = torch.matmul(camera, points)                     points = torch.matmul(rays.float(), pixels)
...                                         =>      with autocast(enabled=False):
                                                        seen = torch.matmul(camera.float(), points.float())
F.grid_sample(x, seen[:, :2] / seen[:, 2:])

In a camera's matrix focal lengths are multiplied with distances, too, which pass 65504. What else makes such points (a
layer that predicts a flow) is said, not repaired.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import Statement, argument_value, called_name
from amp_migrate.findings import Inseparable
from amp_migrate.interp.place import Place
from amp_migrate.models import Operation, traits
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import keeps_float32
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import is_single_alone, isolate
from amp_migrate.rules.safety import SAMPLED_POINTS


def keep_coordinates(context: Context) -> None:
    """An island for each `affine_grid` and for each product that a grid is made of; a note for each `grid_sample` whose
    grid comes from elsewhere, and is not known to be float32.
    """
    calls = [call for call, _ in context.reach.calls()]
    made = {call for call in calls if called_name(call) in traits.named("grid") and _is_isolated(context, call)}
    for call in calls:
        grid = argument_value(call, "grid", 1) if called_name(call) in traits.named("sampling") else None
        if grid is None or context.precisions.behind(grid) in made or _isolate_products(context, grid):
            continue
        if context.precisions.of(grid) is not Precision.SINGLE or _comes_from_half(context, grid):
            context.note(call, SAMPLED_POINTS, f"{context.facts.text(grid)}, where it samples, may be made in half")


def _comes_from_half(context: Context, grid: cst.BaseExpression) -> bool:
    """True where some of it was rounded before it became float32."""
    return any(context.values.of(end.node).is_half for end in context.trace(Place(grid), keeps_float32).ends)


def _is_isolated(context: Context, call: cst.Call) -> bool:
    statement = context.facts.tree.statement_of(call)
    theta = argument_value(call, "theta", 0)
    if theta is None or not context.can_be_island(statement, call):
        if theta is not None and not isinstance(theta, cst.Name) and _is_all(statement, call):
            message = f"{context.facts.text(call.func)} stands in one statement with what makes its numbers"
            raise Inseparable(call, message, theta, ("theta", "transform"))
        return False
    if not is_single_alone(context, theta):
        context.safety.keep_float32(theta)
    context.safety.isolate(statement)
    return True


def _is_all(statement: Statement, call: cst.Call) -> bool:
    """True for `grid = affine_grid(...)` and `return grid_sample(x, affine_grid(...))`."""
    whole = statement.node.value if isinstance(statement.node, (cst.Assign, cst.Return)) else None
    args = [arg.value for arg in whole.args] if isinstance(whole, cst.Call) else []
    return whole is call or (call in args and all(one is call or isinstance(one, cst.Name) for one in args[:2]))


def _isolate_products(context: Context, grid: cst.BaseExpression) -> bool:
    """True where a grid is made of products, each of which is float32 now."""
    found = [one for one in context.trace(Place(grid), _is_on_the_way).made if context.is_product(one)]
    products = [one for one in found if context.runs(one.node)]
    for product in reversed(products):  # what is float32 by now needs no cast
        if context.is_in_half(product):
            isolate(context, product, "it makes points at which a picture is sampled")
    return any(context.facts.tree.statement_of(one.node) in context.safety.islands for one in products)


def _is_on_the_way(row: Operation) -> bool:
    return keeps_float32(row) or (row.product and in_half(row))
