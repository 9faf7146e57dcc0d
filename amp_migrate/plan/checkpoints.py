"""The test around a load of the scaler's state that asks whether there is one (rule F).

if "amp" in checkpoint:                            if "amp" in checkpoint and "scale" in checkpoint["amp"]:
    amp.load_state_dict(checkpoint["amp"])    =>       scaler.load_state_dict(checkpoint["amp"])
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.implied import implied, tested
from amp_migrate.facts.reaching import stands_for
from amp_migrate.facts.tree import Statement
from amp_migrate.plan.model import FormatTest, StateAccess


def format_test(facts: Facts, load: StateAccess) -> FormatTest | None:
    """The innermost test that lets the load run only where its state is there."""
    if load.state is None:
        return None
    for part, holds in reversed([*_known(facts, load.statement)]):
        for state in dict.fromkeys((load.state, stands_for(facts.names, load.state, load.statement))):
            is_there = holds and _says_there(facts, part, state)
            if is_there or (not holds and _says_missing(facts, part, state)):
                is_negated = isinstance(facts.tree.parents.get(part), cst.UnaryOperation)
                return FormatTest(part, state, is_negated=is_negated, says_missing=not is_there)
    return None


def _known(facts: Facts, statement: Statement) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What is true or false where a statement runs, behind names as well: `is_there = "amp" in checkpoint`."""
    for test, value in tested(statement):
        for part, holds in implied(test, value):
            named = stands_for(facts.names, part, facts.tree.statement_of(test))
            yield from implied(named, holds) if named is not part else [(part, holds)]


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
