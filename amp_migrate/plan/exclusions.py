"""What rules a unit out before anything is planned."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, argument_value, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.free_names import not_bound
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.averages import Averages
from amp_migrate.plan.steps.taking_part import Links
from amp_migrate.plan.training_plan import Scaler
from amp_migrate.rules.apex import CAST_FUNCTION, REJECTED_ARGUMENT, UNKNOWN_AMP_USE
from amp_migrate.rules.plain import SEVERAL_PROCESSES, UNKNOWN_OPTIMIZER
from amp_migrate.rules.regions import MODEL_IN_THREAD
from amp_migrate.rules.source_forms import APEX_AMP, TITLES
from amp_migrate.rules.steps import GRADIENTS_IN_USE, UPDATE_PLACE
from amp_migrate.rules.units import BELONGS_TOGETHER

_DISTRIBUTED = ("DistributedDataParallel", "DDP")
_REMOTE = tuple(f"torch.distributed.rpc.{name}" for name in ("remote", "rpc_async", "rpc_sync"))


def check_unit(facts: Facts, found: Recognition, roles: Roles) -> None:
    """Raises Refusal for a unit that other files share, and for what cannot be written natively."""
    _check_is_whole(facts, found)
    _check_optimizers(facts, found, roles)


def check_clips(facts: Facts, found: Recognition, clips: list[cst.Call]) -> None:
    """O2 makes the gradients of the master weights when the `with` ends: a clip of them inside did nothing."""
    if not any(setup.level == "O2" for setup in found.setups):
        return
    for clip in clips:
        if {access.node for access in found.parameters} & set(walk(clip)):
            text = facts.text(clip.func)
            message = f"{text} clipped nothing under O2, inside of the `with`: --repair-clip makes it clip"
            raise Refusal(GRADIENTS_IN_USE, clip, message, case="no effect")


def check_tests(facts: Facts, tests: list[cst.BaseExpression], scalers: list[Scaler]) -> None:
    """`if amp_handle:` asks whether there is a handle: where no loss is scaled, no scaler can take its place."""
    if tests and not scalers:
        message = f"{facts.text(tests[0])} is tested here, and no scaler takes its place"
        raise Refusal(UNKNOWN_AMP_USE, tests[0], message)


def check_threads(facts: Facts, found: Recognition, forwards: Forwards) -> None:
    """Autocast is on for one thread only; threads that torch starts (DataParallel) take it along (rule E6)."""
    homes = {one.statement.function for one in found.backwards}
    for statement in facts.tree.all_statements():
        for call in facts.tree.calls(statement):
            target = argument_value(call, "target")
            if called_name(call) == "submit" and call.args:
                target = call.args[0].value
            function = facts.objects.function_named(target) if target is not None else None
            if called_name(call) in ("Thread", "submit") and function and forwards.function_runs_model(function):
                raise Refusal(MODEL_IN_THREAD, call, f"{function.name} runs a model in a thread of its own")
            if (facts.names.dotted(call.func) or "").startswith(_REMOTE):
                raise Refusal(MODEL_IN_THREAD, call, f"what {facts.text(call.func)} calls runs in threads of its own")
            if called_name(call) == "DataParallel" and call.args and _trains_itself(facts, call.args[0].value, homes):
                message = f"{facts.text(call)} runs a forward that steps an optimizer, in a thread for each device"
                raise Refusal(UPDATE_PLACE, call, message)


def check_processes(facts: Facts, roles: Roles) -> None:
    """Raises Refusal where DistributedDataParallel has only a part of the networks whose gradients one scaler scales:
    an overflow in the rest is that of one process, and the scales of the processes part.
    """
    wrapping = [call for call, _ in facts.tree.every(cst.Call) if called_name(call) in _DISTRIBUTED and call.args]
    wrapped = frozenset(one for call in wrapping for one in facts.objects.objects(call.args[0].value))
    if not wrapped or not all(facts.objects.objects(call.args[0].value) for call in wrapping):
        return
    given = {node: facts.objects.objects(node) for one in roles.optimizers for node in roles.models_given(one)}
    is_shared = {node: facts.analysis(Links).share(one, wrapped) for node, one in given.items() if one}
    left = next((node for node, shared in is_shared.items() if not shared), None)
    if left is not None and any(is_shared.values()) and not facts.analysis(Averages).are_made:
        message = (
            f"{facts.text(wrapping[0])} averages gradients over processes, and nothing does for {facts.text(left)}"
        )
        raise Refusal(SEVERAL_PROCESSES, left, message, case="part")


def _trains_itself(facts: Facts, model: cst.BaseExpression, homes: set[Function]) -> bool:
    """True for a module whose forward leads to one of the functions with a backward."""
    forwards = facts.objects.methods_of_instances(model, "forward")
    return any(facts.calls.reaches(one, homes.__contains__) for one in forwards)


def _check_is_whole(facts: Facts, found: Recognition) -> None:
    trains = [setup for setup in found.setups if setup.optimizers]
    if found.backwards and not trains:
        message = f"losses are scaled here, but {_setup(found)} is not in sight"
        raise Refusal(BELONGS_TOGETHER, found.backwards[0].loss, message, case="elsewhere")
    if trains and not found.backwards:
        scaled = (call for call, _ in facts.tree.every(cst.Call) if called_name(call) == "scale_loss")
        refusal = next(filter(None, (not_bound(facts, call, call) for call in scaled)), None)
        if refusal is not None:
            raise refusal
        plain = next((call for call, _ in facts.tree.every(cst.Call) if called_name(call) == "backward"), None)
        if plain is not None:
            message = f"{_setup(found)} is here, and {facts.text(plain)} is not scaled"
            raise Refusal(BELONGS_TOGETHER, trains[0].call, message, case="unscaled")
        message = f"{_setup(found)} is here, and no backward was found that belongs to it"
        raise Refusal(BELONGS_TOGETHER, trains[0].call, message, case="elsewhere")
    for kind in (found.saves, found.loads, found.parameters, found.scale_reads):
        if kind and not trains:
            function = kind[0].statement.function
            site = next(iter(facts.calls.callers(function)), None)
            if site is not None:
                message = f"{function.name} uses {TITLES[found.form]}, and this script calls it without {_setup(found)}"
                raise Refusal(BELONGS_TOGETHER, site.call, message, case="without")
            message = f"{TITLES[found.form]} is used here, but {_setup(found)} is not in sight"
            raise Refusal(BELONGS_TOGETHER, kind[0].node, message, case="elsewhere")
    if found.no_casts and not found.setups:
        message = "the casts that this switches off are set up elsewhere"
        raise Refusal(BELONGS_TOGETHER, found.no_casts[0], message, case="elsewhere")
    if found.casts and not found.setups and not facts.elsewhere.is_set_up:
        message = f"{facts.text(found.casts[0].node)} works where amp.initialize does, which is not in sight"
        raise Refusal(CAST_FUNCTION, found.casts[0].node, message, case="elsewhere")
    if found.carriers and not found.setups and not found.backwards:
        raise Refusal(BELONGS_TOGETHER, found.carriers[0], "apex.amp is only handed on here", case="elsewhere")


def _setup(found: Recognition) -> str:
    """What sets mixed precision up in the source form."""
    return "amp.initialize" if found.form == APEX_AMP else "the optimizer that is wrapped"


def _check_optimizers(facts: Facts, found: Recognition, roles: Roles) -> None:
    """Apex raises for an optimizer that it was not given: steps of the others must not stay bare natively."""
    for backward in found.backwards:
        for node in backward.optimizers:
            if not roles.may_be_set_up(node):
                text = facts.text(node)
                if found.form != APEX_AMP:
                    raise Refusal(UNKNOWN_OPTIMIZER, node, f"no call was recognised that makes {text} from parameters")
                message = f"amp.scale_loss is given {text}, which amp.initialize never was"
                raise Refusal(REJECTED_ARGUMENT, node, message)
