"""From a loss back to the calls that reach a model, through the functions of the unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, backward_slice, overlaps, own_reads, path_of, reads, writes
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.interp.values import values_as_written
from amp_migrate.models import names, traits
from amp_migrate.models.dtypes import BOOLEAN, INTEGER
from amp_migrate.models.queries import makes
from amp_migrate.plan.free_names import not_bound
from amp_migrate.plan.model import Backward, Recognition
from amp_migrate.plan.regions.arithmetic import is_trailing_arithmetic
from amp_migrate.plan.regions.barriers import Barriers
from amp_migrate.plan.regions.carried_over import all_reads, only_hands_on
from amp_migrate.plan.regions.forwards import Forwards, runs_without_gradients
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.rules.regions import UNKNOWN_FORWARD


class BehindLoss:
    """The statements on the way from forwards to losses: `needed` has those of each function."""

    def __init__(self, facts: Facts, found: Recognition, forwards: Forwards, barriers: Barriers) -> None:
        self.facts = facts
        self.found = found
        self.forwards = forwards
        self.roles = forwards.roles
        self.barriers = barriers
        self.needed: dict[Function, set[Statement]] = {}
        self._tensors = Tensors(facts)
        self._sliced: dict[tuple[Statement, frozenset[Path], bool, bool], bool] = {}
        self._model_paths: dict[Function, set[Path]] = {}
        self._handed: set[tuple[Function, str]] = set()  # parameters that hold what forwards of callers return

    def follow(self, backward: Backward) -> None:
        """Note what makes the loss of a backward. Raises Refusal where no forward is among it."""
        wanted = list(reads(backward.loss))
        found = self._slice(backward.statement, wanted, by_name=True) or self._forward_in(backward)
        found = found or self._is_penalty(backward, wanted)
        if not found:
            found = self._is_kept_by_model(backward.statement, wanted)
            found = self._slice(backward.statement, wanted, by_name=False) or found
        found = found or self._slice(backward.statement, wanted, by_name=True, last_turn=True)
        if not found:
            raise self._not_found(backward.loss)

    def _not_found(self, loss: cst.BaseExpression) -> Refusal:
        for made in (one.value for one in self.facts.names.bindings_at(loss) if isinstance(one.value, cst.Call)):
            refusal = not_bound(self.facts, made, loss)
            if refusal is not None:
                return refusal
        return Refusal(UNKNOWN_FORWARD, loss, f"the forward behind {self.facts.text(loss)} is not in this file")

    def _slice(self, at: Statement, wanted: list[Path], *, by_name: bool, last_turn: bool = False) -> bool:
        """Note the statements that make the wanted values; False where no forward is among them.

        First the forwards are looked for by the models that are known by name, here and in all callers; only
        where there are none, other calls that may be one are taken, and then those of the `last_turn` of a loop, for
        losses that are summed over turns and go back in another arm.
        """
        key = (at, frozenset(wanted), by_name, last_turn)
        if key in self._sliced:
            return self._sliced[key]
        self._sliced[key] = False
        ignored = partial(self._is_no_value, function=at.function)
        found = backward_slice(at, wanted, ignored, self._reads_of, last_turn=last_turn)
        forwards = [one for one in found.statements if self.forwards.runs_model(one) and not self._is_apart(one)]
        reached = False
        if not forwards and not by_name:
            forwards = _of_this_round(filter(self.forwards.calls_an_object, found.statements), at)
        if not forwards:
            for site, paths in self._callers_of(found.open_paths, at.function):
                is_given = site in self.needed.get(site.function, ())  # update(optimizer, loss_of(net, x))
                reached = self._slice(site, paths, by_name=by_name) or reached or is_given
            if reached:
                handed = self._handed_outputs(found.open_paths, at.function)
                self.needed.setdefault(at.function, set()).update(self._users_of(found.statements, handed))
        if not forwards and not reached and not by_name:
            computing = [one for one in found.statements if not is_trailing_arithmetic(one, found.statements)]
            forwards = _of_this_round(filter(self.forwards.computes, computing), at)
        for statement in forwards:
            self._enter(statement)
        if forwards:
            reached = True
            needed = self._after_forward(found.statements, forwards)
            self.needed.setdefault(at.function, set()).update(needed)
        for statement, path in self._attributes_made_elsewhere(found.open_paths, at.function):
            if self._slice_attribute(statement, path):
                reached = True
                users = self._users_of(found.statements, [path])
                self.needed.setdefault(at.function, set()).update(users)
        self._sliced[key] = reached
        return reached

    def _enter(self, statement: Statement) -> None:
        """What attacks as well stays out of autocast as a whole: in its function, the loss that it returns does not."""
        attacking = {at.function for at in self.found.apart}
        for function in filter(None, map(self.facts.objects.called_function, self.facts.tree.calls(statement))):
            for inner in function.descendants() if self.facts.calls.reaches(function, attacking.__contains__) else ():
                if isinstance(inner.node, cst.Return) and inner.node.value is not None:
                    self._slice(inner, list(reads(inner.node.value)), by_name=True)

    def _is_apart(self, statement: Statement) -> bool:
        """True for what runs a model for labels, for an attack, or for a penalty: `grad(outputs=net(x), inputs=x)`."""
        is_penalty = not self.found.evaluates and self.barriers.takes_gradient(statement)
        return is_penalty or statement in self._attacking or self._labels(statement)

    @cached_property
    def _attacking(self) -> set[Statement]:
        """What makes the losses whose backwards stay in float32."""
        return {
            made
            for at in self.found.apart
            for made in backward_slice(at, own_reads(at), lambda path: False, self._reads_of).statements
        }

    def _labels(self, statement: Statement) -> bool:
        """True for `labels = guess(net, images)` without gradients, of class numbers: that was an evaluation."""
        value = statement.node.value if isinstance(statement.node, cst.Assign) else None
        if value is None or self.found.evaluates or not runs_without_gradients(self.facts, statement):
            return False
        dtypes = self.facts.analysis(values_as_written).of(value).dtypes
        return bool(dtypes) and dtypes <= {INTEGER, BOOLEAN}

    def _reads_of(self, statement: Statement) -> list[Path]:
        """Behind a gradient of its own, a penalty is in float32 (rule H5); O1 had no such place. What comes back from
        NumPy has no gradients: labels that a model has made were made by an evaluation.
        """
        if not self.found.evaluates and (self.barriers.takes_gradient(statement) or _is_from_numpy(statement)):
            return []
        return all_reads(self.facts, statement)

    def _is_penalty(self, backward: Backward, wanted: list[Path]) -> bool:
        """True for a loss that is made of gradients alone: its forward stays in float32."""
        made = backward_slice(backward.statement, wanted, lambda path: False, self._reads_of).statements
        return not self.found.evaluates and any(self.barriers.takes_gradient(statement) for statement in made)

    def _slice_attribute(self, statement: Statement, path: Path) -> bool:
        """An attribute that another method of the class sets: its forward is in that method. What it computes without
        gradients, such as the actions of a replay buffer, was an evaluation.
        """
        end = statement.function.body.statements[-1]
        statements = {statement}
        for at, wanted in ((end, [path]), (statement, all_reads(self.facts, statement))):
            statements |= backward_slice(at, wanted, lambda one: self._is_no_value(one, statement.function)).statements
        runs = self.forwards.runs_model if self.found.evaluates else self.forwards.gives_gradients
        forwards = [one for one in statements if runs(one)]
        if forwards:
            needed = self._after_forward(statements, forwards)
            self.needed.setdefault(statement.function, set()).update(needed)
        return bool(forwards)

    def _is_kept_by_model(self, at: Statement, wanted: list[Path]) -> bool:
        """`loss = self.net.loss` of what the last forward of a model has kept in it: notes that forward, and what is
        computed of such values afterwards.
        """
        made = backward_slice(at, wanted, lambda path: False, self._reads_of).statements
        read = {*wanted, *(path for statement in made for path in all_reads(self.facts, statement))}
        before = [inner for inner in at.function.descendants() if inner.order < at.order and not inner.blocks]
        keeping = [statement for statement in before if self._held(statement, read)]
        forwards = _of_this_round(keeping, at)
        held = [path for statement in forwards for path in self._held(statement, read)]
        users = {one for one in self._users_of(made, held) if self.facts.tree.calls(one)}
        self.needed.setdefault(at.function, set()).update(forwards, users)
        return bool(forwards)

    def _held(self, statement: Statement, read: set[Path]) -> list[Path]:
        """What is read of `self.net` where a statement runs `self.net(x)`: a part of it may be what is trained."""
        called = [path for call in self.facts.tree.calls(statement) if (path := path_of(call.func)) is not None]
        return [one for one in read if any(len(one) > len(path) and one[: len(path)] == path for path in called)]

    def _forward_in(self, backward: Backward) -> bool:
        """True for `amp.scale_loss(model(x).mean(), optimizer)`: the forward is in the loss expression."""
        return self.forwards.in_expression(backward.loss)

    def _is_no_value(self, path: Path, function: Function) -> bool:
        """Models and instances are not values that flow from statement to statement."""
        receiver = function.receiver
        if path == (receiver,):
            return True
        variable = self.facts.names.visible(path[0], function)
        if variable is None:
            return True
        if any(binding.kind in ("import", "def", "class") for binding in variable.bindings):
            return True
        models = self.roles.trained if path[0] == receiver else self.roles.models
        if self.facts.objects.variable_objects(variable) & models:
            return True
        return self._path_is_model(path, function)

    def _path_is_model(self, path: Path, function: Function) -> bool:
        if function not in self._model_paths:
            self._model_paths[function] = {
                found
                for inner in function.descendants()
                for part in self.facts.tree.expressions(inner)
                if isinstance(part, (cst.Attribute, cst.Subscript)) and self.roles.is_model(part)
                if (found := path_of(part)) is not None
            }
        return any(model[: len(path)] == path for model in self._model_paths[function])

    def _after_forward(self, statements: set[Statement], forwards: list[Statement]) -> set[Statement]:
        """The forwards, the losses of torch that come after them (of what a hook has kept, perhaps), and the statements
        that use the results of either. What only detaches a state before the first of them stays where it is.
        """
        start = min(statement.order for statement in forwards)
        losses = [
            one
            for one in statements
            if one.order > start and any(map(self._tensors.is_torch_loss, self.facts.tree.calls(one)))
            if not self._is_apart(one)
        ]
        made = [path for statement in (*forwards, *losses) for path in writes(statement)]
        users = self._users_of(statements - set(forwards), made, [*forwards, *losses])
        carried_over = {one for one in users if one.order < start and only_hands_on(self.facts, one)}
        return {*forwards, *losses, *users - carried_over}

    def _users_of(
        self, statements: set[Statement], made: list[Path], makers: Iterable[Statement] = ()
    ) -> set[Statement]:
        """The statements that use the paths, directly or through what others of them make; where the `makers` of the
        paths are known, those to which they come.
        """
        users = set()
        makers = list(makers)
        for statement in sorted(statements, key=lambda statement: statement.order):
            used = (
                result for result in made if any(overlaps(path, result) for path in all_reads(self.facts, statement))
            )
            if any(not makers or self._arrives(result, statement, makers) for result in used):
                if not isinstance(statement.node, cst.For):  # it only hands on: its body uses the result
                    users.add(statement)
                made = [*made, *writes(statement)]
                makers += [statement] if makers else []
        return users

    def _arrives(self, result: Path, statement: Statement, makers: list[Statement]) -> bool:
        """False for `lengths` where it is prepared for `outputs, lengths = net(x, lengths)`: what comes out of that is
        another value, and none that an earlier round has left.
        """
        own = [one for one in makers if any(overlaps(result, path) for path in writes(one))]
        variable = self.facts.names.visible(result[0], statement.function)
        changes = any(isinstance(one.node, cst.Expr) for one in own)  # `losses.append(loss)` binds nothing
        if len(result) > 1 or variable is None or changes or any(one.order < statement.order for one in own):
            return True
        return any(binding.statement in own for binding in reaching(variable, statement))

    def _open_parameters(self, paths: set[Path], function: Function) -> set[str]:
        names = {param.name.value for param in function.parameters}
        return {path[0] for path in paths if path[0] in names}

    def _callers_of(self, paths: set[Path], function: Function) -> Iterator[tuple[Statement, list[Path]]]:
        """Where the values of parameters come from, and those of the function around: every call of the function."""
        wanted = self._open_parameters(paths, function)
        free = [path for path in paths if self._is_of_function_around(path, function)]
        for site in self.facts.calls.callers(function):
            given = free if site.caller is function.parent else []
            for param, arg in self.facts.objects.arguments(site.call, function):
                if param.name.value in wanted:
                    given = [*given, *reads(arg.value)]
                    if self.forwards.in_expression(arg.value):
                        self.needed.setdefault(site.caller, set()).add(site.statement)
            if given:
                yield site.statement, given

    def _is_of_function_around(self, path: Path, function: Function) -> bool:
        variable = self.facts.names.visible(path[0], function)
        is_nested = function.parent is not None and not function.parent.is_module
        return is_nested and variable is not None and variable.scope.owner is function.parent

    def _handed_outputs(self, paths: set[Path], function: Function) -> list[Path]:
        """The parameters with outputs of a caller's forward: a loss is made of them here, `learn(net(x), targets)`."""
        wanted = self._open_parameters(paths, function)
        for site in self.facts.calls.callers(function):
            for param, arg in self.facts.objects.arguments(site.call, function):
                name = param.name.value
                if name in wanted and self._is_made_by_forward(arg.value, site.statement):
                    self._handed.add((function, name))
        return [(name,) for name in sorted(wanted) if (function, name) in self._handed]

    def _is_made_by_forward(self, value: cst.BaseExpression, at: Statement) -> bool:
        """True for what comes from the statements of a function that were noted, whichever way it gets there."""
        if self.forwards.in_expression(value):
            return True
        made = backward_slice(at, list(reads(value)), lambda path: self._is_no_value(path, at.function), self._reads_of)
        kept = (statement for statement, _ in self._attributes_made_elsewhere(made.open_paths, at.function))
        return any(one in self.needed.get(one.function, ()) for one in (*made.statements, *kept)) or any(
            (at.function, path[0]) in self._handed for path in made.open_paths
        )

    def _attributes_made_elsewhere(self, paths: set[Path], function: Function) -> Iterator[tuple[Statement, Path]]:
        owner: Class | None = function.owner
        if owner is None or not function.parameters:
            return
        receiver = function.parameters[0].name.value
        for path in paths:
            if len(path) < 2 or path[0] != receiver:
                continue
            for method in owner.methods.values():
                if method is function or not method.parameters:
                    continue
                if method.name == "__init__" and not self.found.evaluates:
                    continue  # made once and for all, in float32
                target = (method.parameters[0].name.value, path[1])
                for inner in method.descendants():
                    if any(written[:2] == target for written in writes(inner)):
                        yield inner, target


def _of_this_round(forwards: Iterable[Statement], at: Statement) -> list[Statement]:
    """What may be forwards: those in the loop of the loss, where there are any. What stands before it prepares data."""
    found = list(forwards)
    loops = [outer for outer in at.path()[:-1] if isinstance(outer.node, (cst.For, cst.While))]
    return [one for one in found if loops and one.inside(loops[-1])] or found


def _is_from_numpy(statement: Statement) -> bool:
    """True for `labels = torch.from_numpy(found).cuda()`, `torch.tensor(found)`, and `torch.as_tensor(x.numpy())`."""
    node = statement.node
    value = node.value if isinstance(node, cst.Assign) else None
    while (
        isinstance(value, cst.Call) and called_name(value) not in names(makes) and isinstance(value.func, cst.Attribute)
    ):
        value = value.func.value
    if not isinstance(value, cst.Call) or called_name(value) not in names(makes):
        return False
    inner = {called_name(part) for arg in value.args for part in walk(arg) if isinstance(part, cst.Call)}
    is_copied = called_name(value) not in traits.named("as it is")
    return is_copied or not inner.isdisjoint(traits.named("leaves torch"))
