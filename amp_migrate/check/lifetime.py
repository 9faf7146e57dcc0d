"""One scaler for a training (rules A1 and F): made before its loops, and saved with what it trains."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Event, Scalers
from amp_migrate.check.unseen import Unseen
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.variables import Variable


def check_creations(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """Scalers that are made anew in every round of a loop, for an optimizer that is made once, before it.

    A new run (a fold, a phase) makes both, or is not in sight as a whole: that is right, or cannot be told.
    """
    for creation in scalers.creations:
        for loop in _loops_around(facts, facts.tree.statement_of(creation)):
            outlives = _outliving_optimizer(facts, scalers, creation, loop)
            if outlives is not None:
                message = f"a new scaler in every round of the loop on line {facts.line(loop.node)}; {outlives} stays"
                yield violation(facts, "scaler in a loop", creation, message)
                break


def check_checkpoints(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """Checkpoints with the state of an optimizer and without that of its scaler.

    No violation of what is made from other code: there, checkpoints keep the format that they had.
    """
    unseen = Unseen(facts, scalers.objects)
    for part in facts.tree.parents:
        if isinstance(part, cst.Call) and called_name(part) == "state_dict" and isinstance(part.func, cst.Attribute):
            key = _optimizer_saved(facts, scalers, part)
            if key is not None and not _is_scaler_kept(facts, scalers, unseen):
                message = f"a checkpoint holds the state of {key}, and not that of its scaler"
                yield violation(facts, "scaler not saved", part, message)
                return  # the others of the file are the same omission


def _loops_around(facts: Facts, statement: Statement) -> Iterator[Statement]:
    """The loops in which a statement runs every time, those around the calls of its function included."""
    seen: set[Function] = set()
    waiting = [statement]
    while waiting:
        current = waiting.pop()
        for outer in reversed(current.path()[:-1]):
            if not isinstance(outer.node, (cst.For, cst.While, cst.With)):
                break  # under a condition it may run once
            if outer.is_loop:
                yield outer
        else:
            function = current.function
            if function not in seen and not _is_kept(facts, statement):
                seen.add(function)
                waiting += [site.statement for site in facts.calls.callers(function)]


def _is_kept(facts: Facts, statement: Statement) -> bool:
    """True for a scaler that may outlive the function that makes it: an attribute, or what is returned."""
    node = statement.node
    target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if not isinstance(target, cst.Name):
        return True
    variable = facts.names.variable_at(target)
    return variable is None or any(
        isinstance(facts.tree.statement_of(load).node, cst.Return) for load in variable.loads
    )


def _outliving_optimizer(facts: Facts, scalers: Scalers, creation: cst.Call, loop: Statement) -> str | None:
    """An optimizer that the scaler steps inside the loop, and that is made outside of it; some round may replace it."""
    inside = set(loop.descendants())
    called = {
        reached
        for statement in inside
        for site in facts.calls.in_statement(statement)
        for reached in facts.calls.reachable(site.callee)
    }

    def runs_inside(statement: Statement) -> bool:
        return statement in inside or statement.function in called

    def outlives(one: Object) -> bool:
        if one.kind == "call" and isinstance(one.origin, cst.Call):
            return not runs_inside(facts.tree.statement_of(one.origin))
        return one.kind == "parameter" and isinstance(one.origin, Variable) and one.origin.scope.owner is loop.function

    def steps(statement: Statement, event: Event) -> bool:
        return runs_inside(statement) and not event.scaler.isdisjoint(facts.objects.objects(creation))

    for statement, event in scalers.of_kind("step"):
        objects = scalers.objects_of(event.optimizer) if event.optimizer is not None else frozenset()
        anew = [one for one in objects if not outlives(one)]
        if len(anew) < len(objects) and all(_is_made_at_times(facts, one) for one in anew) and steps(statement, event):
            return event.optimizer
    return None


def _is_made_at_times(facts: Facts, one: Object) -> bool:
    """True for what is made under a condition, with nothing in its place otherwise."""
    return isinstance(one.origin, cst.Call) and facts.tree.statement_of(one.origin).has_no_other_arm


def _optimizer_saved(facts: Facts, scalers: Scalers, call: cst.Call) -> str | None:
    """The optimizer whose state goes into a checkpoint: `{"optimizer": optimizer.state_dict()}`."""
    assert isinstance(call.func, cst.Attribute)
    parent = facts.tree.parents.get(call)
    is_keyword = isinstance(parent, cst.Arg) and parent.keyword is not None
    is_item = isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Subscript)
    if not (isinstance(parent, cst.DictElement) or is_keyword or is_item):
        return None
    objects = facts.objects.objects(call.func.value)
    seen = [creation for creation in scalers.creations if _sees(facts, call, creation)]
    made_here = frozenset(one for creation in seen for one in facts.objects.objects(creation))
    for _, event in scalers.of_kind("step"):
        known = scalers.objects_of(event.optimizer) if event.optimizer is not None else frozenset()
        if objects and objects <= known and event.scaler <= made_here:
            return event.optimizer
    return None


def _sees(facts: Facts, call: cst.Call, creation: cst.Call) -> bool:
    """True where a call runs in the training that a scaler is made for, not in another with a like optimizer."""
    here, there = facts.tree.function_of(call), facts.tree.function_of(creation)
    is_attribute = (
        here.owner is not None and here.owner is there.owner and _is_kept(facts, facts.tree.statement_of(creation))
    )
    return there.is_module or is_attribute or here in facts.calls.reachable(there)


def _is_scaler_kept(facts: Facts, scalers: Scalers, unseen: Unseen) -> bool:
    """True where the state of a scaler is saved in the files, or may be by code that is not at hand."""
    for part in facts.tree.parents:
        if isinstance(part, cst.Attribute) and part.attr.value in ("state_dict", "__dict__"):
            if facts.objects.may_be(part.value, scalers.objects | unseen.holders):
                return True
        elif isinstance(part, (cst.DictElement, cst.Element)) and scalers.is_scaler(part.value):
            return True
        elif isinstance(part, cst.Call) and facts.objects.called_function(part) is None:
            if unseen.may_use_scaler(part):
                return True
    return False
