"""The front end for training in half precision by hand.

model = Net().cuda().half()
...
loss = criterion(model(images.half()), labels)
loss.backward()
optimizer.step()

It works in two steps. The casts, and what else there is of the form, are taken out first: what is left is the
program as it would be without mixed precision (rule G3), with marks that say when it was in half. The training is
then read from that program.
"""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.native.lower import is_mark, is_of_lowering
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.half import DEPENDS_ON_HALF, UNKNOWN_HALF_USER, UNKNOWN_TRAINER
from amp_migrate.rules.plain import TEST
from amp_migrate.rules.source_forms import HALF
from amp_migrate.sources.fp16_utils.names import prefixed_states
from amp_migrate.sources.half.arms import edited_guards, equal_arms
from amp_migrate.sources.half.casts import Casts
from amp_migrate.sources.half.compared import in_float32_beside
from amp_migrate.sources.half.helpers import calls_of_emptied, without_use
from amp_migrate.sources.half.masters import Masters
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.half.own_trainer import OwnTrainer
from amp_migrate.sources.half.scale import Scaling
from amp_migrate.sources.half.training import Training
from amp_migrate.sources.half.unread import unread_training
from amp_migrate.sources.native import native_amp
from amp_migrate.sources.optimizers import find_optimizers
from amp_migrate.sources.tests import is_in_test


def recognise(facts: Facts) -> tuple[Recognition, list[Refusal]]:
    """A training in half, and every reason why it cannot be migrated.

    Nothing is found where nothing is trained in half (inference), and beside native AMP.
    """
    found = Recognition(HALF)
    lowered = [statement for statement in facts.tree.all_statements() if is_of_lowering(statement)]
    marks = [statement for statement in lowered if is_mark(statement)]
    if lowered:
        found.sites += [statement.node for statement in lowered]
        if not marks:
            return found, [Refusal(UNKNOWN_TRAINER, lowered[0].node, "the model is cast in code that goes as a whole")]
        lowering = equal_arms(facts)
        if not lowering.is_empty:
            found.lowering = lowering
            return found, []
        try:
            Training(facts, found, marks).read()
        except Refusal as refusal:
            return found, [refusal]
        return found, []
    if any(native_amp(facts)):
        return found, []
    own = OwnTrainer(facts)
    if own.is_found:
        return _own_trainer(found, own)
    optimizers = find_optimizers(facts)
    modules = Modules(facts, optimizers)
    casts = Casts(facts, modules)
    if not casts.is_training and not (casts.defaults and modules.trained):
        unread = unread_training(facts, casts)
        if unread is None:
            return found, []
        found.sites += unread[0]
        return found, [unread[1]]
    if casts.float_steps.pairs and not optimizers:
        call = next(casts.float_steps.calls())
        return found, [Refusal(UNKNOWN_HALF_USER, call, f"what steps after {facts.text(call)} was not found")]
    casts.lower()
    found.lowering = casts.lowering
    found.sites += casts.sites
    scaling = Scaling(facts, casts.lowering)
    masters = Masters(facts, optimizers, scaling, casts.lowering, casts.float_steps)
    try:
        masters.lower()
        scaling.lower()
        masters.check_rest()
    except Refusal as refusal:
        casts.refusals.append(refusal)
    found.findings += [*prefixed_states(facts, facts.tree.all_statements(), casts.prefixes()), *scaling.findings]
    found.sites += [*masters.sites, *scaling.sites]
    casts.lowering.removed += calls_of_emptied(facts, casts.lowering.removed)
    edited = edited_guards(facts, found.sites, casts.float_steps.statements)
    casts.lowering.edited = [statement for statement in edited if statement not in casts.lowering.arms]
    casts.lowering.removed += without_use(facts, casts.gone, casts.lowering.removed)
    compared = in_float32_beside(facts, optimizers, [*casts.trained, *casts.helped])
    return found, [*_tests(facts, casts), *_own_casts(facts), *compared, *casts.refusals]


def _own_trainer(found: Recognition, own: OwnTrainer) -> tuple[Recognition, list[Refusal]]:
    """A class that does everything by hand, with a plain arm beside each piece."""
    found.sites += own.sites
    try:
        own.lower()
    except Refusal as refusal:
        return found, [refusal]
    found.sites = own.sites
    found.findings += own.findings
    found.lowering = own.lowering
    return found, []


def _tests(facts: Facts, casts: Casts) -> list[Refusal]:
    """Tests that train in half are there to do just that."""
    inside = [call for statement, call in [*casts.trained, *casts.helped] if is_in_test(facts, statement)]
    return [Refusal(TEST, call, f"{facts.text(call)} is part of a test") for call in inside]


def _own_casts(facts: Facts) -> list[Refusal]:
    """Classes with a `half` of their own, which may do anything (rule G4)."""
    return [
        Refusal(DEPENDS_ON_HALF, owner.methods["half"].node, f"{owner.name} defines half() itself")
        for owner in facts.tree.classes
        if "half" in owner.methods
    ]


__all__ = ["recognise"]
