"""A guard that is a parameter, where only some of the calls lead to a backward: it is what those calls give.

def run(mode, model, loader, optimizer=None, fp16=None):      run("train", model, batches, optimizer, args.fp16)
...                                                       run("test", model, batches)
if mode == "train":
if fp16:
with amp.scale_loss(loss, optimizer) as scaled_loss:
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.conditions import Formula, conjunction, equal_to, negation, without_not
from amp_migrate.facts.paths import is_dead
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.plan.model import Guard


@dataclasses.dataclass(frozen=True)
class GivenGuard:
    """In the function of `parameter`, this stands for what has the meaning of `formula` where it trains.

    `tests` are those of the function that nobody asks without it.
    """

    parameter: cst.Param
    formula: Formula
    tests: frozenset[cst.BaseExpression]


def given_guard(facts: Facts, guard: Guard, backward: Statement) -> GivenGuard | None:
    """What the calls that lead to a guarded backward give for its guard; None where it is no parameter, where all
    calls agree on it anyway, or where these do not agree.
    """
    function = guard.statement.function
    variable = facts.names.variable_at(without_not(guard.test))
    param = next((one for one in function.parameters if facts.names.variable_at(one.name) is variable), None)
    if variable is None or param is None or facts.identity.variable_key(variable) != ("variable", variable):
        return None
    sites = facts.calls.callers(function)
    others = [site for site in sites if is_left_out(facts, backward, site, function)]
    arguments = [facts.objects.argument(site.call, function, param) for site in sites if site not in others]
    keys = {facts.identity.key(arg.value) if arg is not None else None for arg in arguments}
    first = arguments[0] if arguments else None
    if len(keys) != 1 or None in keys or first is None or facts.calls.value_uses(function):
        return None
    formula = facts.conditions.compile(first.value)
    return GivenGuard(param, formula, frozenset(_tests_without(facts, function, others)))


def _tests_without(facts: Facts, function: Function, others: list[CallSite]) -> Iterator[cst.BaseExpression]:
    """The tests of a function that do not run in some of the calls."""
    for statement in function.descendants():
        if isinstance(statement.node, cst.If):
            if all(is_left_out(facts, statement, site, function) for site in others):
                yield statement.node.test


def with_given(guard: Guard, given: GivenGuard) -> Guard:
    """The guard, meaning what it is given."""
    holds = (guard.arm == "body") == (without_not(guard.test) is guard.test)
    return dataclasses.replace(guard, formula=given.formula if holds else negation(given.formula))


def is_left_out(facts: Facts, statement: Statement, site: CallSite, function: Function) -> bool:
    """True where a statement of a function does not run in a call, by the constants that this gives."""
    world = _given_constants(facts, site, function)
    return is_dead(statement, lambda test: facts.conditions.settled(test, world))


def _given_constants(facts: Facts, site: CallSite, function: Function) -> Formula:
    """What the parameters are in a call that gives constants, or leaves them to be their defaults."""
    known = []
    is_starred = any(one.star for one in site.call.args)
    for param in function.parameters:
        variable = facts.names.variable_at(param.name)
        arg = facts.objects.argument(site.call, function, param)
        given = arg.value if arg is not None else None if is_starred else param.default
        value = literal_value(given) if given is not None else UNKNOWN
        key = facts.identity.key(param.name)
        if variable is not None and len(variable.bindings) == 1 and key is not None and value is not UNKNOWN:
            known.append(equal_to(key, value))
    return conjunction(known)
