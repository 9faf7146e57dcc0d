"""`optimizer.overflow`, by which a script in half knows that a step was skipped; without half none ever is.

    if args.fp16:
        optimizer.backward(loss)
        optimizer.step()
        skipped = optimizer.overflow                optimizer.backward(loss)
    else:                                    =>     optimizer.step()
        loss.backward()                             skipped = optimizer.overflow
        optimizer.step()
        skipped = False

A scaler that is off skips nothing either, so that the question holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Block
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding
from amp_migrate.rules.fp16_utils import OVERFLOW_SKIPPED


def tells_overflow(node: cst.CSTNode) -> bool:
    """True for `optimizer.overflow`."""
    return isinstance(node, cst.Attribute) and node.attr.value == "overflow"


def says_never(node: cst.BaseExpression) -> bool:
    """True for the False of an arm in which no step is skipped."""
    return literal_value(node) is False


def shared_questions(facts: Facts, plain: Block, other: Block) -> dict[cst.BaseExpression, cst.BaseExpression]:
    """Each False that an arm sets, with what the arm that goes asks its wrapper for under the same name."""
    asked = {facts.text(target): value for target, value in _set_in(other) if tells_overflow(value)}
    never = ((facts.text(target), value) for target, value in _set_in(plain) if says_never(value))
    return {value: asked[target] for target, value in never if target in asked}


def lost_questions(facts: Facts, other: Block, shared: list[cst.BaseExpression]) -> Iterator[Finding]:
    """What else an arm that goes asks: nothing of the plain arm waits for the answer."""
    for statement in other.descendants():
        for part in facts.tree.expressions(statement):
            if tells_overflow(part) and part not in shared:
                text = facts.text(part)
                message = f"{text} was asked in mixed precision only, and goes: what waited for it is done in any case"
                yield facts.finding(part, OVERFLOW_SKIPPED, message)


def _set_in(block: Block) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    for statement in block.descendants():
        if isinstance(statement.node, cst.Assign) and len(statement.node.targets) == 1:
            yield statement.node.targets[0].target, statement.node.value
