"""Scaled gradients reach nobody: what runs between a scaled backward and the unscaling does not touch them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.check.proof.by_hand import is_gradient
from amp_migrate.check.proof.flow import Carriers, key_of
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Scope
from amp_migrate.check.proof.result import Assumption, Breach
from amp_migrate.check.proof.side import Side
from amp_migrate.models import names, traits
from amp_migrate.models.queries import scales

_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "get_total_norm")
_SUMS = ("all_reduce", "reduce", "broadcast", "append")  # they commute with a scale
_KNOWN = ("torch.", "builtins.", "logging.", "tqdm.", "numpy.", "math.", "time.", "os.", "sys.", "wandb.", "apex.")


_MESSAGE = "the gradients that this reads are still scaled"


def scaled_gradients(side: Side, original: Side | None = None) -> Iterator[Breach | Assumption]:
    """Calls between backward and unscaling: of code at hand that reads gradients, and of objects out of sight that were
    given the model or the optimizer. Of what is written by hand after an `original`, statements that read them
    themselves, too, unless they read scaled ones there as well.
    """
    search = _Search(side, original)
    for scope in side.flow.functions:
        yield from search.block(scope, scope.body, [False])


class _Search:
    def __init__(self, side: Side, original: Side | None) -> None:
        self.side = side
        self.original = original
        self.flow = side.flow
        self.trained = Carriers(side.flow, lambda file, node: False, {*side.trained.found, *_stepped(side)})
        calls = [one for file in side.flow.files for one in file.calls]
        scaled = [(scope, call.args[0]) for scope, call in calls if call.args and _is_method(call, "scale")]
        self.losses = {key_of(scope, one) for scope, one in scaled}
        self._touches: dict[Scope, bool] = {}

    def block(self, scope: Scope, statements: Sequence[ast.stmt], scaled: list[bool]) -> Iterator[Breach | Assumption]:
        """`scaled` holds one value: whether gradients are scaled where the block is; it is changed on the way."""
        for one in statements:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            inner = [getattr(one, field) for field in ("body", "orelse", "finalbody") if getattr(one, field, None)]
            if not inner:
                yield from self._statement(scope, one, scaled)
            after = []
            for block in inner:
                state = list(scaled)
                yield from self.block(scope, block, state)
                after.append(state[0])
            if inner:
                scaled[0] = all(after) if isinstance(one, ast.If) and len(after) > 1 else after[0]

    def _statement(self, scope: Scope, node: ast.stmt, scaled: list[bool]) -> Iterator[Breach | Assumption]:
        if self.original is not None and scaled[0] and not _clips(node) and _reads_gradients(node):
            if "get_scale" not in ast.unparse(node) and not _read_scaled(self.original, scope, node):
                line = node.lineno, scope.file.lines[node.lineno - 1].strip()
                yield Breach("scaled gradients", scope.file.path, scope.name, None, line, _MESSAGE)
        for call in [part for part in walk(node) if isinstance(part, ast.Call)]:
            kind = self._kind(scope, call)
            if kind == "scaled":
                scaled[0] = True
            elif kind == "unscaled":
                scaled[0] = False
            elif scaled[0]:
                found = self._looks(scope, call) if "get_scale" not in ast.unparse(node) else None
                if found is not None:
                    yield found

    def _kind(self, scope: Scope, call: ast.Call) -> str:
        func = call.func
        if not isinstance(func, ast.Attribute):
            return ""
        if func.attr == "backward" and isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Attribute):
            if func.value.func.attr == "scale" and self.side.scalers.holds(scope, func.value.func.value):
                return "scaled"
        is_scaler = self.side.scalers.holds(scope, func.value)
        return "unscaled" if is_scaler and func.attr in ("unscale_", "step", "update") else ""

    def _looks(self, scope: Scope, call: ast.Call) -> Breach | Assumption | None:
        line = call.lineno, scope.file.lines[call.lineno - 1].strip()
        callees = self.flow.certain(scope, call)
        if any(self._touches_gradients(one) for one in callees):
            return Breach("scaled gradients", scope.file.path, scope.name, None, line, _MESSAGE)
        if callees or not self._may_hold(scope, call):
            return None
        namesakes = self.flow.callees(scope, call)
        if namesakes and not any(self._touches_gradients(one) for one in namesakes):
            return None
        return Assumption(scope.file.path, call.lineno, f"`{ast.unparse(call.func)}` does not look at gradients")

    def _touches_gradients(self, function: Scope) -> bool:
        if function not in self._touches:
            self._touches[function] = False  # for one that calls itself
            is_averaged = "all_reduce" in ast.unparse(function.node) and not _clips(function.node)
            reads = not is_averaged and _reads_gradients(function.node)
            calls = [one for at, one in function.file.calls if at.function is function]
            knows = "get_scale" in ast.unparse(function.node) or "unscale_" in ast.unparse(function.node)
            called = (callee for one in calls for callee in self.flow.certain(function, one))
            self._touches[function] = not knows and (reads or any(self._touches_gradients(one) for one in called))
        return self._touches[function]

    def _may_hold(self, scope: Scope, call: ast.Call) -> bool:
        """True for a call out of sight that is given what is trained, or is of an object that was."""
        full = scope.file.dotted(call.func) or ""
        is_builtin = isinstance(call.func, ast.Name) and scope.binding(call.func.id) is None and not full
        if full.startswith(_KNOWN) or is_builtin:
            return False
        if any(self._is_trained(scope, one) for one in [*call.args, *(one.value for one in call.keywords)]):
            return True
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_loss = isinstance(receiver, (ast.Name, ast.Attribute)) and key_of(scope, receiver) in self.losses
        meant = self.side.keys.meant(scope, receiver) if receiver is not None and not is_loss else None
        if meant is None or not isinstance(meant[1], ast.Call):
            return False
        if (meant[0].file.dotted(meant[1].func) or "").startswith(_KNOWN):
            return False
        return any(
            self._is_trained(meant[0], one) for one in [*meant[1].args, *(one.value for one in meant[1].keywords)]
        )

    def _is_trained(self, scope: Scope, node: ast.expr) -> bool:
        return self.trained.holds(scope, node) or (isinstance(node, ast.Name) and node.id == "self")


def _read_scaled(original: Side, scope: Scope, node: ast.stmt) -> bool:
    """True for a statement that stands in a `with amp.scale_loss(...)` of the original: behind it Apex unscales."""
    file = original.program.files.get(scope.file.path)
    old = file.functions.get(scope.name) if file is not None else None
    blocks = [one for part in (old.body if old is not None else ()) for one in walk(part) if isinstance(one, ast.With)]
    within = (inner for one in blocks if _scales(one) for part in one.body for inner in walk(part))
    return any(isinstance(one, ast.stmt) and ast.unparse(one) == ast.unparse(node) for one in within)


def _scales(node: ast.With) -> bool:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any(getattr(one.func, "attr", getattr(one.func, "id", None)) == "scale_loss" for one in calls)


def _is_method(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


def _stepped(side: Side) -> Iterator[object]:
    """What scalers step, and whose parameters are asked for."""
    for scope, call in (one for file in side.flow.files for one in file.calls):
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "step" and call.args:
            if side.scalers.holds(scope, func.value) and isinstance(call.args[0], (ast.Name, ast.Attribute)):
                yield key_of(scope, call.args[0])
        elif isinstance(func, ast.Attribute) and func.attr in ("parameters", "named_parameters"):
            if isinstance(func.value, (ast.Name, ast.Attribute)) and ast.unparse(func.value) != "self":
                yield key_of(scope, func.value)


def _is_clip(node: ast.AST) -> bool:
    return getattr(node, "attr", getattr(node, "id", None)) in _CLIPS


def _clips(node: ast.AST) -> bool:
    return any(_is_clip(part) for part in walk(node))


def _reads_gradients(node: ast.AST, holder: ast.AST | None = None) -> bool:
    """True for code that clips, and for a use of `.grad` that does not commute with a scale."""
    if _is_clip(node):
        return True
    if isinstance(node, ast.Assign) and is_gradient(node.targets[0]) and isinstance(node.value, ast.BinOp):
        if isinstance(node.value.op, (ast.Div, ast.Mult)) and is_gradient(node.value.left):
            return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_norm_of(node.right, node.left):
        return False  # a direction, whatever the scale
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "grad":
        taken = [node.func.value, *node.args, *node.keywords]  # `autograd.grad(...)` makes gradients of its own
        return any(_reads_gradients(child) for child in taken)
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return not _is_linear(node, holder)
    if not isinstance(node, ast.Attribute):  # `.data` of a gradient is one
        holder = node
    return any(_reads_gradients(child, holder) for child in ast.iter_child_nodes(node))


def _is_norm_of(node: ast.expr, value: ast.expr) -> bool:
    """True for `torch.norm(value)` and `value.norm()`."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("norm"):
        return False
    given = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
    return given is not None and ast.unparse(given) == ast.unparse(value)


def _is_linear(node: ast.Attribute, holder: ast.AST | None) -> bool:
    if isinstance(holder, ast.Compare):
        return isinstance(holder.ops[0], (ast.Is, ast.IsNot))
    if isinstance(holder, ast.AugAssign):
        return isinstance(holder.op, (ast.Div, ast.Mult))
    if isinstance(holder, ast.Call):
        called = ast.unparse(holder.func).rpartition(".")[2]
        return called in _SUMS or called in names(scales)
    return isinstance(node.ctx, ast.Store) and isinstance(holder, ast.Assign) and _is_nothing(holder.value)


def _is_nothing(node: ast.expr) -> bool:
    """True for None and for zeros, which a scale leaves as they are."""
    called = node.func if isinstance(node, ast.Call) else None
    return ast.unparse(node) == "None" or getattr(called, "attr", getattr(called, "id", None)) in traits.named("zeros")
