"""DistributedDataParallel of torch is stricter than Apex's: it waits for the gradient of each parameter that asked for
one when the model was wrapped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.check.proof.kinds import DDP
from amp_migrate.check.proof.layers import Made, classes_of
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import File, Scope
from amp_migrate.check.proof.result import Assumption, Breach
from amp_migrate.check.proof.side import Side


def frozen_after_wrapping(original: Side, output: Side) -> Iterator[Breach | Assumption]:
    """Models that are wrapped in torch's class where Apex's stood, without `find_unused_parameters`, and that leave
    parameters without a gradient: they are frozen in part below that, here or in what is called there, or their classes
    do so. Of a model whose classes are out of sight, it is assumed that it does not.
    """
    if not any(b"apex" in file.source and b"DistributedDataParallel" in file.source for file in original.flow.files):
        return
    before = {(file.path, scope.name, ast.unparse(call)) for file, scope, call in _wrappings(original)}
    for file, scope, call in _wrappings(output):
        if (file.path, scope.name, ast.unparse(call)) in before:
            continue
        names = _names(call.args[0])
        below = list(_below(scope.function.body, call))
        if any(_freezes(output, scope, one, names) for one in below):
            message = "parameters are frozen after this wrapping, and torch waits for their gradients"
        elif (left := _left_out(output, scope, call.args[0])) is not None:
            message = f"{left} get no gradient in some iterations, and torch waits for them"
        else:
            if not classes_of(output.flow, scope, call.args[0]):
                what = f"each parameter of `{ast.unparse(call.args[0])}` gets a gradient in each iteration"
                yield Assumption(file.path, call.lineno, what)
            continue
        yield Breach(
            "wrapper", file.path, scope.name, None, (call.lineno, file.lines[call.lineno - 1].strip()), message
        )


def _wrappings(side: Side) -> Iterator[tuple[File, Scope, ast.Call]]:
    """The models that are wrapped in torch's class, which is not told to look for unused parameters."""
    for file in side.flow.files:
        for scope, call in file.calls:
            named = {one.arg for one in call.keywords}
            if file.dotted(call.func) in DDP and call.args and not {"find_unused_parameters", None} & named:
                yield file, scope, call


def _left_out(side: Side, scope: Scope, model: ast.expr) -> str | None:
    """Parameters of a model that its own classes leave out; None where none are seen."""
    for made in (Made(side.flow, one) for one in classes_of(side.flow, scope, model)):
        if any(_freezes(side, one, inner, {"self"}) for one in made.run_later() for inner in one.body):
            return f"parameters that {made.name} freezes"
        if made.skips_at_random():
            return f"layers that {made.name} skips at random"
        unread = made.unread()
        if unread is not None:
            return f"the parameters of {made.name}.{unread}, which nobody reads,"
    return None


def _below(body: Sequence[ast.stmt], node: ast.AST) -> Iterator[ast.stmt]:
    """The statements that follow a node, in its block and in those around."""
    for index, one in enumerate(body):
        if any(part is node for part in walk(one)):
            for field in ("body", "orelse", "finalbody"):
                yield from _below(getattr(one, field, None) or [], node)
            yield from body[index + 1 :]


def _freezes(
    side: Side, scope: Scope, statement: ast.stmt, names: set[str], seen: frozenset[Scope] = frozenset()
) -> bool:
    known = set(names)
    for part in walk(statement):
        if isinstance(part, ast.For) and _names(part.iter) & known:
            known |= _names(part.target)  # `for p in model.parameters():`
        elif isinstance(part, ast.Assign) and ast.unparse(part.value) == "False":
            target = part.targets[0]
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad" and _names(target.value) & known:
                return True
        elif isinstance(part, ast.Call):
            if ast.unparse(part).endswith(".requires_grad_(False)") and _names(part.func) & known:
                return True
            for callee in set(side.flow.certain(scope, part)) - seen:
                given = {name for name, arg in side.flow.given(scope, part, callee).items() if _names(arg) & known}
                if given and any(_freezes(side, callee, one, given, seen | {callee}) for one in callee.body):
                    return True
    return False


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}
