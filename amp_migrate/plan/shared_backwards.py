"""Arms that begin with the same backward, once it is scaled alike: it stands before the `if` then (rule B3).

What a loss was not unscaled for is the same call natively.

if i % k != 0:                                                    scaler.scale(loss).backward()
    with amp.scale_loss(loss, opt, delay_unscale=True) as l:      if i % k == 0:
        l.backward()                                        =>        scaler.step(opt)
else:
    with amp.scale_loss(loss, opt) as l:
        l.backward()
    opt.step()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement, walk
from amp_migrate.plan.model import Backward, Recognition
from amp_migrate.plan.purity import only_looks


@dataclasses.dataclass(frozen=True)
class SharedBackward:
    """The backward that begins the first arm of an `if`, and the one that begins the other."""

    holder: Statement
    first: Backward
    other: Backward


def find_shared_backwards(facts: Facts, found: Recognition) -> list[SharedBackward]:
    """Those of arms that differ behind them; arms that are equal as a whole collapse."""
    return list(_shared(facts, found))


def _shared(facts: Facts, found: Recognition) -> Iterator[SharedBackward]:
    by_statement = {backward.statement: backward for backward in found.backwards if backward.block is not None}
    for first in by_statement.values():
        holder = first.statement.block.owner
        if holder is None or not isinstance(holder.node, cst.If) or isinstance(holder.block.node, cst.If):
            continue
        arms = [block.statements[0] for block in holder.blocks if not isinstance(block.node, cst.If)]
        if len(arms) != 2 or arms[0] is not first.statement or arms[1] not in by_statement:
            continue
        other = by_statement[arms[1]]
        if _spares(holder.node.test) and _says(facts, first) == _says(facts, other) is not None:
            yield SharedBackward(holder, first, other)


def _spares(test: cst.BaseExpression) -> bool:
    """True for a test that a backward does not change: it reads no gradients."""
    attributes = (part.attr.value for part in walk(test) if isinstance(part, cst.Attribute))
    return only_looks(test) and "grad" not in attributes


def _says(facts: Facts, backward: Backward) -> tuple[str, str] | None:
    """The loss, and what is called of it; None for a block that does more, or has something to say."""
    node = backward.statement.node
    if backward.block is None or not isinstance(node, cst.With) or len(node.items) != 1:
        return None
    inner = backward.statement.blocks[0].statements
    if len(inner) != 1 or len(backward.block.uses) != 1 or "#" in facts.text(node):
        return None
    call = facts.text(inner[0].node)
    prefix = f"{backward.block.scaled}.backward("
    return (source_key(backward.loss), call.removeprefix(prefix)) if call.startswith(prefix) else None
