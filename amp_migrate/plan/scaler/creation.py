"""Where in a function the scaler is created (rules A1, A2): after the setup, before its uses, outside of the loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.conditions import conjunction
from amp_migrate.facts.tree import Block, Function, Statement, called_name, lowest_block, names_in
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Setup
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Creation, Users
from amp_migrate.plan.scaler.enabling import Enabling, enclosing_guards
from amp_migrate.plan.scaler.passing import Passing
from amp_migrate.plan.scaler.runs import Runs, below_conditions, lifted_to
from amp_migrate.rules.scaler import GUARDS_DIFFER, UNKNOWN_SCALER


class Creations:
    """Finds the place for the scaler of some setups in a function that leads to them and to all uses."""

    def __init__(
        self, facts: Facts, roles: Roles, enabling: Enabling, setups: list[Setup], users: Users, passing: Passing
    ) -> None:
        self.facts = facts
        self.roles = roles
        self.enabling = enabling
        self.setups = setups
        self.users = users
        self.passing = passing
        self.home = setups[0].statement.function
        self.runs = Runs(facts, roles)

    def without(self, functions: Collection[Function]) -> Creations:
        """The same for what does not happen in some functions."""
        setups = [one for one in self.setups if one.statement.function not in functions]
        users = {user: uses for user, uses in self.users.items() if user not in functions}
        return Creations(self.facts, self.roles, self.enabling, setups, users, self.passing)

    @property
    def setup_text(self) -> str:
        """How the first setup is written: `amp.initialize`, or `optim.SGD`; a front end's mark has dunders."""
        return self.facts.text(self.setups[0].call.func).removeprefix("__").removesuffix("__")

    def each(self, function: Function) -> list[Creation]:
        """Where trainings follow each other, each behind an optimizer of its own, one for each; else the only one."""
        setups, uses = self._places_in(function)
        block = lowest_block([*setups, *uses])
        if self._loop_to_leave(block, function) is not None:
            return [self._after(function, list(setups), uses)]
        (own, before), *later = self.runs.in_turns(block, setups, uses)
        first = self._after(function, own, before if later else uses)
        return [first, *(self._after(function, *part, again=True) for part in later)]

    def at(self, function: Function) -> Creation:
        """After the setup, lifted out of its guards and of everything that does not also hold the uses."""
        setups, uses = self._places_in(function)
        return self._after(function, list(setups), uses)

    def settled(self, creation: Creation, is_known: Callable[[Creation], bool], asking: Users) -> Creation:
        """Behind what sets the condition of the scaler, where that comes after the setup: `self.device = ...`. Nothing
        of what is `asking` for the scaler may come before it.
        """
        if creation.before or is_known(creation):
            return creation
        uses = self._uses_in(creation.function, asking)
        following = itertools.takewhile(
            lambda later: not any(use.inside(later) for use in uses), creation.at.next_siblings()
        )
        moved = (Creation(creation.function, later) for later in following)
        return next((one for one in moved if is_known(one)), creation)

    def _places_in(self, function: Function) -> tuple[dict[Statement, list[Setup]], list[Statement]]:
        setups: dict[Statement, list[Setup]] = {}
        for setup in self.setups:
            place = self._place_of(setup, function)
            if place is not None:
                setups.setdefault(place, []).append(setup)
        uses = [place for place in self.uses_in(function) if place not in setups]
        # An optimizer that is made in another arm than all uses leads to none of them.
        leading = {at: own for at, own in setups.items() if not own[0].stays or not all(map(at.excludes, uses))}
        return leading or setups, uses

    def _after(
        self, function: Function, setups: list[Statement], uses: list[Statement], *, again: bool = False
    ) -> Creation:
        """With `again`, there is a scaler already, which stays where a condition leaves the setup out."""
        block = lowest_block([*setups, *uses])
        if again:
            block = below_conditions(setups, block)
        loop = self._loop_to_leave(block, function)
        if loop is not None:
            return Creation(function, loop, before=True)
        lifted = [statement for place in setups for statement in place.path() if statement.block is block]
        at = max(lifted, key=lambda statement: statement.index)
        may_call = self.home is not function or any(setup.stays for setup in self.setups)
        calls_user = may_call and any(place in self.uses_in(function) for place in setups)
        if calls_user or any(use.inside(holder) for use in uses for holder in lifted):
            uses_here = self.uses_in(function)
            holders = {one for one in lifted if any(use is one or use.inside(one) for use in uses_here)}
            found = self._before_first_use(function, lifted, holders)
            self._check_order(block, found.at, uses)
            return found
        for place in setups if not again else ():
            self._check_conditions(place, lifted, uses)
        self._check_order(block, at, uses)
        return Creation(function, self._after_wrappers(at, uses))

    def _before_first_use(self, function: Function, lifted: list[Statement], holders: set[Statement]) -> Creation:
        """What sets up uses the scaler, too: it comes after the setups that stand before the first of the `holders`."""
        lifted = sorted(lifted, key=lambda statement: statement.index)
        if lifted[0] in holders:
            return Creation(function, lifted[0], before=True)
        earlier = list(itertools.takewhile(lambda statement: statement not in holders, lifted))
        return Creation(function, earlier[-1])

    def _after_wrappers(self, at: Statement, uses: list[Statement]) -> Statement:
        """The last of the statements that follow at once and put something around an optimizer under its own name:
        `optimizer = keep_rates(optimizer)`.
        """
        for follower in at.next_siblings():
            node = at.node
            targets = {self.facts.text(one.target) for one in node.targets} if isinstance(node, cst.Assign) else set()
            if not isinstance(follower.node, cst.Assign) or follower in uses:
                break
            again = {self.facts.text(one.target) for one in follower.node.targets}
            given = [arg.value for arg in follower.node.value.args] if isinstance(follower.node.value, cst.Call) else []
            if again != targets or not any(self.facts.text(arg) in targets for arg in given):
                break
            at = follower
        return at

    def _check_conditions(self, place: Statement, lifted: list[Statement], uses: list[Statement]) -> None:
        """A condition around the setup that is no guard is lost, unless what uses the scaler has it as well.

        But where a loss is scaled without `amp.initialize`, apex raises, and there is no training to keep. Who asks for
        the handle trains without it as well.
        """
        if all(called_name(one.call) == "initialize" for one in self.setups) and not self.facts.conditions.carriers:
            return
        for guard in enclosing_guards(self.facts, place):
            if not any(guard.statement.inside(holder) for holder in lifted) or self._builds_optimizer(guard.statement):
                continue  # without it, there would be no optimizer to step
            for use in uses:
                known = conjunction([other.formula for other in enclosing_guards(self.facts, use)])
                if not self.facts.conditions.implies(known, guard.formula):
                    message = f"{self.setup_text} runs under a condition that does not guard its steps"
                    raise Refusal(GUARDS_DIFFER, guard.statement.node, message)

    def _place_of(self, setup: Setup, function: Function) -> Statement | None:
        """Where a setup happens in `function`, seen from outside of its guards (rule A2)."""
        guards = [guard.statement for guard in self.enabling.setup_guards[setup]]
        place = self._place_in(setup.statement, function)
        while place is not None:
            outer = next((guard for guard in guards if place is not guard and place.inside(guard)), None)
            if outer is None:
                return place
            place = outer
        return None

    def _place_in(self, statement: Statement, function: Function) -> Statement | None:
        """Where a statement happens in `function`: itself, or the call that leads to it."""
        if statement.function is function:
            return statement
        for candidate in function.body.statements:
            for inner in candidate.descendants():
                for site in self.facts.calls.in_statement(inner):
                    if any(reached is statement.function for reached in self.facts.calls.reachable(site.callee)):
                        return inner
        return None

    def uses_in(self, function: Function) -> list[Statement]:
        """The statements of `function` that use the scaler or call something that does."""
        return self._uses_in(function, self.users)

    def _uses_in(self, function: Function, users: Users) -> list[Statement]:
        found = list(users.get(function, []))
        outside = {user for user in users if user is not function}
        # What a function makes and hands on, `Engine(update)`, runs without a call in sight.
        leading = outside | {one for user in outside for one in user.around[1:-1] if not one.encloses(function)}
        for candidate in function.body.statements:
            for inner in candidate.descendants():
                for site in self.facts.calls.in_statement(inner):
                    if self.facts.calls.reaches(site.callee, leading.__contains__) and not self._gives_none(site):
                        found.append(inner)
                nested = self.facts.tree.function_at.get(inner.node)
                if nested is None or self.facts.calls.callers(nested):
                    continue  # its calls count
                if any(nested.encloses(user) for user in outside):
                    found.append(inner)
        return found

    def _gives_none(self, site: CallSite) -> bool:
        """True for a call that leaves out what the scaler takes the place of, or goes with: `resume(model)`."""
        callee = site.callee.whole
        used_in = {user for user in self.users if callee.encloses(user)}
        if not used_in or site in self.passing.giving(callee):
            return False
        below = self.facts.calls.callees(callee)
        return not any(user in below for user in self.users if user not in used_in)

    def _loop_to_leave(self, block: Block, function: Function) -> Statement | None:
        """The loop around setup and uses, unless each round builds an optimizer of its own (rule A1)."""
        outermost: Statement | None = None
        owner = block.owner
        while owner is not None:
            if owner.is_loop and not self._builds_optimizer_each_round(owner):
                outermost = owner
            owner = owner.block.owner
        return outermost

    def _builds_optimizer_each_round(self, loop: Statement) -> bool:
        """Itself, or by a function that it calls. False where only some round does: `if epoch == first:`."""
        target = names_in(loop.node.target) if isinstance(loop.node, cst.For) else set()
        for statement in self.runs.building_in(loop):
            tests = [outer.node.test for outer in statement.path()[:-1] if isinstance(outer.node, cst.If)]
            if not any(names_in(test) & target for test in tests):
                return True
        return False

    def _builds_optimizer(self, holder: Statement) -> bool:
        """Itself, or by a function that it calls."""
        return any(statement.inside(holder) for statement in self.runs.building())

    def _check_order(self, block: Block, at: Statement, uses: Iterable[Statement]) -> None:
        for use in uses:
            found = lifted_to(use, block)
            if found is not None and found.index < at.index and not isinstance(found.node, cst.FunctionDef):
                message = f"the scaler is used here before {self.setup_text} has run in this function"
                raise Refusal(UNKNOWN_SCALER, use.node, message, case="early")
