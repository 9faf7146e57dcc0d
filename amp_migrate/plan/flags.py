"""Availability flags: variables that say whether the source form's package could be imported.

try:
from apex import amp
APEX_AVAILABLE = True
except ImportError:
APEX_AVAILABLE = False
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.names import Binding, Variable
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import literal_value


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


def _is_flag(variable: Variable, attempt: Statement) -> bool:
    inside = [binding for binding in variable.bindings if _within(binding, attempt)]
    outside = [binding for binding in variable.bindings if binding not in inside]
    if not inside or not all(_is_constant(binding) for binding in variable.bindings):
        return False
    falls = [b for b in inside if _arm(b, attempt).startswith("except") and _value(b) in (False, None)]
    holds = [b for b in inside if not _arm(b, attempt).startswith("except") and _value(b) is True]
    if len(falls) + len(holds) != len(inside) or not falls:
        return False
    return all(_just_before(binding, attempt) for binding in outside)


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
