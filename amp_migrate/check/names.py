"""Names and imports that a change broke."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.violation import Violation
from amp_migrate.facts import Facts
from amp_migrate.facts.names import Variable
from amp_migrate.facts.tree import Class, Function

_ALWAYS_THERE = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__path__", "__class__"}


def check_names(after: Facts, before: Facts) -> Iterator[Violation]:
    """Names that nothing binds any more, and imports whose last use went."""
    known = _unresolved(before)
    for name, node in _unresolved(after).items():
        if name not in known:
            yield Violation("unbound name", after.line(node), _function(after, node), f"{name} is not defined")
    used = {_place(variable) for variable in before.names.all_variables() if variable.loads}
    for variable in after.names.all_variables():
        if _place(variable) in used and not variable.loads and variable.import_path is not None:
            line = after.line(variable.bindings[0].node)
            yield Violation("unused import", line, "<module>", f"the import of {variable.name} is unused")
    yield from _used_before_bound(after)


def _place(variable: Variable) -> tuple[str, str]:
    owner = variable.scope.owner
    return (owner.name if isinstance(owner, (Function, Class)) else "", variable.name)


def _unresolved(facts: Facts) -> dict[str, cst.Name]:
    """The names that neither the module nor Python defines; star imports may."""
    found: dict[str, cst.Name] = {}
    for statement in facts.tree.all_statements():
        if isinstance(statement.node, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)):
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, cst.Name) and not facts.tree.is_label(part):
                variable = facts.names.variable_at(part)
                unbound = variable is None or not variable.bindings
                if unbound and part.value not in _ALWAYS_THERE:
                    found.setdefault(part.value, part)
    return found


def _used_before_bound(facts: Facts) -> Iterator[Violation]:
    """A scaler that its function reads in a place that its only assignment does not dominate."""
    for variable in facts.names.all_variables():
        if len(variable.bindings) == 1 and _is_scaler(facts, variable):
            binding = variable.bindings[0].statement
            assert binding is not None
            for load in variable.loads:
                statement = facts.tree.statement_of(load)
                if statement.function is not binding.function:
                    continue
                ahead = any(outer.block is binding.block and outer.index > binding.index for outer in statement.path())
                if not ahead:
                    message = f"{variable.name} may not be defined yet"
                    yield Violation("unbound name", facts.line(load), statement.function.name, message)


def _is_scaler(facts: Facts, variable: Variable) -> bool:
    value = variable.bindings[0].value
    return isinstance(value, cst.Call) and (facts.names.dotted(value.func) or "").endswith(".GradScaler")


def _function(facts: Facts, node: cst.CSTNode) -> str:
    return facts.tree.function_of(node).name
