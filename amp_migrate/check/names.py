"""Names and imports that a change broke."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.exports import is_exported, names_in_all
from amp_migrate.facts.tree import Statement, walk
from amp_migrate.facts.variables import Variable


def check_names(after: Facts, before: Facts) -> Iterator[Violation]:
    """Names that nothing binds any more, and imports whose last use went."""
    known = _unresolved(before)
    for place, node in _unresolved(after).items():
        if place not in known:
            yield violation(after, "unbound name", node, f"{node.value} is not defined")
    yield from _dangling(after, before)
    yield from _never_set(after, before)
    yield from _unused_imports(after, before)
    yield from _used_before_bound(after)
    known_early = {before.place(variable) for variable, _ in _read_too_early(before)}
    for variable, load in _read_too_early(after):
        if after.place(variable) not in known_early:
            message = f"{variable.name} is read before it has a value"
            yield violation(after, "unbound name", load, message)


def _unused_imports(after: Facts, before: Facts) -> Iterator[Violation]:
    used = before.places(lambda variable: bool(variable.loads))
    for variable in after.names.all_variables():
        is_read = variable.loads or variable.importers or is_exported(after, variable)
        if variable.import_path is not None and not is_read and after.place(variable) in used:
            message = f"the import of {variable.name} is unused"
            yield violation(after, "unused import", variable.bindings[0].node, message)


def _dangling(after: Facts, before: Facts) -> Iterator[Violation]:
    """Names of a module of the unit that it had before and has no more: imported, read as `module.name`, exported."""
    for path, node in _names_elsewhere(after):
        if after.names.variable_behind(path) is None and before.names.variable_behind(path) is not None:
            message = f"{shown(path)} is not defined any more"
            yield violation(after, "unbound name", node, message)
    for old, new in zip(before.tree.roots, after.tree.roots, strict=True):
        for name, element in names_in_all(after, new):
            if name in before.names.scope_of(old).variables and name not in after.names.scope_of(new).variables:
                message = f"{name} in __all__ is not defined any more"
                yield violation(after, "unbound name", element.value, message)


def _never_set(after: Facts, before: Facts) -> Iterator[Violation]:
    """`self.scaler`, read now and not before, that no class defines and nothing in the unit sets."""
    known = {name for name, _ in after.objects.all_stores()} | {name for name, _ in _read_of_self(before)}
    for owner in after.tree.classes:
        known |= after.names.scopes[owner].variables.keys()
    for name, node in _read_of_self(after):
        if name not in known:
            yield violation(after, "unbound name", node, f"self.{name} is never set")


def _read_of_self(facts: Facts) -> Iterator[tuple[str, cst.Attribute]]:
    for part, _ in facts.tree.every(cst.Attribute):
        if isinstance(part.value, cst.Name) and part.value.value == "self":
            yield part.attr.value, part


def _names_elsewhere(facts: Facts) -> Iterator[tuple[str, cst.CSTNode]]:
    for variable in facts.names.all_variables():
        yield from ((binding.path, binding.node) for binding in variable.bindings if binding.path is not None)
    for part, _ in facts.tree.every(cst.Attribute):
        module = facts.names.dotted(part.value)
        if module is not None:
            yield f"{module}.{part.attr.value}", part


def _unresolved(facts: Facts) -> dict[tuple[str, str], cst.Name]:
    """The names that neither their file nor Python defines, by file; star imports may."""
    found: dict[tuple[str, str], cst.Name] = {}
    for part, statement in facts.tree.every(cst.Name):
        if isinstance(statement.node, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)):
            continue
        if not facts.tree.is_label(part) and facts.names.is_unbound(part):
            found.setdefault((facts.file_of(part).path, part.value), part)
    return found


def _used_before_bound(facts: Facts) -> Iterator[Violation]:
    """A scaler that its function reads in a place that its only assignment does not dominate."""
    for variable in facts.names.all_variables():
        if len(variable.bindings) == 1 and _is_scaler(facts, variable):
            binding = variable.bindings[0].statement
            if binding is None:
                continue  # a parameter has its value from the start
            for load in variable.loads:
                statement = facts.tree.statement_of(load)
                if statement.function is not binding.function:
                    continue
                if not binding.runs_before(statement):
                    message = f"{variable.name} may not be defined yet"
                    yield violation(facts, "unbound name", load, message)


def _read_too_early(facts: Facts) -> Iterator[tuple[Variable, cst.Name]]:
    """Reads of a variable in its own function that stand above everything that gives it a value."""
    for variable in facts.names.all_variables():
        function = variable.scope.owner
        statements = [binding.statement for binding in variable.bindings]
        bound = [one for one in statements if one is not None and one.function is function]
        if not bound or len(bound) < len(statements):
            continue  # parameters, globals
        for load in variable.loads:
            at = facts.tree.statement_of(load)
            is_above = all(at.order < one.order or (at is one and _reads_first(one)) for one in bound)
            if at.function is function and is_above and not _in_one_loop(at, bound):
                yield variable, load


def _reads_first(statement: Statement) -> bool:
    """True for `x = x.float()`, which reads x before it gives it a value."""
    return isinstance(statement.node, (cst.Assign, cst.AugAssign)) and not any(
        isinstance(part, (cst.NamedExpr, cst.Lambda)) for part in walk(statement.node)
    )


def _in_one_loop(at: Statement, bound: list[Statement]) -> bool:
    loops = [outer for outer in at.path() if outer.is_loop]
    return any(one.inside(loop) for loop in loops for one in bound)


def _is_scaler(facts: Facts, variable: Variable) -> bool:
    value = variable.bindings[0].value
    return isinstance(value, cst.Call) and (facts.names.dotted(value.func) or "").endswith(".GradScaler")
