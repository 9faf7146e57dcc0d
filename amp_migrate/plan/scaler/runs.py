"""Trainings that follow each other: which setups begin one, with an optimizer of its own beside them (rule A1).

net, optimizer = build()                                     optG = Adam(netG.parameters())
net, optimizer = amp.initialize(net, optimizer)              netG, optG = amp.initialize(netG, optG)
train(net, optimizer)                                        warm_up(netG, optG)
net, optimizer = build()                                     optD = Adam(netD.parameters())
net, optimizer = amp.initialize(net, optimizer)    a run     netD, optD = amp.initialize(netD, optD)     none: optG is
train(net, optimizer)                                        train(netG, optG, netD, optD)               stepped on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Block, Class, Function, Statement, lowest_block, targets
from amp_migrate.plan.model import Setup
from amp_migrate.plan.roles import Roles

Places = Mapping[Statement, list[Setup]]  # setups, by where they happen in one function
Part = tuple[list[Statement], list[Statement]]  # setups, and uses of the scaler


class Runs:
    """Answers about the order of setups, of uses of the scaler, and of what builds optimizers."""

    def __init__(self, facts: Facts, roles: Roles) -> None:
        self.facts = facts
        self.roles = roles

    def in_turns(self, block: Block, setups: Places, uses: list[Statement]) -> list[Part]:
        """Setups and uses, parted where a setup begins a run after uses of earlier ones. One that begins none needs no
        place then: the scaler is there. Definitions of functions are no uses.

        A setup that replaces an optimizer in the middle of its training (`if step >= warm_up:`) begins none.
        """
        places = [(found, place in setups, place) for place in (*setups, *uses) if (found := lifted_to(place, block))]
        parts: list[Part] = [([], [])]
        for found, is_setup, place in sorted(places, key=lambda one: (one[0].index, not one[1])):
            if isinstance(found.node, cst.FunctionDef):
                continue
            replaces = any(use.inside(found) and use.order < place.order for use in uses)
            own, before = parts[-1]
            if is_setup and own and before and not replaces:
                last = max(before, key=lambda use: use.order)
                if not self._builds_anew(setups[place], place, last) or self._goes_on(setups, own, place, last):
                    continue
                parts.append(([], []))
            parts[-1][0 if is_setup else 1].append(place)
        return parts

    def _builds_anew(self, setups: list[Setup], place: Statement, last: Statement) -> bool:
        """True where the optimizer of a setup is built after the last use of the scaler before it, for good."""
        between = _between(last, place)
        built = {one for setup in setups for one in self._built_by(setup)}
        others = self.roles.optimizers - built
        anew = [one for one in built if not self._replaces(one, others)]
        return any(statement in between for statement in self._building(anew))

    def _goes_on(self, setups: Places, earlier: list[Statement], place: Statement, last: Statement) -> bool:
        """True where an optimizer of earlier setups is read after another one, and its name was not given away."""
        rebound = {source_key(target) for one in _between(last, place) for target in targets(one.node)}
        known = [node for one in earlier for node in self._optimizers_of(setups[one], one)]
        names = [node for node in known if source_key(node) not in rebound]
        keys = {source_key(node) for node in names}
        return any(
            source_key(part) in keys
            for one in place.function.descendants()
            if one.order > place.order and not one.inside(place)
            for part in (*self.facts.tree.expressions(one), *self._read_by_calls(one, names))
            if isinstance(part, (cst.Name, cst.Attribute))
        )

    def _optimizers_of(self, setups: list[Setup], place: Statement) -> Iterator[cst.BaseExpression]:
        """The names that optimizers have where they are set up."""
        given = [node for setup in setups if setup.statement.inside(place) for node in setup.optimizers]
        for node in (*given, *(target for one in place.descendants() for target in targets(one.node))):
            if isinstance(node, (cst.Name, cst.Attribute)) and self.roles.optimizers_at(node):
                yield node

    def _read_by_calls(self, statement: Statement, names: list[cst.BaseExpression]) -> list[cst.Name]:
        """The reads of global names in what a statement calls."""
        run = {
            one for site in self.facts.calls.in_statement(statement) for one in self.facts.calls.reachable(site.callee)
        }
        variables = [variable for node in names if (variable := self.facts.names.variable_at(node)) is not None]
        return [load for variable in variables for load in variable.loads if self.facts.tree.function_of(load) in run]

    def builds_its_own(self, setups: Iterable[Setup], home: Function) -> bool:
        """True where a function builds the optimizers of setups, itself or by what it calls."""
        return all(any(one.function is home for one in self._building_of(setup)) for setup in setups)

    def building(self) -> Iterator[Statement]:
        """The statements that build an optimizer, and those that call their functions, directly or through others."""
        return self._building(self.roles.optimizers)

    def building_in(self, loop: Statement) -> Iterator[Statement]:
        """Those in a loop, without what replaces an optimizer that is made before the loop, under a condition."""
        inside = {
            one: [statement for statement in self._building([one]) if statement.inside(loop)]
            for one in self.roles.optimizers
        }
        before = frozenset(one for one, found in inside.items() if not found)
        for one, found in inside.items():
            if not self._replaces(one, before):
                yield from found

    def _replaces(self, one: Object, others: ObjectSet) -> bool:
        """True for `if step == warm_up: optimizer = SGD(...)`, where that name may have one of the others."""
        statement = self.facts.tree.statement_of(one.origin) if isinstance(one.origin, cst.Call) else None
        if statement is None or not statement.has_no_other_arm:
            return False
        given = (target for target in targets(statement.node) if isinstance(target, (cst.Name, cst.Attribute)))
        return any(self.facts.objects.objects(target) & others for target in given)

    def _building_of(self, setup: Setup) -> Iterator[Statement]:
        """The same for the optimizers of one setup."""
        return self._building(self._built_by(setup))

    def _built_by(self, setup: Setup) -> Iterator[Object]:
        return (one for node in setup.optimizers for one in self.roles.optimizers_at(node))

    def _building(self, optimizers: Iterable[Object]) -> Iterator[Statement]:
        origins = [one.origin for one in optimizers]
        makers = self.facts.objects.family_makers
        made = [call for one in origins if isinstance(one, Class) for call in makers.get(one, [])]
        calls = [*made, *(one for one in origins if isinstance(one, cst.Call))]
        waiting = [self.facts.tree.statement_of(call) for call in calls]
        seen: set[Function] = set()
        while waiting:
            yield (current := waiting.pop())
            if current.function not in seen:
                seen.add(current.function)
                waiting += [site.statement for site in self.facts.calls.callers(current.function)]


def _between(last: Statement, place: Statement) -> set[Statement]:
    """What stands after a statement, up to another one and all that is in that."""
    statements = place.function.descendants()
    return {one for one in statements if last.order < one.order and (one.order <= place.order or one.inside(place))}


def below_conditions(setups: list[Statement], block: Block) -> Block:
    """The block of some setups where nothing but conditions stands around it in another one; else that one."""
    lowest = lowest_block(setups)
    owner = lowest.owner
    while owner is not None and owner.block is not block and isinstance(owner.node, cst.If):
        owner = owner.block.owner
    return lowest if owner is not None and isinstance(owner.node, cst.If) else block


def lifted_to(place: Statement, block: Block) -> Statement | None:
    """The statement of a block that a place is in."""
    return next((statement for statement in place.path() if statement.block is block), None)
