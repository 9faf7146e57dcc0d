"""Arms of a guard that have become one and the same in the plain program: one of them is enough (rule G3)."""

from __future__ import annotations

import re
from collections.abc import Collection

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated, source_key
from amp_migrate.facts.tree import Block, Statement
from amp_migrate.native.lower import is_edited_next, is_mark, scale_at
from amp_migrate.plan.model import Lowering
from amp_migrate.plan.purity import only_looks

OF_PRECISION = re.compile(r"half|fp16|float16|mixed|amp\b|precision", re.IGNORECASE)


def edited_guards(
    facts: Facts, sites: Collection[cst.CSTNode], float_steps: Collection[Statement] = ()
) -> list[Statement]:
    """Every `if` about precision with an `else`, where something of the form stands in an arm. Directly around a step
    in float32 it is about precision whatever it asks: `if device == "cpu":`.
    """
    around = {facts.tree.owner_of(one.block) for one in float_steps}
    edited: dict[Statement, None] = {}
    for site in sites:
        for outer in facts.tree.statement_of(site).path()[:-1]:
            node = outer.node
            if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else) and only_looks(node.test):
                if not outer.is_elif and (outer in around or OF_PRECISION.search(facts.text(node.test))):
                    edited[outer] = None
    return list(edited)


def equal_arms(facts: Facts) -> Lowering:
    """What puts one arm in the place of each edited guard with two equal ones, the innermost first. The marks in them
    keep their condition.
    """
    lowering = Lowering()
    for mark in facts.tree.all_statements():
        if not is_edited_next(mark):
            continue
        guard = next(
            one for one in mark.next_siblings() if isinstance(one.node, cst.If) and one.node.orelse is not None
        )
        if not any(is_edited_next(inner) for inner in guard.descendants()):
            lowering.removed.append(mark)
            _compare(facts, guard, lowering)
    return lowering


def _compare(facts: Facts, guard: Statement, lowering: Lowering) -> None:
    assert isinstance(guard.node, cst.If)
    body, orelse = guard.blocks
    if _keys(body) != _keys(orelse):
        return
    keeps_else = len(_without_marks(orelse)) == len(orelse.statements)
    lowering.arms[guard] = "else" if keeps_else else "body"
    goes, test = (body, guard.node.test) if keeps_else else (orelse, negated(guard.node.test))
    for statement in goes.statements:
        scale = scale_at(statement)
        if is_mark(statement):
            lowering.marks.append((guard, facts.text(test)))
        elif scale is not None:
            lowering.scales.append((guard, facts.text(scale)))


def _keys(block: Block) -> list[str]:
    return [source_key(statement.node) for statement in _without_marks(block)]


def _without_marks(block: Block) -> list[Statement]:
    return [one for one in block.statements if not is_mark(one) and scale_at(one) is None]
