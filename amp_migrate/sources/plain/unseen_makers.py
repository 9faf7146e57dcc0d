"""Trainings whose device nothing shows, since nothing in sight makes what trains. They are told all the same.

trainer = hydra.utils.instantiate(config.trainer)          in one file
class Trainer: ...                                         in another one, which nothing imports

model = import_module("models." + args.model).Net()         in a script that moves it to the GPU
class Net: ...                                             in a module of the package, which trains itself

net, optimizer = import_module(args.model).get_model()     in the script that trains

engine.register(Training())                                in a script that moves its model to the GPU
state["optimizer"].step()                                  in a hook, which an engine gives its state

Process(target=train, args=(net, optimizer, device))       in a script that moves its model to the GPU
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.rules.plain import FILE_OF_SETTINGS, UNKNOWN_CALLER
from amp_migrate.sources.plain.devices import Devices
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers
from amp_migrate.sources.tests import is_in_test
from amp_migrate.vocabulary import IMPORTERS


def made_out_of_sight(facts: Facts, optimizers: Optimizers, losses: list[Loss], devices: Devices) -> Refusal | None:
    """Why no GPU is in sight, where the project shows one to others."""
    return _made_by_name(facts, losses) or _imported_by_name(facts, optimizers) or _given(facts, optimizers, devices)


def _made_by_name(facts: Facts, losses: list[Loss]) -> Refusal | None:
    """The first class that trains and that nothing in the unit makes, where another file asks hydra for objects, or
    imports modules by names of run time.
    """
    for loss in losses:
        owner = loss.statement.function.owner
        if owner is None or any(facts.objects.makers.get(one) for one in facts.objects.derived(owner)):
            continue
        if facts.elsewhere.makes_by_settings:
            message = f"hydra may make {owner.name}: nothing in sight says on which device it trains"
            return Refusal(FILE_OF_SETTINGS, loss.call, message)
        if facts.elsewhere.imports_by_name and not is_in_test(facts, loss.statement):
            message = f"{owner.name} may be imported by a name of run time: nothing in sight says on which device it is"
            return Refusal(FILE_OF_SETTINGS, loss.call, message, case="import")
    return None


def _imported_by_name(facts: Facts, optimizers: Optimizers) -> Refusal | None:
    """The first import by a name of run time that gives what is stepped."""
    stepped = (call.func.value for call in optimizers.unknown if isinstance(call.func, cst.Attribute))
    makers = (one.source.origin for held in stepped for one in facts.objects.objects(held))
    for maker in makers:
        if isinstance(maker, cst.Call):
            held = facts.objects.objects(maker.func.value) if isinstance(maker.func, cst.Attribute) else ()
            for part in (*walk(maker), *(one.origin for one in held)):
                if isinstance(part, cst.Call) and called_name(part) in IMPORTERS:
                    message = f"what {facts.text(part)} means is known when the script runs only"
                    return Refusal(FILE_OF_SETTINGS, part, message, case="import")
    return None


def _given(facts: Facts, optimizers: Optimizers, devices: Devices) -> Refusal | None:
    """The first step of an optimizer of a caller that is not in sight, beside what goes to the device of another such
    value; beside something on the GPU where it is in a dict, or its function is itself given to others.
    """
    follows = devices.follows_another
    for call in optimizers.unknown if follows or devices.moves_something else ():
        held = call.func.value if isinstance(call.func, cst.Attribute) else None
        is_handed_on = isinstance(held, cst.Subscript) or facts.calls.value_uses(facts.tree.function_of(call))
        if held is None or not (follows or is_handed_on):
            continue
        if follows or {one.source.kind for one in facts.objects.objects(held)} == {"parameter"}:
            return Refusal(UNKNOWN_CALLER, call, f"{facts.text(held)} comes from a caller that is not known")
    return None
