"""The old handle of apex, `amp.init()`, before there was `amp.initialize` ([A:apex/amp/amp.py, handle.py, opt.py]).

    amp_handle = amp.init(enabled=args.fp16)
    optimizer = amp_handle.wrap_optimizer(optimizer, num_loss=2)
    ...
    with optimizer.scale_loss(loss) as scaled_loss:
        scaled_loss.backward()

init(enabled=True, loss_scale="dynamic", enable_caching=True, verbose=False, allow_banned=False)

The handle carries `amp` as any other name of it does (`facts.objects`), and is read with it in `apex_amp`; here is what
only the handle has. It does not know its optimizers: those that it wraps, or scales a loss for, are in mixed precision.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Condition, LossScale, Recognition, Setup
from amp_migrate.rules.apex import OLD_HANDLE, UNKNOWN_AMP_USE
from amp_migrate.sources.half_types import is_half_call
from amp_migrate.sources.optimizers import parameters_of

_PARAMETERS = ("enabled", "loss_scale", "enable_caching", "verbose", "allow_banned")


def read_init(facts: Facts, call: cst.Call, statement: Statement) -> Setup:
    """What `amp.init` asks for; its optimizers are added by `add_optimizers`. Raises Refusal."""
    given: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and index >= len(_PARAMETERS)):
            raise Refusal(OLD_HANDLE, call, "the arguments of amp.init cannot be read")
        given[_PARAMETERS[index] if arg.keyword is None else arg.keyword.value] = arg.value
    node = statement.node
    if not isinstance(node, cst.Expr) and not (isinstance(node, cst.Assign) and node.value is call):
        raise Refusal(OLD_HANDLE, call, "the handle is made inside of a larger expression")
    enabled = given.get("enabled")
    literal = literal_value(enabled) if enabled is not None else True
    conditions = []
    if enabled is not None and literal is UNKNOWN:
        conditions.append(Condition(enabled, facts.conditions.compile(enabled)))
    scale = given.get("loss_scale")
    return Setup(
        statement=statement,
        call=call,
        models=[],
        optimizers=[],
        aliases=[],
        conditions=conditions,
        loss_scale=_loss_scale(facts, scale) if scale is not None else LossScale(),
        always_off=literal is False,
        level="O1",
    )


def _loss_scale(facts: Facts, node: cst.BaseExpression) -> LossScale:
    value = facts.values.constant(node)
    if value == "dynamic":
        return LossScale()
    return LossScale(static=float(value), name=node) if isinstance(value, (int, float)) else LossScale(runtime=node)


def read_wrapping(facts: Facts, found: Recognition, call: cst.Call, statement: Statement) -> cst.BaseExpression:
    """The optimizer in `handle.wrap_optimizer(optimizer)`, which takes its place. Raises Refusal."""
    if not call.args or call.args[0].star:
        raise Refusal(OLD_HANDLE, call, "which optimizer is wrapped here cannot be read")
    optimizer = call.args[0].value
    node = statement.node
    if isinstance(node, cst.Assign) and node.value is call and len(node.targets) == 1:
        if facts.text(node.targets[0].target) == facts.text(optimizer):
            found.removed.append(statement)
            return optimizer
    found.replaced[call] = facts.text(optimizer)
    return optimizer


def losses_of(call: cst.Call) -> object:
    """How many losses a wrapped optimizer is told of; UNKNOWN where that is no constant."""
    named = [arg.value for arg in call.args[1:] if arg.keyword is None or arg.keyword.value == "num_loss"]
    return literal_value(named[0]) if named else 1


def scales_loss_of(facts: Facts, part: cst.CSTNode, wrapped: ObjectSet) -> bool:
    """True for `optimizer.scale_loss(loss)` of a wrapped optimizer."""
    if not isinstance(part, cst.Call) or called_name(part) != "scale_loss" or not isinstance(part.func, cst.Attribute):
        return False
    return bool(facts.objects.objects(part.func.value) & wrapped)


def add_optimizers(facts: Facts, found: Recognition, inits: Iterable[Setup], wrapped: list[cst.BaseExpression]) -> None:
    """Give the setup of each handle the optimizers that are in mixed precision, and the models that they train.

    A wrapped optimizer has a dynamic loss scale of its own, whatever `init` was given ([A:apex/amp/opt.py]).
    """
    nodes = [*wrapped, *(node for backward in found.backwards for node in backward.optimizers)]
    calls = dict.fromkeys(call for node in nodes for call in facts.objects.calls_behind(node))
    models = [model for call in calls for arg in call.args for model in parameters_of(facts, arg.value)]
    for setup in inits:
        setup.optimizers.extend(nodes)
        setup.models.extend(models)
        if wrapped:
            setup.loss_scale = LossScale()


def used_without(facts: Facts, found: Recognition) -> Refusal | None:
    """What a handle casts for without scaling a loss: a training that a wrapper of another form scales, or nothing
    does; and a model in half weights, which ran its softmax and its norms in float32 by the handle alone.
    """
    if any(setup.optimizers for setup in found.setups):
        return None
    calls = [call for call, _ in facts.tree.every(cst.Call) if isinstance(call.func, cst.Attribute)]
    for call in calls:
        if called_name(call) == "backward":
            message = f"amp.init casts what is trained by {facts.text(call)}, which its handle does not scale"
            return Refusal(UNKNOWN_AMP_USE, call, message, case="handle")
    for call in calls:
        if is_half_call(call):
            message = f"{facts.text(call)} makes weights half, and amp.init kept sums and norms in float32"
            return Refusal(UNKNOWN_AMP_USE, call, message, case="handle")
    return None
