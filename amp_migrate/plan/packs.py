"""Names that stand for several objects on their way through the setup, and for nothing else (rule J2).

optimizer = [self.opt_g, self.opt_d]                          `initialize` returns the objects that it is given:
self.model, optimizer = amp.initialize(self.model, optimizer)       the three lines do nothing natively
self.opt_g, self.opt_d = optimizer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.tree import Statement, names_in
from amp_migrate.plan.model import Recognition, Setup


def drop_packs(facts: Facts, found: Recognition) -> None:
    """Remove what packs the arguments of a setup, and what takes its result apart into the same objects."""
    for setup in found.setups:
        if setup.stays or isinstance(setup.statement.node, cst.Return):
            continue
        for name, value, pack in _packed(facts, setup):
            unpacking = list(_unpacking(setup, name, value, found.removed))
            if _is_only_for(facts, name, [setup.statement, *unpacking], pack) and not _is_renamed(name, setup):
                found.removed.extend(unpacking if pack is None else [pack, *unpacking])
                setup.aliases = [pair for pair in setup.aliases if pair[0] is not name]


def _packed(facts: Facts, setup: Setup) -> Iterator[tuple[cst.Name, cst.BaseExpression, Statement | None]]:
    """Names with what they stand for, and the statement that says so: none for what the setup itself returns."""
    for target, value in setup.aliases:
        if isinstance(target, cst.Name) and _elements(value) is not None:
            yield target, value, None
    given = {node.value for node in (*setup.models, *setup.optimizers) if isinstance(node, cst.Name)}
    for statement in _run_of_assignments(reversed(setup.statement.block.statements[: setup.statement.index])):
        bound, packed = _assigned(statement)
        if isinstance(bound, cst.Name) and bound.value in given and packed is not None and _is_free(facts, packed):
            yield bound, packed, statement


def _unpacking(
    setup: Setup, name: cst.Name, value: cst.BaseExpression, removed: list[Statement]
) -> Iterator[Statement]:
    """The statements directly after the setup that give the elements of a display their own names again."""
    elements = _elements(value)
    if elements is None:
        return
    for statement in _run_of_assignments(setup.statement.next_siblings()):
        target, taken = _assigned(statement)
        if target is None or taken is None or statement in removed:
            continue
        is_whole = isinstance(taken, cst.Name) and taken.value == name.value and _elements(target) == elements
        if is_whole or _is_element(target, taken, name.value, elements):
            yield statement


def _is_only_for(facts: Facts, name: cst.Name, statements: list[Statement], pack: Statement | None) -> bool:
    """True where a local name is bound for the setup alone, and read nowhere but in some statements."""
    variable = facts.names.variable_at(name)
    if variable is None or variable.importers:
        return False
    bound = [binding.statement for binding in variable.bindings]
    reads = [facts.tree.statement_of(load) for load in variable.loads]
    is_used = pack is not None or len(statements) > 1
    return is_used and all(one in (pack, statements[0]) for one in bound) and all(one in statements for one in reads)


def _is_renamed(name: cst.Name, setup: Setup) -> bool:
    """True where another name goes on for it: `net, opt = amp.initialize(model, optimizer)`."""
    values = [value for target, value in setup.aliases if target is not name]
    return any(name.value in names_in(value) for value in values)


def _run_of_assignments(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        if not isinstance(statement.node, cst.Assign) or len(statement.node.targets) != 1:
            return
        yield statement


def _assigned(statement: Statement) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    node = statement.node
    return (node.targets[0].target, node.value) if isinstance(node, cst.Assign) else (None, None)


def _is_free(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for what nobody misses: displays of names and attributes, a choice among them, an optimizer of torch's."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(_is_free(facts, element.value) for element in node.elements)
    if isinstance(node, cst.IfExp):
        return all(_is_free(facts, part) for part in (node.test, node.body, node.orelse))
    if isinstance(node, cst.Call):
        return any(path.startswith("torch.optim.") for path in facts.objects.import_paths(node.func))
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _elements(node: cst.BaseExpression) -> list[str] | None:
    if not isinstance(node, (cst.List, cst.Tuple)):
        return None
    return [source_key(element.value) for element in node.elements]


def _is_element(target: cst.BaseExpression, taken: cst.BaseExpression, name: str, elements: list[str]) -> bool:
    """True for `target = name[2]`, where the target is what stands there."""
    if not isinstance(taken, cst.Subscript) or source_key(taken.value) != name:
        return False
    places = (f"[{index}]" for index, element in enumerate(elements) if element == source_key(target))
    return subscript_key(taken) in places
