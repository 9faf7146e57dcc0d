"""Functions that need the scaler only where they are given an optimizer: the other calls give neither.

def run(model, loader, criterion, optimizer=None):      run(model, train_loader, criterion, optimizer)
...                                                 run(model, test_loader, criterion)
if optimizer is not None:
loss.backward()
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Users
from amp_migrate.plan.scaler.given_guards import is_left_out


class Optional:
    """Finds the optimizer of a function that some calls leave out, and the scaler with it."""

    def __init__(self, facts: Facts, found: Recognition, roles: Roles, users: Users) -> None:
        self.facts = facts
        self.found = found
        self.roles = roles
        self.users = users

    def optimizer(self, function: Function) -> cst.Param | None:
        """The parameter of a function that some calls leave out or give as None: they neither train, nor save or load
        the state that goes with it.
        """
        below = self.facts.calls.callees(function)
        if any(user in below for user in self.users if not function.encloses(user)):
            return None
        if len(self._uses(function)) > len(self.users.get(function, [])) and not self.only_keeps_state(function):
            return None
        for param in self._optimizers(function):
            without = [site for site in self.facts.calls.callers(function) if not self.gives(site, function, param)]
            if without and all(self._needs_none(site, function) for site in without):
                return param
        return None

    def only_keeps_state(self, function: Function) -> bool:
        """True for a function that names the scaler for nothing but a state that is added beside an optimizer's."""
        states = [one.statement for one in self.found.added]
        return all(use in states for use in self._uses(function))

    def _uses(self, function: Function) -> list[Statement]:
        """What names the scaler in a function and in those that it makes."""
        return [use for user, uses in self.users.items() if function.encloses(user) for use in uses]

    def gives(self, site: CallSite, function: Function, param: cst.Param) -> bool:
        """True for a call that gives the parameter something, not None, or may do so behind a star."""
        arg = self.facts.objects.argument(site.call, function, param)
        if arg is None and any(one.star for one in site.call.args):
            return True
        return not is_none(arg.value if arg is not None else param.default)

    def _optimizers(self, function: Function) -> list[cst.Param]:
        """The parameters that hold what the scaler goes with."""
        params = list(function.signature.params)
        names = self.facts.names
        if not self.only_keeps_state(function):
            return [one for one in params if self.facts.objects.may_be(one.name, self.roles.optimizers)]
        states = {one.statement: one.optimizer for one in self.found.added}
        variables = {names.variable_at(states[use]) for use in self._uses(function)}
        return [one for one in params if {names.variable_at(one.name)} == variables]

    def _needs_none(self, site: CallSite, function: Function) -> bool:
        """True for a call in which nothing that names the scaler runs, by what it gives."""
        if self.only_keeps_state(function):
            return True
        left = {one.statement: one.guard.statement for one in self.found.backwards if one.collapsed and one.guard}
        uses = (left.get(use, use) for use in self._uses(function))  # of both arms one is left, for both
        return all(is_left_out(self.facts, use, site, function) for use in uses)


def is_none(node: cst.BaseExpression | None) -> bool:
    """True for None, as it is written."""
    return isinstance(node, cst.Name) and node.value == "None"
