"""The test around a load of the scaler's state that asks whether there is one (rule F).

if "amp" in checkpoint:                            if "amp" in checkpoint and "scale" in checkpoint["amp"]:
    amp.load_state_dict(checkpoint["amp"])    =>       scaler.load_state_dict(checkpoint["amp"])
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.implied import implied
from amp_migrate.plan.model import FormatTest, StateAccess


def format_test(facts: Facts, load: StateAccess) -> FormatTest | None:
    """The innermost test that lets the load run only where its state is there."""
    if load.state is None:
        return None
    for outer in reversed(load.statement.path()[:-1]):
        arm = load.statement.arm_of(outer.node) if isinstance(outer.node, cst.If) else None
        if arm is None or not isinstance(outer.node, cst.If):
            continue
        for part, holds in implied(outer.node.test, arm == "body"):
            is_there = holds and _says_there(facts, part, load.state)
            if is_there or (not holds and _says_missing(facts, part, load.state)):
                is_negated = isinstance(facts.tree.parents.get(part), cst.UnaryOperation)
                return FormatTest(part, is_negated=is_negated, says_missing=not is_there)
    return None


def _says_there(facts: Facts, test: cst.BaseExpression, state: cst.BaseExpression) -> bool:
    """`"amp" in checkpoint`, `checkpoint["amp"] is not None`, or the state itself."""
    if facts.text(test) == facts.text(state):
        return True
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    operator, right = test.comparisons[0].operator, test.comparisons[0].comparator
    if isinstance(operator, cst.IsNot):
        return facts.text(test.left) == facts.text(state) and facts.text(right) == "None"
    return isinstance(operator, cst.In) and _is_key(facts, test.left, right, state)


def _says_missing(facts: Facts, test: cst.BaseExpression, state: cst.BaseExpression) -> bool:
    """`"amp" not in checkpoint`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    return isinstance(target.operator, cst.NotIn) and _is_key(facts, test.left, target.comparator, state)


def _is_key(facts: Facts, key: cst.BaseExpression, container: cst.BaseExpression, state: cst.BaseExpression) -> bool:
    """True where `container[key]` is the state; `checkpoint.keys()` counts as the checkpoint."""
    if not isinstance(state, cst.Subscript):
        return False
    holder = facts.text(state.value)
    return facts.text(container) in (holder, f"{holder}.keys()") and f"{holder}[{facts.text(key)}]" == facts.text(state)
