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
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Statement
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
    reads = (facts.tree.statement_of(load) for load in variable.loads)
    bound = (binding for one in reads if one not in put_back for binding in reaching(variable, one))
    return all(binding.statement is not setup.statement for binding in bound)
