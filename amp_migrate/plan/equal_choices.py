"""Conditional expressions whose two sides become the same: one of them is enough (rule B3).

`optimizer.optimizer.param_groups if args.fp16 else optimizer.param_groups` chose what a wrapper holds.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import walk
from amp_migrate.plan.purity import only_looks


def without_equal_choices(facts: Facts, replaced: dict[cst.BaseExpression, str]) -> dict[cst.BaseExpression, str]:
    """The replacements, with one side in the place of each choice that they make idle."""
    remaining = dict(replaced)
    for choice in dict.fromkeys(_choice_around(facts, node) for node in replaced):
        if choice is not None and only_looks(choice.test):
            body, orelse = (_written(side, remaining) for side in (choice.body, choice.orelse))
            if body == orelse:
                inside = set(walk(choice))
                remaining = {node: text for node, text in remaining.items() if node not in inside}
                remaining[choice] = body
    return remaining


def _choice_around(facts: Facts, node: cst.CSTNode) -> cst.IfExp | None:
    """The innermost choice that an expression is in a side of."""
    current: cst.CSTNode | None = node
    while current is not None and not isinstance(current, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
        holder = facts.tree.parents.get(current)
        if isinstance(holder, cst.IfExp) and holder.test is not current:
            return holder
        current = holder
    return None


def _written(side: cst.BaseExpression, replaced: dict[cst.BaseExpression, str]) -> str:
    """How a side will be written."""
    for node in [part for part in walk(side) if part in replaced]:
        assert isinstance(node, cst.BaseExpression)
        new = cst.parse_expression(replaced[node])
        changed = new if node is side else side.deep_replace(node, new)
        assert isinstance(changed, cst.BaseExpression)
        side = changed
    return source_key(side)
