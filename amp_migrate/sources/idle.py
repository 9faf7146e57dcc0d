"""Optimizers that a script gives to Apex and never steps: copied from a training, it only evaluates.

    optimizer = make_optimizer(cfg, model)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    results = evaluate(model, loader)

No loss is scaled and nothing comes after the setup that could step: what is left of it is a model for inference.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.model import Recognition, Setup

_OWN_METHODS = frozenset(("load_state_dict", "add_param_group"))


def drop_idle_optimizers(facts: Facts, found: Recognition) -> None:
    """Take the optimizers out of setups that nothing in sight trains."""
    uses = (found.backwards, found.parameters, found.saves, found.loads, found.handed, found.carriers)
    if any(uses) or any(called_name(call) == "backward" for call, _ in facts.tree.every(cst.Call)):
        return
    for setup in found.setups:
        renamed = any(value in setup.optimizers for _, value in setup.aliases)
        if not renamed and all(_is_idle(facts, node, setup) for node in setup.optimizers):
            setup.optimizers = []


def _is_idle(facts: Facts, optimizer: cst.BaseExpression, setup: Setup) -> bool:
    """True for a local variable that is not read after the setup, and before it by nothing but schedules; variables of
    a module may be imported.
    """
    at = setup.statement
    if not isinstance(at.function.node, cst.FunctionDef):
        return False
    variable = facts.names.variable_at(optimizer)
    if variable is None or variable.scope.owner is not at.function or any(one.is_loop for one in at.path()):
        return False
    for load in variable.loads:
        statement = facts.tree.statement_of(load)
        if statement is at:
            continue
        if statement.function is not at.function or statement.order > at.order or not _prepares(facts, load):
            return False
    return True


def _prepares(facts: Facts, load: cst.Name) -> bool:
    """True for `make_lr_scheduler(cfg, optimizer)` and `optimizer.load_state_dict(state)`."""
    parent = facts.tree.parents.get(load)
    call = facts.tree.parents.get(parent) if parent is not None else None
    if not isinstance(call, cst.Call):
        return False
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in _OWN_METHODS
    return "sched" in facts.text(call.func).lower()
