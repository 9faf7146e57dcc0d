"""Availability flags: variables that say whether the source form's package could be imported.

try:
from apex import amp
APEX_AVAILABLE = True
except ImportError:
APEX_AVAILABLE = False
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Binding, Variable


def availability_flags(facts: Facts, imports: list[Statement]) -> set[Variable]:
    """The variables that are true exactly where the imports worked, and are set nowhere else."""
    flags: set[Variable] = set()
    for statement in imports:
        owner = statement.block.owner
        if owner is None or not isinstance(owner.node, (cst.Try, cst.TryStar)):
            continue
        for variable in facts.names.all_variables():
            if _is_flag(variable, owner):
                flags.add(variable)
    return flags


def reads_of(facts: Facts, variables: set[Variable]) -> Iterator[tuple[Variable, cst.BaseExpression]]:
    """Every place that reads one of some variables, in all files: by an imported name or as `compat.FLAG` too."""
    for statement in facts.tree.all_statements() if variables else ():
        for part in facts.tree.expressions(statement):
            if isinstance(part, cst.Attribute) or (isinstance(part, cst.Name) and _is_load(facts, part)):
                variable = facts.names.definition(part)
                if variable in variables:
                    yield variable, part


def _is_load(facts: Facts, name: cst.Name) -> bool:
    variable = facts.names.variable_at(name)
    return variable is not None and name in variable.loads


def _is_flag(variable: Variable, attempt: Statement) -> bool:
    inside = [binding for binding in variable.bindings if _within(binding, attempt)]
    outside = [binding for binding in variable.bindings if binding not in inside]
    if not inside or not all(_is_constant(binding) for binding in variable.bindings):
        return False
    falls = [b for b in inside if _arm(b, attempt).startswith("except") and _value(b) in (False, None)]
    holds = [b for b in inside if not _arm(b, attempt).startswith("except") and _value(b) is True]
    if len(falls) + len(holds) != len(inside) or not all(_just_before(binding, attempt) for binding in outside):
        return False
    return bool(falls) or any(_value(binding) in (False, None) for binding in outside)


def _within(binding: Binding, attempt: Statement) -> bool:
    return binding.statement is not None and binding.statement.inside(attempt)


def _arm(binding: Binding, attempt: Statement) -> str:
    assert binding.statement is not None
    return binding.statement.arm_of(attempt.node) or ""


def _is_constant(binding: Binding) -> bool:
    return binding.kind == "assign" and not binding.selector and _value(binding) in (True, False, None)


def _value(binding: Binding) -> object:
    return literal_value(binding.value) if binding.value is not None else "unknown"


def _just_before(binding: Binding, attempt: Statement) -> bool:
    statement = binding.statement
    return statement is not None and statement.block is attempt.block and statement.index == attempt.index - 1
