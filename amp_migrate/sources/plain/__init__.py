"""The front end for plain float32 training loops (rules H).

    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loss = criterion(model(x.cuda()), y)
    loss.backward()
    optimizer.step()

Nobody asked these scripts for mixed precision, so a loop counts only where the values show a GPU, and is migrated only
where all of it is understood. What is known not to fit (rule H6) is left alone with a finding of its own; a loop
without a GPU is none of our business.
"""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import LossScale, Recognition, Setup
from amp_migrate.rules.plain import CHOSEN_PRECISION, NO_GPU, UNKNOWN_OPTIMIZER, UPDATE_BY_HAND
from amp_migrate.rules.source_forms import PLAIN
from amp_migrate.sources.native import decides_natively
from amp_migrate.sources.plain.attacks import Attacks
from amp_migrate.sources.plain.cast_like import cast_like_another
from amp_migrate.sources.plain.chosen_precision import chosen_precision
from amp_migrate.sources.plain.devices import Devices
from amp_migrate.sources.plain.inner_fits import is_inner_fit
from amp_migrate.sources.plain.left_alone import reasons_to_leave_alone
from amp_migrate.sources.plain.losses import find_losses, gradients_given, read_backwards
from amp_migrate.sources.plain.optimizers import Optimizers
from amp_migrate.sources.plain.shared_parameters import shared_parameters
from amp_migrate.sources.plain.unread_switch import unread_switches
from amp_migrate.sources.plain.unseen_makers import made_out_of_sight
from amp_migrate.sources.states import add_states


def recognise(facts: Facts) -> tuple[Recognition, list[Refusal]]:
    """The training loops of a unit that uses a GPU, and every reason why they stay as they are.

    Nothing is found where the training may run native AMP: its author has decided.
    """
    found = Recognition(PLAIN, evaluates=False, is_proven=False, is_scaled=False)
    losses = find_losses(facts)
    given = gradients_given(facts) if not losses else None
    if (not losses and given is None) or decides_natively(facts, [given] if given else [one.call for one in losses]):
        return found, []
    optimizers = Optimizers(facts)
    if given is not None:
        found.sites += [given] if optimizers.built and Devices(facts, optimizers, []).is_gpu else []
        message = f"{facts.text(given)} is given a gradient without a backward"
        return found, [Refusal(UPDATE_BY_HAND, given, message, case="given")]
    devices = Devices(facts, optimizers, losses)
    found.sites.extend(loss.call for loss in losses)
    if not devices.is_gpu:
        maker = made_out_of_sight(facts, optimizers, losses, devices)
        return found, [maker or Refusal(NO_GPU, losses[0].call, "nothing here shows a GPU")]
    on_cpu = devices.on_cpu()
    if on_cpu is not None:
        return found, [Refusal(NO_GPU, on_cpu.call, "this self-test moves nothing to a GPU")]
    chosen = chosen_precision(facts)
    if chosen is not None:
        return found, [
            Refusal(
                CHOSEN_PRECISION,
                chosen,
                f"{' '.join(facts.text(chosen).split())} chooses a precision in a file that trains",
            )
        ]
    like_another = cast_like_another(facts)
    if like_another is not None:
        return found, [like_another]
    try:
        fits = [one for one in losses if is_inner_fit(facts, one, losses)]
    except Refusal as refusal:
        return found, [refusal]
    attacks = Attacks(facts, optimizers, losses, fits)
    refusals = reasons_to_leave_alone(facts, optimizers, losses, attacks)
    if refusals:
        return found, refusals
    try:
        switches = unread_switches(facts, optimizers, losses)
        devices.check_losses()
        inside = {one.statement.function for one in fits}
        found.setups.extend(one for one in _setups(facts, optimizers) if one.statement.function not in inside)
        found.apart.extend(one.statement for one in attacks.through_models())
        stepped = [one for one in losses if one not in attacks.apart]
        found.backwards.extend(read_backwards(facts, optimizers, stepped))
        for setup in found.setups:
            setup.conditions = [*devices.conditions_at(setup.statement), *switches]
    except Refusal as refusal:
        return found, [refusal]
    unseen = optimizers.given_unseen
    if unseen is not None:
        message = f"whose parameters {facts.text(unseen.func)} is given is not known"
        return found, [Refusal(UNKNOWN_OPTIMIZER, unseen, message, optimizers.makers_unseen(unseen))]
    shared = shared_parameters(facts, optimizers, losses)
    if shared is not None:
        return found, [shared]
    add_states(facts, found, optimizers.objects)
    return found, []


def _setups(facts: Facts, optimizers: Optimizers) -> list[Setup]:
    return [
        Setup(
            statement=facts.tree.statement_of(call),
            call=call,
            models=optimizers.models_of(call),
            optimizers=[call],
            aliases=[],
            conditions=[],
            loss_scale=LossScale(),
            stays=True,
        )
        for call in optimizers.built
    ]
