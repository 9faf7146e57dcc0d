"""Exceptions between `unscale_` and `update` that the script catches before it goes on training.

    for batch in loader:
        try:
            ...
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)                      raises, of memory perhaps
            scaler.update()
        except RuntimeError:
            optimizer.zero_grad()                       the next unscale_ raises, whatever comes

It takes an exception in the clip or in the step, which no path has (`facts/paths`); so it is said, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Block, Function, Statement
from amp_migrate.findings import Finding
from amp_migrate.plan.steps.placement import StepPlan
from amp_migrate.rules.steps import CAUGHT_WHILE_UNSCALED

_ENDS = (cst.Raise, cst.Break)


def caught_while_unscaled(facts: Facts, steps: StepPlan) -> Iterator[Finding]:
    """A finding for each `try` around an unscale_ whose handler goes on with the training."""
    said: set[Statement] = set()
    for unscale in steps.unscales:
        for attempt in _attempts_around(facts, unscale.before):
            if attempt not in said:
                said.add(attempt)
                text = unscale.text(facts)
                message = f"after an exception in a clip or step of {text}, its next unscale_ raises as well"
                yield facts.finding(attempt.node, CAUGHT_WHILE_UNSCALED, message)


def _attempts_around(
    facts: Facts, statement: Statement, seen: frozenset[Function] = frozenset()
) -> Iterator[Statement]:
    """Those in the function of a statement, and in who calls it."""
    for outer in statement.path()[:-1]:
        if isinstance(outer.node, (cst.Try, cst.TryStar)) and statement.arm_of(outer.node) == "body":
            handlers = [block for block in outer.blocks if block.arm.startswith("except")]
            if _is_repeated(facts, outer) and any(map(_goes_on, handlers)):
                yield outer
    if statement.function not in seen:
        for site in facts.calls.callers(statement.function):
            yield from _attempts_around(facts, site.statement, seen | {statement.function})


def _goes_on(handler: Block) -> bool:
    """False for a handler that ends the training, and for what catches Ctrl-C."""
    last = handler.statements[-1]
    if isinstance(last.node, _ENDS) or (isinstance(last.node, cst.Expr) and last.leaves):
        return False
    kind = handler.node.type if isinstance(handler.node, (cst.ExceptHandler, cst.ExceptStarHandler)) else None
    return not (isinstance(kind, cst.Name) and kind.value == "KeyboardInterrupt")


def _is_repeated(facts: Facts, attempt: Statement, seen: frozenset[Function] = frozenset()) -> bool:
    """True where a loop is around it, here or in who calls its function."""
    if any(outer.is_loop for outer in attempt.path()[:-1]):
        return True
    function = attempt.function
    return function not in seen and any(
        _is_repeated(facts, site.statement, seen | {function}) for site in facts.calls.callers(function)
    )
