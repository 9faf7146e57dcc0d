"""Reading `FP16_Optimizer(optimizer, ...)`: the loss scale that it asks for ([A:apex/fp16_utils/fp16_optimizer.py]).

FP16_Optimizer(init_optimizer, static_loss_scale=1.0, dynamic_loss_scale=False, dynamic_loss_args=None, verbose=True)

A dynamic scale wins over a static one. Of the arguments for a dynamic one, `init_scale` and `scale_window` are those
of a GradScaler; `scale_factor` is ignored by apex, which has 2 there, as a GradScaler has. The class of
`apex.optimizers`, later of `apex.contrib.optimizers`, takes no such arguments, and grows every 1000 steps
([A:apex/contrib/optimizers/fp16_optimizer.py]).
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import LossScale
from amp_migrate.rules.fp16_utils import UNKNOWN_FP16_USE
from amp_migrate.sources.fp16_utils.names import MARK, wrapper_parameters

# Settings of the copies that Megatron-LM and what came of it have.
_BOUNDS = ("min_loss_scale", "max_loss_scale", "min_scale")
_PATIENCE = {"delayed_shift": 1, "consecutive_hysteresis": False, "raise_error_at_min_scale": False}

_WITHOUT_ARGUMENTS = re.compile(r"apex\.(?:contrib\.)?optimizers\.(?:fp16_optimizer\.)?FP16_Optimizer")

_BY_HAND = "masters_by_hand"  # said of a mark in the lowered program

Arguments = dict[str, cst.BaseExpression]

# Apex starts at 2**16 and grows every 2000 steps, as a GradScaler does ([A:apex/amp/scaler.py]).
_DEFAULTS = {"init_scale": 2.0**16, "scale_window": 2000}


def wrapped(facts: Facts, call: cst.Call) -> cst.BaseExpression:
    """The optimizer that is wrapped. Raises Refusal where it cannot be read."""
    given = _arguments(facts, call)
    first = next(iter(wrapper_parameters(facts, call.func)), "init_optimizer")
    for name in (first, "init_optimizer", "optimizer"):
        if name in given:
            return given[name]
    raise Refusal(UNKNOWN_FP16_USE, call, "which optimizer is wrapped here cannot be read")


def marked(facts: Facts, call: cst.Call, optimizer: cst.BaseExpression) -> cst.Call:
    """The same call for the lowered program, around another optimizer, where the import may be gone."""
    given = _arguments(facts, call)
    settings = [name for name in ("static_loss_scale", "dynamic_loss_scale", "dynamic_loss_args") if name in given]
    arguments = [cst.Arg(given[name], keyword=cst.Name(name)) for name in settings]
    return cst.Call(cst.Name(MARK), [cst.Arg(optimizer), *arguments])


def masters_wrapped(optimizer: str, scale: str | None) -> str:
    """The code that wraps an optimizer of master weights by hand: its state is that of any optimizer."""
    given = f", static_loss_scale={scale}" if scale is not None else ""
    return f"{optimizer} = {MARK}({optimizer}{given}, {_BY_HAND}=True)"


def saves_masters(call: cst.Call) -> bool:
    """True for a wrapper whose state has more in it than that of its optimizer."""
    return all(arg.keyword is None or arg.keyword.value != _BY_HAND for arg in call.args)


def read_loss_scale(facts: Facts, call: cst.Call) -> LossScale:
    """Raises Refusal for arguments that cannot be read."""
    given = _arguments(facts, call)
    static, dynamic = given.get("static_loss_scale"), given.get("dynamic_loss_scale")
    is_dynamic = facts.values.constant(dynamic) if dynamic is not None else False
    scale = facts.values.constant(static) if static is not None else 1.0
    if is_dynamic is not UNKNOWN and is_dynamic:
        return _dynamic(facts, given)
    if is_dynamic is UNKNOWN:
        assert dynamic is not None
        chosen = _dynamic(facts, given)
        return LossScale(
            runtime=static if static is not None else cst.Float("1.0"),
            is_number=True,
            initial=chosen.initial,
            growth_interval=chosen.growth_interval,
            dynamic_when=dynamic,
        )
    if isinstance(scale, (int, float)):
        return LossScale(static=float(scale), name=static)
    return LossScale(runtime=static, is_number=True)


def unknown_to_torch(facts: Facts, call: cst.Call) -> list[str]:
    """The settings of a dynamic loss scale that a GradScaler does not have, where they are not what it does anyway."""
    node = _arguments(facts, call).get("dynamic_loss_args")
    entries = _entries(facts, node) if node is not None and literal_value(node) is not None else {}
    return [name for name, value in entries.items() if name in _PATIENCE and literal_value(value) != _PATIENCE[name]]


def _arguments(facts: Facts, call: cst.Call) -> Arguments:
    given: Arguments = {}
    parameters = wrapper_parameters(facts, call.func)
    for index, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and index >= len(parameters)):
            raise Refusal(UNKNOWN_FP16_USE, call, f"the arguments of {facts.text(call.func)} cannot be read")
        given[parameters[index] if arg.keyword is None else arg.keyword.value] = arg.value
    if _WITHOUT_ARGUMENTS.fullmatch(facts.names.dotted(call.func) or ""):
        given["dynamic_loss_args"] = cst.parse_expression('{"scale_window": 1000}')
    return given


def _dynamic(facts: Facts, given: Arguments) -> LossScale:
    node = given.get("dynamic_loss_args")
    if node is None or literal_value(node) is None:
        return LossScale()
    entries = _entries(facts, node)
    unknown = sorted(entries.keys() - {*_DEFAULTS, *_BOUNDS, *_PATIENCE, "scale_factor"})
    if unknown:
        raise Refusal(UNKNOWN_FP16_USE, node, f"{', '.join(unknown)} is no setting of a dynamic loss scale")
    own = {name: value for name, value in entries.items() if literal_value(value) != _DEFAULTS.get(name)}
    return LossScale(
        initial=own.get("init_scale") if not _is_default(facts, own.get("init_scale")) else None,
        growth_interval=own.get("scale_window"),
        minimum=own.get("min_loss_scale") or own.get("min_scale"),
        maximum=own.get("max_loss_scale"),
    )


def _is_default(facts: Facts, node: cst.BaseExpression | None) -> bool:
    return node is not None and facts.values.constant(node) == _DEFAULTS["init_scale"]


def _entries(facts: Facts, node: cst.BaseExpression) -> Arguments:
    """The entries of a dict display or of `dict(...)`. Raises Refusal."""
    values = [node] if isinstance(node, (cst.Dict, cst.Call)) else facts.objects.values_of(node)
    value = values[0] if len(values) == 1 else None
    entries: Arguments = {}
    if isinstance(value, cst.Dict):
        for element in value.elements:
            key = literal_value(element.key) if isinstance(element, cst.DictElement) else UNKNOWN
            if not isinstance(key, str):
                break
            entries[key] = element.value
        else:
            return entries
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict":
        if all(arg.keyword is not None for arg in value.args):
            return {arg.keyword.value: arg.value for arg in value.args if arg.keyword is not None}
    raise Refusal(UNKNOWN_FP16_USE, node, f"the settings of the loss scale in {facts.text(node)} cannot be read")
