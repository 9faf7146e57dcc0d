"""Code in the files of a unit that its training does not run, and that need not prevent its migration.

    if __name__ == "__main__":       in a file that others import: a self-test
        criterion(net(x), y).backward()

    def fisher_product(model): ...   for another training, in a file that this one imports something else of

Such code stays as it is, and has to work as before: it may not call what trains, which would lack the scaler then, or
run its forward under autocast without one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.program import definitions_around, never_mentioned, self_tests
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.training_plan import TrainingPlan
from amp_migrate.rules.scaler import UNKNOWN_SCALER


def without_bystanders(facts: Facts, backwards: Collection[cst.CSTNode], refused: cst.CSTNode) -> Facts | None:
    """The facts without such code, where what is `refused` is a part of it; `backwards` are all of the unit.

    A definition that nothing mentions may still be a part of the training where another file has the rest of it: what
    others refer to stays then. So do self-tests that run the training, where another one is refused.
    """
    tests = self_tests(facts.tree, facts.names, lambda root: _is_used(facts, root))
    own = {one.node for one in tests}
    place = facts.tree.statement_of(refused)
    unmentioned = {one.node for one in never_mentioned(facts.tree, facts.names, tests)}
    if facts.tree.is_within(place, own):
        holders = {facts.tree.function_of(call) for call in backwards}
        idle = {one.node for one in tests if not _leads_to(facts, one, holders)}
        return facts.without(idle if facts.tree.is_within(place, idle) else own)
    if facts.tree.is_within(place, unmentioned):
        training = [
            one for one in definitions_around(facts.tree, backwards) if not facts.tree.is_within(place, {one.node})
        ]
        unneeded = [one.node for one in never_mentioned(facts.tree, facts.names, tests, training)]
        unused = {node for node in unneeded if not _is_referred_to(facts, node)}
        found = facts.without(own | unmentioned)
        if len(unused) == len(unmentioned) or _is_whole(found, backwards):
            return found
        if facts.tree.is_within(place, own | unused):
            return facts.without(own | unused)
    return None


def _leads_to(facts: Facts, statement: Statement, functions: Collection[Function]) -> bool:
    """True for a statement that calls one of some functions, itself or by what it calls."""
    sites = (site for one in statement.descendants() for site in facts.calls.in_statement(one))
    return any(facts.calls.reaches(site.callee, functions.__contains__) for site in sites)


def _is_whole(facts: Facts, backwards: Collection[cst.CSTNode]) -> bool:
    """True where no other file runs a part of the training."""
    statements = [facts.tree.statement_of(call) for call in backwards]
    holders = {one.function for one in statements if not facts.tree.is_hidden(one)}
    training = [one for one in facts.tree.functions if facts.calls.reaches(one, holders.__contains__)]
    return bool(training) and not any(facts.is_used_outside(one) for one in training if not one.is_module)


def _is_referred_to(facts: Facts, node: cst.CSTNode) -> bool:
    """True for a definition that other files may use; a class is known by its methods."""
    own = [facts.tree.function_at[node]] if node in facts.tree.function_at else []
    methods = facts.tree.class_at[node].methods.values() if node in facts.tree.class_at else ()
    known = [*own, *methods]
    return not known or any(map(facts.is_used_outside, known))


def _is_used(facts: Facts, root: Function) -> bool:
    return any(one.parent is one.root is root and facts.is_used_outside(one) for one in facts.tree.functions)


def check_not_called(whole: Facts, seen: Facts, plans: Iterable[TrainingPlan]) -> None:
    """Raise Refusal for a call of a training function in what is hidden in the facts `seen`."""
    training = {function for plan in plans for function in _training(plan) if not function.is_module}
    for statement in whole.tree.all_statements():
        if not seen.tree.is_hidden(statement):
            continue
        for site in whole.calls.in_statement(statement):
            if whole.calls.reaches(site.callee, training.__contains__):
                message = f"{site.callee.name} trains, and is called here by code that cannot be migrated with it"
                raise Refusal(UNKNOWN_SCALER, site.call, message)


def _training(plan: TrainingPlan) -> Iterator[Function]:
    yield from (backward.statement.function for backward in plan.found.backwards)
    yield from (step.statement.function for step in plan.steps.steps)
    yield from (region.region.function for region in plan.regions)
    for scaler in plan.scalers:
        yield from (parameter.function for parameter in scaler.binding.parameters)
