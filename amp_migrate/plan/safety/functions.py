"""Autograd functions of the unit's own: under autocast they meet half and float32 mixed, in what they save as well.

    class Scale(torch.autograd.Function):              class Scale(torch.autograd.Function):
        @staticmethod                                      @staticmethod
        def forward(ctx, x, w):                =>          @torch.amp.custom_fwd(device_type="cuda", cast_inputs=...)
            ...                                            def forward(ctx, x, w):

With `custom_fwd(cast_inputs=torch.float32)` and `custom_bwd` both directions run in float32 outside of autocast, as
they did before, and kernels that take float32 only get it ([T2.13:torch/amp/autocast_mode.py], the official form). A
function of one tensor without products of its own needs none of it: reversed gradients, rounding with a straight
through gradient.

What trained in half before is left as it was, but for products in a backward, and for one that runs a forward once
more: they get gradients in half and what was saved in float32 now, or the other way round. Without `cast_inputs` both
directions run under autocast, as Apex had patched both.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.autograd import applied_function, is_autograd_function
from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.findings import Refusal
from amp_migrate.interp.containers import Containers
from amp_migrate.models import names
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.extensions import is_compiled
from amp_migrate.plan.safety.kept_casts import recomputes
from amp_migrate.rules.safety import AUTOGRAD_FUNCTION


def guard_functions(context: Context, *, again: bool = False) -> None:
    """custom_fwd and custom_bwd for the autograd functions that the forward applies. Raises Refusal.

    With `again`, what a backward computes once more runs under autocast as it did the first time.
    """
    for call, _ in context.reach.calls():
        owner = _applied(context, call) or _called(context, call)
        if owner is None:
            continue
        forward, backward = owner.methods.get("forward"), owner.methods.get("backward")
        if forward is None or (backward is not None and _is_guarded(forward)):
            continue
        if backward is None or not (forward.is_static and backward.is_static) or "setup_context" in owner.methods:
            message = f"{owner.name} has no static forward and backward of its own that custom_fwd could be put on"
            raise Refusal(AUTOGRAD_FUNCTION, owner.node, message)
        if again and recomputes(context.facts, backward):
            if (forward, backward) not in context.safety.recomputing:
                context.safety.recomputing.append((forward, backward))
            continue
        if _is_of_one_tensor(context, call) and not any(_computes(context, one) for one in (forward, backward)):
            continue
        if _fills_or_keeps(context, call, forward):
            message = f"{owner.name} fills or keeps a list that it is given, and custom_fwd would give it a copy"
            raise Refusal(AUTOGRAD_FUNCTION, owner.node, message, case="shared")
        if (forward, backward) not in context.safety.guarded:
            context.safety.guarded.append((forward, backward))


def guard_products(context: Context) -> None:
    """custom_fwd and custom_bwd for the autograd functions of a training that was in half, where a backward of theirs
    multiplies matrices, or runs a forward once more.
    """
    for call, _ in context.reach.calls():
        owner = _applied(context, call) or _called(context, call)
        forward, backward = (owner.methods.get(name) if owner else None for name in ("forward", "backward"))
        if forward is None or backward is None or not (forward.is_static and backward.is_static):
            continue
        multiplies = _multiplies(context, backward) or recomputes(context.facts, backward)
        pair = (forward, backward)
        if multiplies and not _is_guarded(forward) and pair not in context.safety.recomputing:
            context.safety.recomputing.append(pair)


def _applied(context: Context, call: cst.Call) -> Class | None:
    """The class of `Scale.apply(x)`, also through a name, of a module as well: `scale = Scale.apply`."""
    func = call.func
    if isinstance(func, (cst.Name, cst.Attribute)):
        values = context.facts.objects.values_of(func)
        func = values[0] if len(values) == 1 else func
    return applied_function(context.facts, func)


def _called(context: Context, call: cst.Call) -> Class | None:
    """The class of `Scale(weight)(x)`, the form of old: an instance that is called."""
    makers = [call.func] if isinstance(call.func, cst.Call) else []
    if isinstance(call.func, (cst.Name, cst.Attribute)):
        makers = [one for one in context.facts.objects.values_of(call.func) if isinstance(one, cst.Call)]
    made = (owner for maker in makers for owner in context.facts.objects.classes_made(maker))
    return next((owner for owner in made if is_autograd_function(context.facts, owner)), None)


def _is_guarded(forward: Function) -> bool:
    for decorator in forward.decorators:
        node = decorator.decorator
        name = node.func if isinstance(node, cst.Call) else node
        last = name.attr if isinstance(name, cst.Attribute) else name
        if isinstance(last, cst.Name) and last.value in ("custom_fwd", "half_function", "float_function"):
            return True
    return False


def _is_of_one_tensor(context: Context, call: cst.Call) -> bool:
    """True where all arguments but the first are plain numbers."""
    rest = [context.precisions.of(arg.value) for arg in call.args[1:]]
    return len(call.args) > 0 and not any(one.is_tensor for one in rest)


def _fills_or_keeps(context: Context, call: cst.Call, forward: Function) -> bool:
    """True where something is put into a container that the call gives: by `forward`, or while `ctx` keeps it.
    `cast_inputs` makes each list, tuple and dict anew ([T2.13:torch/amp/autocast_mode.py], `_cast`).
    """
    objects = context.facts.objects
    pairs = zip(forward.parameters[1:], call.args, strict=False)
    containers = [(param, arg.value) for param, arg in pairs if context.values.of(arg.value).is_container]
    if not containers:
        return False
    filled = {one for put in context.facts.analysis(Containers).puts for one in objects.objects(put.base)}
    kept = {one for _, stores in objects.all_stores() for store in stores for one in objects.objects(store.value)}
    both = ((objects.objects(param.name), objects.objects(value)) for param, value in containers)
    return any(inside & filled or (inside & kept and given & filled) for inside, given in both)


def _multiplies(context: Context, function: Function) -> bool:
    """True for operations that autocast would run in half, in a function or in those that it calls."""
    return context.facts.calls.reaches(function, lambda one: _multiplies_itself(context, one))


def _multiplies_itself(context: Context, function: Function) -> bool:
    for inner in function.descendants():
        for part in context.facts.tree.expressions(inner):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
                return True
            if isinstance(part, cst.Call) and called_name(part) in names(in_half):
                return True
    return False


def _computes(context: Context, function: Function) -> bool:
    """True for a body with operations that autocast would treat, or that this unit does not show."""
    if _multiplies(context, function):
        return True
    for statement in function.body.statements:
        for inner in statement.descendants():
            for call in context.facts.tree.calls(inner):
                dotted = context.facts.names.dotted(call.func) or ""
                if dotted and not dotted.startswith("torch."):
                    return True
                if isinstance(call.func, (cst.Name, cst.Attribute)) and is_compiled(context, call.func):
                    return True
    return False
