"""Casts of a trained module that stay: it is inference by object, not by function (rule G2).

model.half()                            stays: it is cast back before anybody trains on
...
model.float()

train(model)
export(model.half())                    stays: no training step can follow

for fold in folds:
    model = make()
    train(model)
    model.half()                        stays: what trains in the next round is another one
    torch.save(model.state_dict(), path)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Function, Statement, called_name, names_in

_COPIES = frozenset("deepcopy copy clone".split())


class Kept:
    """Which casts of modules stay as they are, and the casts of tensors that they need."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._trains: dict[Function, bool] = {}
        self._backwards = {
            statement.function for part, statement in facts.tree.every(cst.Call) if called_name(part) == "backward"
        }

    def is_kept(self, cast: cst.Call) -> bool:
        """True for the cast of a copy, for one that is undone, and for one that no training step follows."""
        assert isinstance(cast.func, cst.Attribute)
        statement = self.facts.tree.statement_of(cast)
        module = cast.func.value
        if self.is_copy(module) or self.is_undone(module, statement):
            return True
        return self.is_after_training(statement) or self.is_done_with(module, statement)

    def is_copy(self, module: cst.BaseExpression) -> bool:
        """True where nothing but copies is meant."""
        found = self.facts.objects.objects(module)
        return bool(found) and all(
            isinstance(one.origin, cst.Call) and called_name(one.origin) in _COPIES for one in found
        )

    def is_undone(self, module: cst.BaseExpression, statement: Statement) -> bool:
        """True where the same block, or one around it, casts the module back later on, before any way out."""
        mine = self.facts.objects.objects(module)
        for step in reversed(statement.path()):
            for later in step.next_siblings():
                for part in self._done_by(later, step):
                    if isinstance(part, cst.Call) and called_name(part) == "float" and not part.args:
                        assert isinstance(part.func, cst.Attribute)
                        if self.facts.objects.objects(part.func.value) & mine:
                            return not self._leaves(statement, later)
        return False

    def _done_by(self, later: Statement, step: Statement) -> Iterator[cst.CSTNode]:
        """What a statement certainly does after another one, also under the same test: `if half: model.float()`."""
        yield from self.facts.tree.expressions(later)
        if isinstance(later.node, cst.If) and isinstance(step.node, cst.If):
            if source_key(later.node.test) == source_key(step.node.test):
                for inner in later.blocks[0].statements:
                    yield from self.facts.tree.expressions(inner)

    def is_after_training(self, statement: Statement, seen: frozenset[Function] = frozenset()) -> bool:
        """True where no training step can run after a statement."""
        if not self._backwards or statement.function in seen or self._may_follow(statement):
            return False
        if statement.function.is_module:
            return True
        runs = self._run_by(statement.function)
        seen |= {statement.function}
        return bool(runs) and all(self.is_after_training(one, seen) for one in runs)

    def is_done_with(self, module: cst.BaseExpression, statement: Statement) -> bool:
        """True for a module that its function has made and trained itself, and only saves from here on: what trains in
        another round, or in another call, is made anew.
        """
        variable = self.facts.names.variable_at(module)
        function = statement.function
        if variable is None or variable.scope.owner is not function or function.owner is not None:
            return False
        bound = [one for one in variable.bindings if one.value is None or variable.name not in names_in(one.value)]
        if any(one.kind != "assign" or one.selector or not isinstance(one.value, cst.Call) for one in bound):
            return False
        made = [one.statement for one in bound if one.statement is not None]
        training = [inner for inner in function.descendants() if self._trains_at(inner)]
        loops = [outer for outer in statement.path()[:-1] if outer.is_loop]
        later = [load for load in variable.loads if self.facts.tree.statement_of(load).order >= statement.order]
        hands_out = any(isinstance(one.node, cst.Return) and one.node.value for one in function.descendants())
        return (
            bool(training)
            and not hands_out
            and all(one.order < statement.order for one in training)
            and all(self.facts.tree.function_of(load) is function for load in variable.loads)
            and all(map(self._is_saved, later))
            and all(
                any(maker.inside(loop) and maker.runs_before(one) for maker in made)
                for loop in loops
                for one in training
                if one.inside(loop)
            )
        )

    def _is_saved(self, load: cst.Name) -> bool:
        """True where a method of the module is called, or torch saves it."""
        parent = self.facts.tree.parents[load]
        call = self.facts.tree.parents.get(parent)
        if isinstance(parent, cst.Attribute):
            return isinstance(call, cst.Call) and call.func is parent
        return isinstance(call, cst.Call) and self.facts.names.dotted(call.func) == "torch.save"

    def _run_by(self, function: Function) -> list[Statement]:
        """The statements that call a function, or have `apply` call it; none where it may be called out of sight."""
        uses = self.facts.calls.value_uses(function)
        calls = [self.facts.tree.parents.get(self.facts.tree.parents[use]) for use in uses]
        if not all(isinstance(call, cst.Call) and called_name(call) == "apply" for call in calls):
            return []
        sites = [site.statement for site in self.facts.calls.callers(function)]
        return [*sites, *map(self.facts.tree.statement_of, uses)]

    def _leaves(self, first: Statement, last: Statement) -> bool:
        """True where a `return` stands between two statements of one function."""
        return any(
            isinstance(inner.node, (cst.Return, cst.Break, cst.Continue)) and first.order < inner.order < last.order
            for inner in last.function.descendants()
        )

    def _may_follow(self, statement: Statement) -> bool:
        """True where something in the same function trains after a statement, or in a loop around it."""
        loops = [outer for outer in statement.path()[:-1] if outer.is_loop]
        return any(
            (inner.order > statement.order or any(inner.inside(loop) for loop in loops)) and self._trains_at(inner)
            for inner in statement.function.descendants()
        )

    def _trains_at(self, statement: Statement) -> bool:
        own = any(
            isinstance(part, cst.Call) and called_name(part) == "backward"
            for part in self.facts.tree.expressions(statement)
        )
        return own or any(
            self.facts.calls.reaches(site.callee, self._backwards.__contains__)
            for site in self.facts.calls.in_statement(statement)
        )
