"""The world that the checks look at: the runs in which mixed precision is on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.check.regions import autocast_items, enabled_of
from amp_migrate.check.scalers import Scalers
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction, disjunction, negation, source_key
from amp_migrate.facts.implied import implied
from amp_migrate.facts.paths import written_by
from amp_migrate.facts.tree import Statement, argument_value, called_name, names_in, walk

_Answered = tuple[str, bool]  # a test, as text, and its answer


class World:
    """What holds where there is a scaler and it is enabled.

    It is as well what every scaled backward stands under, as far as no loop changes it, if it is what autocast is
    enabled by: `if self.use_amp: scaler.scale(loss).backward()` says by what name mixed precision goes. Where the files
    are not `whole`, there may be no autocast in sight that says the same.
    """

    def __init__(self, facts: Facts, scalers: Scalers, *, whole: bool) -> None:
        self.facts = facts
        self.scalers = scalers
        self._name_carriers()
        self._on = [*self._enabled(), self._made()]
        common = self._common_guards()
        self._on += [formula for key, formula in common.items() if not whole or key in self._of_autocasts]

    @property
    def is_empty(self) -> bool:
        """True where every scaler is off for good, whatever the options: none does anything."""
        return 0 < len(self._switches) == len(self.scalers.creations) and not self._enabled()

    def decide(self, test: cst.BaseExpression) -> bool | None:
        """The answer of a test in this world; None where it has no one answer."""
        return self.facts.conditions.settled(test, self._about(test))

    def _about(self, test: cst.BaseExpression) -> Formula:
        """What of the world has to do with a test: all of it would be too many cases to try."""
        keys = set(self.facts.conditions.compile(test).variables)
        waiting, found = list(self._on), []
        while near := [formula for formula in waiting if keys & formula.variables.keys()]:
            waiting = [formula for formula in waiting if formula not in near]
            found += near
            keys.update(*(formula.variables for formula in near))
        return conjunction(found)

    def _enabled(self) -> list[Formula]:
        return [formula for formula in self._switches if self.facts.conditions.constant(formula) is not False]

    @cached_property
    def _switches(self) -> list[Formula]:
        """The conditions that scalers are given as `enabled`."""
        given = (argument_value(creation, "enabled") for creation in self.scalers.creations)
        return [self.facts.conditions.compile(value) for value in given if value is not None]

    def _made(self) -> Formula:
        """A scaler is made, in one place or another: `if args.amp: scaler = GradScaler()`."""
        return disjunction(conjunction(self._made_under(creation)) for creation in self.scalers.creations)

    def _made_under(self, creation: cst.Call) -> Iterator[Formula]:
        yield from self._guards(self.facts.tree.statement_of(creation)).values()
        node: cst.CSTNode = creation
        while isinstance(parent := self.facts.tree.parents.get(node), cst.IfExp):
            if node is not parent.test:
                yield self._formula(parent.test, holds=node is parent.body)
            node = parent

    def _common_guards(self) -> dict[_Answered, Formula]:
        guards = [self._guards(statement) for statement, _ in self.scalers.of_kind("backward")]
        common = set.intersection(*(set(one) for one in guards)) if guards else set()
        return {key: guards[0][key] for key in sorted(common)}

    @cached_property
    def _of_autocasts(self) -> set[_Answered]:
        """The conditions that autocasts are given as `enabled`."""
        calls = (call for one in self.facts.tree.all_statements() for call in autocast_items(self.facts, one))
        return {(source_key(value), True) for call in calls for value in enabled_of(self.facts, call)}

    def _guards(self, statement: Statement) -> dict[_Answered, Formula]:
        """The tests that a statement stands under and that no loop around them changes, and what follows for their
        parts, by text and answer.
        """
        found = {}
        for outer in statement.path()[:-1]:
            if isinstance(outer.node, cst.If) and not names_in(outer.node.test) & _changing(outer):
                for part, holds in implied(outer.node.test, statement.arm_of(outer.node) == "body"):
                    found[source_key(part), holds] = self._formula(part, holds=holds)
        return found

    def _formula(self, test: cst.BaseExpression, *, holds: bool) -> Formula:
        formula = self.facts.conditions.compile(test)
        return formula if holds else negation(formula)

    def _name_carriers(self) -> None:
        """In this world `scaler` is true and not None, and so is `scaler.is_enabled()`."""
        always = conjunction(())
        for statement in self.facts.tree.all_statements():
            for test in _tests(self.facts, statement):
                for part in walk(test):
                    if isinstance(part, cst.Call) and called_name(part) == "is_enabled":
                        self.facts.conditions.always.add(part)
                    elif isinstance(part, (cst.Name, cst.Attribute)) and not self.facts.tree.is_label(part):
                        if self.scalers.is_scaler(part):
                            self.facts.conditions.carriers[part] = always


def _tests(facts: Facts, statement: Statement) -> Iterator[cst.BaseExpression]:
    if isinstance(statement.node, (cst.If, cst.While)):
        yield statement.node.test
    yield from (part.test for part in facts.tree.expressions(statement) if isinstance(part, cst.IfExp))


def _changing(statement: Statement) -> set[str]:
    """The names that the loops around a statement assign, and those that its function counts up."""
    loops = [outer for outer in statement.path()[:-1] if outer.is_loop]
    changed = {name for inner in (loops[0].descendants() if loops else ()) for name in written_by(inner)}
    for top in statement.function.body.statements:
        for inner in top.descendants():
            if isinstance(inner.node, cst.AugAssign):
                changed |= written_by(inner)
    return changed
