"""What a place can be given: nothing that is never made, or was made under a condition which excludes its own.

What `self.criterion = nn.BCELoss()` stores under `if kind == "bce":` is not what `self.criterion(1 - output)` calls
under `if self.kind == "hinge":`.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction
from amp_migrate.facts.running import Running
from amp_migrate.facts.tree import Statement, walk
from amp_migrate.plan.scaler.enabling import enclosing_guards


def is_excluded(facts: Facts, origin: cst.CSTNode, place: Statement) -> bool:
    """True where what `origin` makes cannot be met at a place: the tests around both never hold together, or no caller
    in sight lets it be made.
    """
    running = facts.analysis(Running)
    if running.may_run(place.node) and not running.may_run(origin):
        return True
    made, met = (enclosing_guards(facts, one) for one in (facts.tree.statement_of(origin), place))
    guards = [*made, *met]
    if not made or not met or not all(_keeps_its_value(facts, guard.statement.node) for guard in guards):
        return False
    return facts.conditions.constant(conjunction([guard.formula for guard in guards])) is False


def _keeps_its_value(facts: Facts, holder: cst.CSTNode) -> bool:
    """True for a test of names that are bound once, and of attributes that nothing but constructors set."""
    assert isinstance(holder, cst.If)
    for part in walk(holder.test):
        if isinstance(part, cst.Attribute):
            stores = facts.objects.stores_of(part.attr.value)
            if any(store.statement.function.name != "__init__" for store in stores):
                return False
        elif isinstance(part, cst.Name):
            variable = facts.names.variable_at(part)
            if variable is not None and len(variable.bindings) > 1:
                return False
    return True
