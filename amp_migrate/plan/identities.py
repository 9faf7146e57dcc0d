"""Statements that only put the same objects back (rule J2).

for i in range(len(models)):
model, optimizer = amp.initialize(models[i], optimizers[i])       `initialize` returns the objects that
models[i] = model                                                 it is given: the loop does nothing
optimizers[i] = optimizer                                         natively
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.variables import Variable
from amp_migrate.plan.model import Recognition, Setup


def drop_identities(facts: Facts, found: Recognition) -> None:
    """Remove such assignments, and the aliases that nothing else reads, from what is to be written."""
    for setup in found.setups:
        put_back = [statement for statement in setup.statement.next_siblings() if _puts_back(statement, setup)]
        if put_back and all(_is_dead(facts, target, setup, put_back) for target, _ in setup.aliases):
            setup.aliases = []
            found.removed.extend(put_back)


def _puts_back(statement: Statement, setup: Setup) -> bool:
    """`models[i] = model` after `model = models[i]`."""
    node = statement.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return False
    target, value = source_key(node.targets[0].target), source_key(node.value)
    return any(source_key(alias) == value and source_key(origin) == target for alias, origin in setup.aliases)


def _is_dead(facts: Facts, target: cst.BaseExpression, setup: Setup, put_back: list[Statement]) -> bool:
    """True where every other read of the alias comes after another binding of the name."""
    variable = facts.names.variable_at(target)
    if variable is None:
        return False
    for load in variable.loads:
        statement = facts.tree.statement_of(load)
        if statement not in put_back and not _is_bound_again(variable, statement, setup):
            return False
    return True


def _is_bound_again(variable: Variable, read: Statement, setup: Setup) -> bool:
    for binding in variable.bindings:
        other = binding.statement
        if other is None or other is setup.statement or other is read:
            continue
        for outer in read.path():
            if outer.block is other.block and other.index < outer.index and other.order > setup.statement.order:
                return True
            if outer is other and isinstance(other.node, cst.For):
                return True
    return False
