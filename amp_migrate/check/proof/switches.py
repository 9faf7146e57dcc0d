"""The switches of an output: what makes a scaler or a region, with what each is given as `enabled`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product

from amp_migrate.check.proof.program import Scope
from amp_migrate.check.proof.result import Breach
from amp_migrate.check.proof.side import SCALERS, Side
from amp_migrate.check.proof.worlds import INVERSE, Keys, World

Switch = tuple[Scope, ast.Call]
_MOST_CONDITIONS = 6  # all their answers are tried
_MOST_HOPS = 6


def enabled(node: ast.Call) -> ast.expr | None:
    """What a switch is given as `enabled`; None where it is on in any case."""
    return next((one.value for one in node.keywords if one.arg == "enabled"), None)


def is_island(node: ast.Call) -> bool:
    """True for a region that is never on."""
    given = enabled(node)
    return isinstance(given, ast.Constant) and not given.value


def is_scaler(scope: Scope, node: ast.Call) -> bool:
    """True for a switch that makes a GradScaler."""
    return scope.file.dotted(node.func) in SCALERS


def contradictions(output: Side, switches: list[Switch]) -> Iterator[Breach]:
    """Scalers that can be on where a region of the same file, under the same conditions, is off."""
    given = [(scope, node, value) for scope, node in switches if (value := enabled(node)) and not is_island(node)]
    scalers = [one for one in given if is_scaler(*one[:2])]
    regions = [one for one in given if not is_scaler(*one[:2])]
    for (scope, _, on), (its, region, its_on) in product(scalers, regions):
        keys = output.keys
        conditions = sorted({*_conditions(keys, scope, on)} | {*_conditions(keys, its, its_on)})
        shared = {*_conditions(keys, scope, on)} & {*_conditions(keys, its, its_on)}
        if scope.file is not its.file or not shared or len(conditions) > _MOST_CONDITIONS:
            continue
        for answers in product((True, False), repeat=len(conditions)):
            world = World(keys, dict(zip(conditions, answers, strict=True)), output.carried, None)
            if world.truth(scope, on) and world.truth(its, its_on) is False:
                place = region.lineno, its.file.lines[region.lineno - 1].strip()
                yield Breach("switch", its.file.path, its.name, None, place, "the scaler can be on where this is off")
                break


def _conditions(keys: Keys, scope: Scope, node: ast.expr, hops: int = 0) -> Iterator[str]:
    """The conditions that a test is made of, each by its key."""
    if isinstance(node, ast.BoolOp):
        for one in node.values:
            yield from _conditions(keys, scope, one, hops)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _conditions(keys, scope, node.operand, hops)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        plain = INVERSE.get(type(node.ops[0]), type(node.ops[0]))
        yield keys.key(scope, ast.Compare(node.left, [plain()], node.comparators))
    elif isinstance(node, (ast.Name, ast.Attribute)):
        meant = keys.meant(scope, node) if hops < _MOST_HOPS else None
        if meant is not None and isinstance(meant[1], (ast.BoolOp, ast.UnaryOp, ast.Compare)):
            yield from _conditions(keys, *meant, hops + 1)
        else:
            yield keys.key(scope, node)
