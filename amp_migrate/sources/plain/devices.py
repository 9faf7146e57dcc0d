"""Does a training loop use a GPU, and by which decision of its own? (rules H2, H3)

    model.cuda()                                        always
    if args.cuda: model.cuda()                          args.cuda
    device = torch.device("cuda" if use_cuda else "cpu")
    model.to(device)                                    use_cuda, or device.type == "cuda" without a flag

What counts is where the models go; where that is out of sight, where their inputs go.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Literal

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction, equal_to, negation, unknown
from amp_migrate.facts.implied import tested
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.tree import Class, Function, Statement, argument_value, called_name, walk
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.findings import Refusal
from amp_migrate.models import traits
from amp_migrate.plan.model import Condition, Guard
from amp_migrate.plan.safety.precision import Precision, Precisions
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.plan.scaler.visible import Visible
from amp_migrate.rules.plain import NO_GPU, UNKNOWN_DEVICE
from amp_migrate.rules.safety import LOSS_ON_CPU
from amp_migrate.sources.plain.behind import Behind
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers

_PARALLEL = frozenset("DataParallel DistributedDataParallel DDP".split())
_WORDS = ("cuda", "gpu", "cpu", "device")
_GPU_NUMBERS = frozenset("rank local_rank gpu gpu_id gpuid cuda_id device_id".split())
_SETTINGS = re.compile(r"\b(?:args?|opts?|options?|conf(?:ig)?|cfg|h?params?|hps?|settings|flags)$", re.IGNORECASE)
_HAS_GPU = unknown(("text", "torch.cuda.is_available()"))
Place = Literal["cuda", "elsewhere", "unknown"]


@dataclasses.dataclass(frozen=True)
class Decision:
    """A device that is chosen at run time: by a `flag`, and under the name `device`, a string or a torch.device."""

    flag: cst.BaseExpression | None
    negated: bool
    device: cst.BaseExpression | None
    is_string: bool


@dataclasses.dataclass(frozen=True)
class Move:
    """Something goes to a device: `what` it is, None where it is made there, and the decision, None for always."""

    call: cst.Call
    statement: Statement
    what: cst.BaseExpression | None
    decision: Decision | None


class Devices:
    """The moves of models and inputs to the GPU in a unit."""

    def __init__(self, facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> None:
        self.facts = facts
        self.optimizers = optimizers
        self.losses = losses
        self._open: set[cst.CSTNode] = set()
        self._led_to: dict[Function, list[list[Guard]]] = {}
        self._elsewhere: set[Function] = set()  # what only other programs run
        self._unread: dict[str, cst.Call] = {}  # functions of local modules not at hand that give a device
        self._homes = [facts.tree.statement_of(call) for call in optimizers.built]
        self._all = moves = list(self._moves())
        models = optimizers.models | self._modules_around()
        of_models = [move for move in moves if move.what is not None and facts.objects.may_be(move.what, models)]
        self._of_models = tuple(move.call for move in of_models if called_name(move.call) not in _PARALLEL)
        found = of_models or [move for move in moves if self._is_near_a_loss(move)]
        # Wrapping for several GPUs shows that there is one; who goes there is moved there as well.
        moved = [move for move in found if called_name(move.call) not in _PARALLEL and not self._puts_back(move)]
        self.moves = moved or ([*found, *self._configured()] if found else [])

    @property
    def is_gpu(self) -> bool:
        return bool(self.moves)

    @property
    def moves_something(self) -> bool:
        """True where anything in the unit goes to a GPU, in another program as well."""
        calls = self.facts.tree.every(cst.Call)
        return any(True for call, statement in calls for _ in self._move(call, statement))

    @property
    def follows_another(self) -> bool:
        """True where a loss is computed on the device of something out of sight: `self.device` of a base class, and
        `next(model.parameters()).device` of a model that a caller gives.
        """
        moved = ((one, at, argument_value(one, "device", 0)) for one, at in self.facts.tree.every(cst.Call))
        return any(
            self._is_out_of_sight(part)
            for call, at, device in moved
            if device is not None and self._is_near_a_loss(Move(call, at, None, None))
            for value in self.facts.objects.values_of(device) or [device]
            if (holder := _asked_for_device(value)) is not None and self._place(value) == "unknown"
            for part in walk(holder)
        )

    def _is_out_of_sight(self, node: cst.CSTNode) -> bool:
        """True for the instance of a class whose base is not at hand, and for what a caller gives."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        function = self.facts.tree.function_of(node)
        if function.owner is not None and self.facts.text(node) == function.receiver:
            return self._may_be_module(function.owner)
        return {one.source.kind for one in self.facts.objects.objects(node)} == {"parameter"}

    def on_cpu(self) -> Loss | None:
        """A loss of a self-test that moves nothing to a GPU: it is a program of its own, whatever the others do."""
        for test in self.facts.self_tests:
            losses = [loss for loss in self.losses if loss.statement.inside(test)]
            if losses and not any(self._is_run_by(test, move.statement) for move in self._moves()):
                return losses[0]
        return None

    def _is_run_by(self, test: Statement, statement: Statement) -> bool:
        sites = (site for inner in test.descendants() for site in self.facts.calls.in_statement(inner))
        return statement.inside(test) or any(
            statement.function in self.facts.calls.reachable(site.callee) for site in sites
        )

    def conditions_at(self, home: Statement) -> list[Condition]:
        """The conditions for an optimizer that is built at a place: its program's own, where it does not know all, and
        where there are none for the whole unit.
        """
        shared, visible = self.conditions(), Visible(self.facts)
        if shared and all(visible.express(one.node, home.function, home) is not None for one in shared):
            return shared
        own = self._of_program(home.function)
        own._homes = [home]
        return own.conditions() if own._elsewhere and own.moves else shared

    def conditions(self) -> list[Condition]:
        """The parts of `enabled`; none where the loop runs on a GPU in any case. Raises Refusal."""
        decided = self._decided()
        for root in self.facts.tree.roots if not decided else ():
            own = self._of_program(root)
            told = own._decided() if own._elsewhere and own.moves else []
            if told and self.facts.conditions.implies(_HAS_GPU, conjunction([one.formula for one in told])):
                decided = told  # what goes to a GPU in any case runs where there is one
            elif told:
                message = "one script moves the models to a GPU in any case, and another does not"
                raise Refusal(UNKNOWN_DEVICE, own.moves[0].call, message)
        return [dataclasses.replace(condition, moves=self._of_models) for condition in decided]

    def _of_program(self, home: Function) -> Devices:
        """The same, of the programs that run a function."""
        own = copy(self)
        own._elsewhere = self.facts.calls.of_other_programs({home})
        own._led_to = {}
        own.moves = [move for move in self.moves if move.statement.function not in own._elsewhere]
        return own

    def _decided(self) -> list[Condition]:
        certain = [move for move in self.moves if move.decision is None]
        chosen_from = next(filter(None, map(self._call_of_several, certain)), None)
        if chosen_from is not None:
            selected = [self._selected(chosen_from, move) for move in certain]
            if len({one and one.flag for one in selected}) == 1 and selected[0] is not None:
                return [self._condition(selected[0], certain[0])]
            text = self.facts.text(chosen_from)
            return self._told_by_models(chosen_from, f"{text} may run a function that moves nothing to a GPU")
        guards = [guards for move in certain for guards in self._ways(move.statement)]
        if any(not found for found in guards) or self.facts.conditions.constant(_on_one(guards)) is True:
            if all(map(self._is_asked_for, certain)) and not self._goes_anyway:
                name = certain[0].statement.function.name
                message = f"what calls {name} decides about the GPU, and is not in sight"
                raise Refusal(UNKNOWN_DEVICE, certain[0].call, message)
            return []
        chosen = [(move.decision, move) for move in self.moves if move.decision is not None]
        if chosen:
            return [self._condition(*self._most_visible(chosen))]
        of_device = [[guard for guard in found if self._is_about_device(guard)] for found in guards]
        is_said = not self._goes_anyway and self._is_said_of_the_rest(guards, of_device, certain)
        paths = guards if is_said else [found for found in of_device if found]
        conditions = self._one_test(paths) if paths else []  # `if args.resume:` is about what is moved
        together = conjunction([condition.formula for condition in conditions or ()])
        is_for_all = len(paths) == len(guards) or self.facts.conditions.implies(_on_one(guards), together)
        if conditions is None or (conditions and not is_for_all):
            message = "the conditions under which the models are on a GPU are not one"
            return self._told_by_models(certain[0].call, message)
        return conditions

    def _told_by_models(self, call: cst.Call, message: str) -> list[Condition]:
        """A condition that only the model itself tells, once it has been moved. Raises Refusal for several models."""
        refusal = Refusal(UNKNOWN_DEVICE, call, message)
        if len(self.optimizers.models) != 1:
            raise refusal
        return [Condition(call, unknown(("device", call)), unread=refusal)]

    def _call_of_several(self, move: Move) -> cst.Call | None:
        """`move(net)`, where `move` is one of several functions, and one of them moves nothing anywhere."""
        moving = {one.statement.function for one in self._all}
        for call, _ in self.facts.objects.possible_callers(move.statement.function):
            if any(one not in moving for one in self.facts.objects.candidates(call)):
                return call
        return None

    def _selected(self, call: cst.Call, move: Move) -> Decision | None:
        """The flag of `place = to_gpu if use_cuda else as_it_is`, one of which a call runs, and of which one moves."""
        values = self.facts.objects.values_of(call.func) or [call.func]
        choice = values[0] if len(values) == 1 else None
        if not isinstance(choice, cst.IfExp) or any(self._ways(move.statement)):
            return None
        runs = [move.statement.function.node in self.facts.objects.origins(arm) for arm in (choice.body, choice.orelse)]
        return Decision(choice.test, runs[1], None, False) if runs[0] is not runs[1] else None

    def _is_asked_for(self, move: Move) -> bool:
        """True in a `def cuda(self)` that nothing in sight calls, and that does not train itself."""
        function = move.statement.function
        trains = any(self.facts.calls.leads_to(function, loss.statement.function) for loss in self.losses)
        is_implicit = function.is_module or function.name.startswith("__")
        return not (trains or is_implicit or self.facts.objects.possible_callers(function))

    @property
    def _goes_anyway(self) -> bool:
        """True where something goes to the GPU with no condition beside a loss: there is one on all ways."""
        certain = (one for one in self._all if one.decision is None and self._is_near_a_loss(one))
        return any([] in self._ways(one.statement) and not self._is_asked_for(one) for one in certain)

    def _is_said_of_the_rest(
        self, guards: list[list[Guard]], of_device: list[list[Guard]], certain: list[Move]
    ) -> bool:
        """True where a test of a device, or a move to the CPU, tells that there is no GPU on all other ways, or where
        all that is moved is made anyway, so that what the tests are about is the GPU.
        """
        if not any(of_device) and all(map(self._is_made_anyway, certain)):
            return True
        implies, rest = self.facts.conditions.implies, negation(_on_one(guards))
        asked = [one.formula for found in of_device for one in found]
        to_cpu = (
            conjunction([guard.formula for guard in self._guards(statement)])
            for call, statement in self.facts.tree.every(cst.Call)
            if isinstance(call.func, cst.Attribute) and self._goes_to_cpu(call)
            if self.facts.objects.may_be(call.func.value, self.optimizers.models)
        )
        is_decided = any(implies(rest, one) or implies(rest, negation(one)) for one in asked)
        return is_decided or any(implies(one, rest) for one in to_cpu)

    def _is_made_anyway(self, move: Move) -> bool:
        """True for `net` of `if fast: net.cuda()`, which is made before; false where it is made under that test."""
        what = self._moved(move.what)
        if isinstance(what, cst.Attribute):
            made = [store.statement for store in self.facts.objects.stores_of(what.attr.value)]
        else:
            made = [one.statement for one in self.facts.names.bindings_at(what) if one.statement]
        tests = [guard.statement for guard in self._guards(move.statement)]
        return any(not any(map(one.inside, tests)) for one in made)

    def check_losses(self) -> None:
        """Raises Refusal for a loss that is computed on the CPU: most operations there take no half values, and
        GradScaler took no such loss before torch 2.3. Indices and masks that go there are neither half nor a loss.
        """
        precisions = Precisions(self.facts, Safety())
        back = frozenset(move.call for move in self._all)
        for loss in self.losses:
            staying = Behind(self.facts, self.optimizers.models, loss.loss, back)
            for call in Behind(self.facts, self.optimizers.models, loss.loss).calls():
                if isinstance(call.func, cst.Attribute) and self._goes_to_cpu(call) and self._may_be_called(call):
                    precision = precisions.of(call.func.value)
                    around = self.facts.tree.parents.get(call)
                    goes_back = self.facts.tree.parents.get(around) in back if around is not None else False
                    if precision is Precision.OTHER or goes_back or self._is_index(call):  # `load(path).cpu().cuda()`
                        continue
                    if precision is not Precision.HALF and self._keeps_loss(call, comes_back=not staying.reaches(call)):
                        continue
                    text = " ".join(self.facts.text(call).split())
                    if self._is_up_to_callers(call):
                        raise Refusal(NO_GPU, call, f"{text} shows no GPU: nothing in sight says which device")
                    raise Refusal(LOSS_ON_CPU, call, f"{text} takes what the loss is made of away from the GPU")

    def _may_be_called(self, call: cst.Call) -> bool:
        """False in a method that no call is seen to run: `def cpu(self)` of a batch that only goes to the GPU."""
        method = self.facts.tree.function_of(call).outermost
        is_implicit = method.owner is None or method.is_of_network or method.name.startswith("__")
        return is_implicit or bool(self.facts.objects.possible_callers(method))  # models and losses are in the unit

    def _keeps_loss(self, call: cst.Call, *, comes_back: bool) -> bool:
        """True for what no gradient reaches and is back on the GPU before the loss, and for what goes without a GPU."""
        assert isinstance(call.func, cst.Attribute)
        behind = Behind(self.facts, self.optimizers.models, call.func.value)
        if comes_back and not behind.may_have_gradients():
            return True
        return self._is_without_gpu(call) and not behind.is_of_trained()

    def _is_without_gpu(self, call: cst.Call) -> bool:
        """True for `x.cpu()` of `return x.cuda() ... else: return x.cpu()`, by a test that speaks of devices."""
        statement = self.facts.tree.statement_of(call)
        against = {test: not value for test, value in tested(statement) if self._speaks_of_device(test)}
        others = [one for one in self._all if one.statement.function is statement.function and one.what is not None]
        return any(
            against.get(test) is value and self._root(other.call) is self._root(call)
            for other in others
            for test, value in tested(other.statement)
        )

    def _root(self, call: cst.Call) -> Variable | None:
        """The variable of `x` in `x.contiguous().cuda()`."""
        return self.facts.names.variable_at(next(part for part in walk(call.func) if isinstance(part, cst.Name)))

    def _is_index(self, value: cst.BaseExpression) -> bool:
        """True for `y.cpu()` of `zeros.scatter_(1, y.cpu().view(-1, 1), 1)`: integers, whatever `y` is otherwise."""
        around = self.facts.tree.parents.get(value)
        taker = self.facts.tree.parents.get(around) if around is not None else None
        if not isinstance(taker, cst.Call):
            return False
        if isinstance(around, cst.Attribute):
            row = models.method(around.attr.value)
            return row is not None and row.shape_only and self._is_index(taker)
        place = 2 if self.facts.names.dotted(taker.func) is not None else 1
        return called_name(taker) in traits.named("indexed") and argument_value(taker, "index", place) is value

    def _goes_to_cpu(self, call: cst.Call) -> bool:
        if called_name(call) == "cpu":
            return not call.args
        device = argument_value(call, "device", 0) if called_name(call) == "to" else None
        return device is not None and self._place(device) == "elsewhere" and not self._is_spread(device)

    def _is_spread(self, device: cst.BaseExpression) -> bool:
        """True for a parameter that is on the CPU by its default alone, where a call may give another device by its
        stars: `match_loss(out, y, **options)`.
        """
        variable = self.facts.names.variable_at(device)
        param = variable.bindings[0].node if variable is not None and len(variable.bindings) == 1 else None
        function = self.facts.tree.function_of(device)
        if not isinstance(param, cst.Param) or param not in function.parameters:
            return False
        objects = self.facts.objects
        given = [(call, objects.argument(call, function, param)) for call, _ in objects.possible_callers(function)]
        on_cpu = any(self._place(arg.value) == "elsewhere" for _, arg in given if arg is not None)
        left_out = [call for call, arg in given if arg is None]
        is_open = [
            any(one.star for one in call.args) and objects.handed_on(call, function, param) is None for call in left_out
        ]
        return bool(is_open) and all(is_open) and not on_cpu

    def _is_up_to_callers(self, call: cst.Call) -> bool:
        """True for `x.to(device)` in `def fit(net, batches, device="cpu")` that nothing in sight calls."""
        device = argument_value(call, "device", 0)
        variable = self.facts.names.variable_at(device)
        if variable is None or any(binding.kind != "param" for binding in variable.bindings):
            return False
        function = variable.scope.owner
        return isinstance(function, Function) and not self.facts.objects.possible_callers(function)

    # -- moves ------------------------------------------------------------------------------------------

    def _modules_around(self) -> ObjectSet:
        """Modules that have the models as parts, and take them along: `learner` of `self.net` in a class of modules,
        and what is made out of sight.
        """
        built = [model for call in self.optimizers.built for model in self.optimizers.models_of(call)]
        found = [one for model in built for above in _above(model) for one in self.facts.objects.objects(above)]
        return frozenset(
            one
            for one in found
            if one.kind == "call" or (isinstance(one.origin, Class) and self._may_be_module(one.origin))
        )

    def _is_behind_losses(self, statement: Statement, seen: frozenset[Function] = frozenset()) -> bool:
        """True for what runs after all losses alone: an evaluation that moves the model decides nothing about them."""
        function, calls = statement.function, self.facts.calls
        losing = {loss.statement.function for loss in self.losses}
        orders = [loss.statement.order for loss in self.losses if loss.statement.function is function]
        for inner in function.descendants():
            if any(calls.reaches(site.callee, losing.__contains__) for site in calls.in_statement(inner)):
                orders.append(inner.order)
        if orders or function in seen:
            return bool(orders) and max(orders) < statement.order
        others = calls.of_other_programs(losing)
        callers = [one for _, one in self.facts.objects.possible_callers(function) if one.function not in others]
        return bool(callers) and all(self._is_behind_losses(one, seen | {function}) for one in callers)

    def _may_be_module(self, owner: Class) -> bool:
        """True for what is derived from a module, or from a class of a file that is not at hand."""
        bases = (base.value for one in self.facts.objects.ancestors(owner) for base in one.node.bases)
        return any(self.facts.names.dotted(base) not in (None, "object") for base in bases)

    def _is_module(self, owner: Class) -> bool:
        bases = (base.value for one in self.facts.objects.ancestors(owner) for base in one.node.bases)
        return any((self.facts.names.dotted(base) or "") == "torch.nn.Module" for base in bases)

    def _moves(self) -> Iterator[Move]:
        others = self._of_other_models()
        training = {loss.statement.function for loss in self.losses}
        training |= {home.function for home in self._homes}
        elsewhere = self.facts.calls.of_other_programs(training)
        for call, statement in self.facts.tree.every(cst.Call):
            if self._belongs_to(statement, others) or statement.function in elsewhere:
                continue
            for move in self._move(call, statement):
                if not (self._is_never_called(statement.function) or self._is_behind_losses(statement)):
                    yield move

    def _is_never_called(self, function: Function) -> bool:
        """True for a method of a module that nothing names: `def set_device(self, device)` of a network's own base."""
        if function.owner is None or not self._is_module(function.owner) or function.name.startswith("__"):
            return False
        is_named = any(part.attr.value == function.name for part, _ in self.facts.tree.every(cst.Attribute))
        return not is_named and not self.facts.is_used_outside(function)

    def _belongs_to(
        self, statement: Statement, tests: list[Statement], seen: frozenset[Function] = frozenset()
    ) -> bool:
        """True in a self-test, and in a function that nothing but self-tests calls."""
        if not tests or any(statement.inside(test) for test in tests):
            return bool(tests)
        callers = self.facts.calls.callers(statement.function) if statement.function not in seen else []
        within = seen | {statement.function}
        return bool(callers) and all(self._belongs_to(site.statement, tests, within) for site in callers)

    def _of_other_models(self) -> list[Statement]:
        """Self-tests without a loss: they move models of their own."""
        losing = {loss.statement.function for loss in self.losses}
        return [
            test
            for test in self.facts.self_tests
            if not any(loss.statement.inside(test) for loss in self.losses)
            and not any(
                self.facts.calls.reaches(site.callee, losing.__contains__)
                for inner in test.descendants()
                for site in self.facts.calls.in_statement(inner)
            )
        ]

    def _configured(self) -> Iterator[Move]:
        """Where the models go by a `device = torch.device(...)` of which the code does not say more: a configuration
        decides, in a script that can use several GPUs.
        """
        for call, statement in self.facts.tree.every(cst.Call):
            device = argument_value(call, "device", 0) if called_name(call) == "to" else None
            if not isinstance(device, cst.Name) or not isinstance(call.func, cst.Attribute):
                continue
            made = [one for one in self.facts.objects.values_of(device) if isinstance(one, cst.Call)]
            is_device = [self.facts.names.dotted(one.func) == "torch.device" for one in made]
            if is_device == [True] and self._place(device) == "unknown":
                if self.facts.objects.may_be(call.func.value, self.optimizers.models):
                    yield Move(call, statement, call.func.value, Decision(None, False, device, False))

    def _puts_back(self, move: Move) -> bool:
        """`net.cpu()` was called before in this function, to save the weights: this decides no device."""
        if move.what is None:
            return False
        key = self.facts.identity.key(move.what)
        taken = (
            call.func.value
            for step in move.statement.path()
            for earlier in step.block.statements[: step.index]
            for inner in (earlier.descendants() if isinstance(earlier.node, (cst.Expr, cst.Assign, cst.With)) else ())
            for call in self.facts.tree.calls(inner)
            if isinstance(call.func, cst.Attribute) and self._goes_to_cpu(call)
        )
        return key is not None and any(self.facts.identity.key(one) == key for one in taken)

    def _move(self, call: cst.Call, statement: Statement) -> Iterator[Move]:
        func, name = call.func, called_name(call)
        if name == "cuda" and isinstance(func, cst.Attribute):
            if self.facts.names.dotted(func) is None:
                yield Move(call, statement, func.value, self._chosen_around(call))
            return
        if name in _PARALLEL:
            ids = argument_value(call, "device_ids", 1)
            if ids is not None and literal_value(ids) is UNKNOWN and call.args:
                yield Move(call, statement, call.args[0].value, None)
            return
        if name in ("set_default_tensor_type", "set_default_device") and call.args:
            if "cuda" in self.facts.text(call.args[0].value):
                yield Move(call, statement, None, None)
            return
        dotted = self.facts.names.dotted(func) or ""
        if dotted.startswith("torch.cuda.") and dotted.endswith("Tensor"):
            yield Move(call, statement, None, None)
            return
        is_of_tensor = name in ("to", "type") and isinstance(func, cst.Attribute)
        device = argument_value(call, "device", 0 if is_of_tensor else None)
        if device is None or (name == "to" and not is_of_tensor) or name in ("load", "memory_allocated"):
            return
        place = self._place(device)
        if place == "cuda" or isinstance(place, Decision):
            what = func.value if is_of_tensor and isinstance(func, cst.Attribute) else None
            yield Move(call, statement, what, place if isinstance(place, Decision) else self._chosen_around(call))

    def _chosen_around(self, call: cst.Call) -> Decision | None:
        """The flag of `model.cuda() if use_cuda else model`."""
        inner: cst.CSTNode | None = call
        while inner is not None and not isinstance(inner, cst.BaseSmallStatement):
            outer = self.facts.tree.parents.get(inner)
            if isinstance(outer, cst.IfExp) and inner is not outer.test:
                other = outer.orelse if inner is outer.body else outer.body
                is_choice = self._speaks_of_device(outer.test) or self._names(other, self._moved(call))
                if is_choice and ".cuda(" not in self.facts.text(other):
                    return Decision(outer.test, inner is outer.orelse, None, False)
            inner = outer
        return None

    def _moved(self, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """`net` of `net.eval().cuda()`; what a function or a class in sight, or of a module, makes is made there."""
        objects, dotted = self.facts.objects, self.facts.names.dotted
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if dotted(node.func) is not None or objects.candidates(node):
                break
            node = node.func.value
        return node

    def _names(self, node: cst.BaseExpression, moved: cst.BaseExpression | None) -> bool:
        """True for `model` and `(model, loss)`, where the model is what the other arm moves."""
        key = self.facts.identity.key(moved) if isinstance(moved, (cst.Name, cst.Attribute)) else None
        named = (part for part in walk(node) if isinstance(part, (cst.Name, cst.Attribute)))
        return key is not None and any(self.facts.identity.key(part) == key for part in named)

    def _is_near_a_loss(self, move: Move) -> bool:
        """True in a function that a loss is computed in, or that it calls, or that calls it or what it stands in."""
        calls = self.facts.calls
        return any(
            move.statement.function in calls.reachable(loss.statement.function)
            or calls.leads_to(move.statement.function, loss.statement.function)
            or (
                move.statement.function.owner is not None
                and move.statement.function.owner is loss.statement.function.owner
            )
            for loss in self.losses
        )

    # -- where a device is ------------------------------------------------------------------------------

    def _place(self, node: cst.BaseExpression) -> Place | Decision:
        """Where an expression puts things: a device, its name, the number of a GPU."""
        if node in self._open:
            return "unknown"
        self._open.add(node)
        try:
            return self._look(node)
        finally:
            self._open.discard(node)

    def _look(self, node: cst.BaseExpression) -> Place | Decision:
        value = literal_value(node)
        if isinstance(value, str):
            return "cuda" if value.startswith("cuda") else "elsewhere"
        if isinstance(value, int) and not isinstance(value, bool):
            return "cuda"
        if _is_none(node):
            return "elsewhere"  # `net.to(None)` leaves it where it is
        if isinstance(node, (cst.FormattedString, cst.BinaryOperation)):
            return "cuda" if "cuda" in self.facts.text(node) else "unknown"
        if isinstance(node, cst.IfExp):
            return self._either(node)
        if isinstance(node, cst.BooleanOperation):  # `args.device or "cuda"`, which anybody may have given
            places = {self._place(node.left), self._place(node.right)}
            return places.pop() if len(places) == 1 else Decision(None, False, node, True)
        if isinstance(node, cst.Call):
            return self._made(node)
        if self._is_type(node):
            return "cuda" if (self.facts.names.dotted(node) or "").startswith("torch.cuda.") else "elsewhere"
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return self._named(node)
        return "unknown"

    def _is_type(self, node: cst.BaseExpression) -> bool:
        """True for `torch.FloatTensor` and `torch.cuda.FloatTensor`."""
        dotted = self.facts.names.dotted(node) or ""
        return dotted.startswith("torch.") and dotted.endswith("Tensor")

    def _either(self, node: cst.IfExp) -> Place | Decision:
        body, orelse = self._place(node.body), self._place(node.orelse)
        if body == orelse:
            return body
        if body == "cuda" and orelse == "elsewhere":
            return Decision(node.test, False, None, False)
        if body == "elsewhere" and orelse == "cuda":
            return Decision(node.test, True, None, False)
        is_open = isinstance(body, Decision) or isinstance(orelse, Decision) or "cuda" in (body, orelse)
        return Decision(None, False, node, True) if is_open else "unknown"

    def _made(self, call: cst.Call) -> Place | Decision:
        dotted = self.facts.names.dotted(call.func) or ""
        if dotted == "torch.device" and call.args:
            place = self._place(call.args[0].value)
            return dataclasses.replace(place, device=None, is_string=False) if isinstance(place, Decision) else place
        if dotted == "torch.cuda.current_device":
            return "cuda"
        if (
            isinstance(call.func, cst.Attribute)
            and called_name(call) == "format"
            and "cuda" in self.facts.text(call.func)
        ):
            return "cuda"
        if self._is_of_settings(call) or self._has_default(call):
            return Decision(None, False, call, True)
        function = self.facts.objects.called_function(call)
        if function is None:
            names = self.facts.names.imported_as(call.func)
            self._unread |= {name: call for name in names if self.facts.elsewhere.source_of(name) is not None}
            return "unknown"
        returned = [
            inner.node.value
            for inner in function.descendants()
            if isinstance(inner.node, cst.Return) and inner.node.value is not None
        ]
        return self._together([self._place(value) for value in returned], None)

    def _named(self, node: cst.BaseExpression) -> Place | Decision:
        option = self.facts.values.option(node)
        name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
        if name in _GPU_NUMBERS:
            return "cuda"
        given = self._set_before(node)
        given = given or [*self.facts.objects.values_of(node), *self.facts.objects.parts_held(node)]
        if isinstance(node, cst.Subscript) and not given:
            shown = [node.value, *self.facts.objects.values_of(node.value)]
            given = [value for one in shown for value in _values_shown(one)]
        values = [one for one in given if literal_value(one) is not None and not self._is_unused_default(one)]
        places = [self._place(value) for value in values]
        if option is not None:
            known = [option.default, *(option.choices or ())]
            devices = ("cuda",) if option.choices else ("cuda", "cpu")  # a default alone keeps nobody from the other
            if any(isinstance(one, str) and one.startswith(devices) for one in known):
                places.append(Decision(None, False, node, True))
        found = self._together(places, node)
        is_given = any(one.kind == "parameter" for one in self.facts.objects.objects(node))
        if found == "cuda" and (is_given or (name.isupper() and self._is_of_settings(node))):
            found = Decision(None, False, node, True)  # a default that a caller, or a file of settings, may override
        if isinstance(found, Decision) and not isinstance(node, cst.Subscript):
            is_string = any(self._is_string(value) for value in values) or (option is not None and not values)
            return dataclasses.replace(found, device=node, is_string=is_string or found.is_string)
        is_open = found == "unknown" or (found == "elsewhere" and self._is_set_in_arms(values))
        if is_open and self._is_of_settings(node):
            return Decision(None, False, node, True)  # torch.device() takes a torch.device as well
        return found

    def _is_unused_default(self, value: cst.BaseExpression) -> bool:
        """True for "cuda" of `def __init__(self, device="cuda")` where each call gives a device of its own."""
        param = self.facts.tree.parents.get(value)
        variable = self.facts.names.variable_at(param.name) if isinstance(param, cst.Param) else None
        function = variable.scope.owner if variable is not None else None
        if not isinstance(param, cst.Param) or not isinstance(function, Function):
            return False
        calls = self.facts.objects.callers(function)
        return bool(calls) and all(self.facts.objects.argument(call, function, param) for call, _ in calls)

    def _is_set_in_arms(self, values: list[cst.BaseExpression]) -> bool:
        """True for what has another value where no test holds: `if not has_gpu: config.device = "cpu"`."""
        around = [self.facts.tree.statement_of(value).block.owner for value in values]
        return bool(around) and all(one is not None and isinstance(one.node, cst.If) for one in around)

    def _set_before(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a constructor itself has given an attribute of its instance before: other methods run later."""
        at = self.facts.tree.statement_of(node)
        receiver = at.function.receiver if at.function.name == "__init__" else None
        if not isinstance(node, cst.Attribute) or receiver is None or self.facts.text(node.value) != receiver:
            return []
        own = [
            store
            for store in self.facts.objects.stores_of(node.attr.value)
            if store.statement.block is at.function.body and store.statement.order < at.order and not store.selector
            if self.facts.text(store.base) == receiver
        ]
        return [own[-1].value] if own else []

    def _is_of_settings(self, node: cst.BaseExpression) -> bool:
        """True for `config.device` and `cfg.MODEL.DEVICE`: nothing in the unit has to show what the script goes by; and
        for `anything["device"]`, which no tensor has.
        """
        asked = _asked_for_device(node)
        holders = self.facts.text(asked).split(".") if asked is not None else []
        is_entry = asked is not None and not isinstance(node, cst.Attribute) and not self._is_of_keywords(asked)
        return is_entry or any(_SETTINGS.search(holder) is not None for holder in holders)

    def _is_of_keywords(self, node: cst.BaseExpression) -> bool:
        """True for `kwargs` of a function with `**kwargs`: it has what the callers give, as its parameters do."""
        variable = self.facts.names.variable_at(node)
        params = [one.node for one in variable.bindings if one.kind == "param"] if variable is not None else []
        return any(isinstance(one, cst.Param) and one.star == "**" for one in params)

    def _has_default(self, call: cst.Call) -> bool:
        """True for `anything.get("device", "cuda")`."""
        return _asked_for_device(call) is not None and len(call.args) == 2 and self._place(call.args[1].value) == "cuda"

    def _together(self, places: list[Place | Decision], node: cst.BaseExpression | None) -> Place | Decision:
        decisions = [place for place in places if isinstance(place, Decision)]
        plain = {place for place in places if not isinstance(place, Decision)}
        if decisions and not plain - {"unknown"}:
            return decisions[0] if len(decisions) == 1 else Decision(None, False, node, decisions[0].is_string)
        if "cuda" in plain and ("elsewhere" in plain or decisions):
            return Decision(None, False, node, False)
        if decisions:
            return Decision(None, False, node, False)
        return "cuda" if "cuda" in plain else "elsewhere" if plain == {"elsewhere"} else "unknown"

    def _is_string(self, node: cst.BaseExpression) -> bool:
        """True for a value that is no torch.device."""
        if isinstance(node, cst.Call):
            return (self.facts.names.dotted(node.func) or "") == "str"
        if isinstance(node, (cst.Name, cst.Attribute)):
            if node in self._open:
                return False
            self._open.add(node)
            try:
                values = self.facts.objects.values_of(node)
                return (
                    any(self._is_string(value) for value in values)
                    if values
                    else self.facts.values.option(node) is not None
                )
            finally:
                self._open.discard(node)
        if isinstance(node, cst.IfExp):
            return self._is_string(node.body) or self._is_string(node.orelse)
        return isinstance(node, (cst.BooleanOperation, cst.Subscript, cst.BaseString))

    # -- the condition ----------------------------------------------------------------------------------

    def _most_visible(self, chosen: list[tuple[Decision, Move]]) -> tuple[Decision, Move]:
        """The first decision that the optimizer's function knows, or that the objects that train are given, or that
        what calls that function knows. Raises Refusal where other files may have one.
        """
        for decision, move in chosen:
            if any(node is not None and self._is_visible(node) for node in (decision.flag, decision.device)):
                return decision, move
        for decision, move in chosen:
            received = self._received(decision.device) if decision.device is not None else None
            if received is not None:
                return dataclasses.replace(decision, flag=None, device=received), move
        for decision, move in chosen:
            if decision.flag is not None and self._is_visible_above(decision.flag):
                return decision, move
        if self._unread:
            call = next(iter(self._unread.values()))
            text = self.facts.text(call.func)
            raise Refusal(UNKNOWN_DEVICE, call, f"which device {text} means is not known", tuple(self._unread))
        return chosen[0]

    def _received(self, device: cst.BaseExpression) -> cst.BaseExpression | None:
        """The parameter under which a constructor of what computes a loss gets a device: from each caller its own."""
        key = self.facts.identity.key(device)
        for init in self._constructors if key is not None else ():
            for call, _ in self.facts.objects.callers(init):
                for param, arg in self.facts.objects.arguments(call, init):
                    if self.facts.identity.key(arg.value) == key:
                        return param.name
        return None

    @cached_property
    def _constructors(self) -> list[Function]:
        """Those of what computes the losses."""
        owners = dict.fromkeys(loss.statement.function.owner for loss in self.losses)
        return [owner.methods["__init__"] for owner in owners if owner is not None and "__init__" in owner.methods]

    def _received_test(self, paths: list[list[Guard]]) -> list[Condition] | None:
        """The same for a flag: several scripts ask their own, and each gives it to what trains."""
        compile_, equivalent = self.facts.conditions.compile, self.facts.conditions.equivalent
        asked = {way[0].statement.function: conjunction([one.formula for one in way]) for way in paths}
        homes = {one.statement.function for way in paths for one in way}
        for init in self._constructors if len(asked) == len(paths) and homes == asked.keys() else ():
            callers = self.facts.objects.possible_callers(init)
            for param in init.parameters if {statement.function for _, statement in callers} == homes else ():
                args = [(self.facts.objects.argument(call, init, param), at.function) for call, at in callers]
                if all(arg is not None and equivalent(compile_(arg.value), asked[home]) for arg, home in args):
                    return [Condition(param.name, compile_(param.name))]
        return None

    def _is_visible(self, node: cst.BaseExpression) -> bool:
        visible = Visible(self.facts)
        return all(visible.express(node, home.function, home) is not None for home in self._homes)

    def _is_visible_above(self, node: cst.BaseExpression) -> bool:
        """The same for some function that leads to all of these: it may hand the scaler down."""
        homes = {home.function for home in self._homes}
        above = (
            function
            for function in self.facts.tree.functions
            if function not in homes and all(self.facts.calls.leads_to(function, home) for home in homes)
        )
        visible = Visible(self.facts)
        return any(visible.express(node, function) is not None for function in above)

    def _condition(self, decision: Decision, move: Move) -> Condition:
        """The flag where it is a name that the optimizer's function knows, else a test of the device; the flag, too,
        where only what calls that function knows either.
        """
        flag = decision.flag
        device = decision.device
        is_known = device is not None and self._is_visible(device)
        if isinstance(flag, (cst.Name, cst.Attribute)) and not decision.negated:
            if self._is_visible(flag) or (not is_known and self._is_visible_above(flag)):
                return Condition(flag, self.facts.conditions.compile(flag))
        if device is not None and (flag is None or (is_known and not self._is_flag(flag))):
            return self._device_test(device, decision)
        if flag is None:
            raise Refusal(UNKNOWN_DEVICE, move.call, f"which device {self.facts.text(move.call)} means is not known")
        if device is not None and (is_known or not self._is_visible(flag)):
            return self._device_test(device, decision)
        formula = self.facts.conditions.compile(flag)
        return Condition(flag, negation(formula) if decision.negated else formula, negated=decision.negated)

    def _is_flag(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, (cst.Name, cst.Attribute, cst.UnaryOperation))

    def _device_test(self, device: cst.BaseExpression, decision: Decision) -> Condition:
        quote = self.facts.quote(device)
        formula = unknown(("device", self.facts.identity.key(device) or device))
        if decision.flag is not None:  # by which the devices of several scripts are one
            asked = self.facts.conditions.compile(decision.flag)
            formula = negation(asked) if decision.negated else asked
        values = [device, *self.facts.objects.values_of(device)]
        if any(isinstance(part, cst.Attribute) and self._is_type(part) for one in values for part in walk(one)):
            return Condition(device, formula, suffix=".is_cuda")
        test = f".type == {quote}cuda{quote}"
        may_be_none = self._may_be_none(device)
        is_name = decision.is_string or may_be_none or self._is_string_by_default(device)
        otherwise = f" or {quote}cpu{quote}" if may_be_none else ""
        return Condition(device, formula, suffix=test, is_device_name=is_name, otherwise=otherwise)

    def _may_be_none(self, node: cst.BaseExpression, seen: tuple[cst.BaseExpression, ...] = ()) -> bool:
        """True for `args.device if use_cuda else None`, and for an option without a default: no torch.device is made of
        None.
        """
        if node in seen:
            return False
        objects, option = self.facts.objects, self.facts.values.option(node)
        called = objects.called_function(node) if isinstance(node, cst.Call) else None
        match node:
            case cst.IfExp():
                test, arms = self.facts.text(node.test), (node.body, node.orelse)
                parts = [one for one in arms if _is_none(one) or self.facts.text(one) not in test]
            case cst.BooleanOperation():
                parts = [node.right]
            case _:
                values = objects.returned_by(called) if called is not None else objects.values_of(node)
                parts = [one for one in values if not _is_none(one)]  # a default, which somebody has replaced
        is_entry = isinstance(node, cst.Call) and called_name(node) == "get" and len(node.args) == 1
        by_default = is_entry or (option is not None and option.default is None and not parts)
        return by_default or any(_is_none(one) or self._may_be_none(one, (*seen, node)) for one in parts)

    def _is_string_by_default(self, device: cst.BaseExpression) -> bool:
        """True where the optimizer's function knows the device by a parameter `device="cpu"`, whatever callers give."""
        visible = Visible(self.facts)
        return any(
            param.name.value == visible.express(device, home.function, home)
            for home in self._homes
            for param in home.function.parameters
            if isinstance(param.default, cst.SimpleString)
        )

    def _ways(self, statement: Statement) -> list[list[Guard]]:
        """The ifs around a move, and around the calls that lead to it: `if args.cuda: learner.cuda()`, whose method
        moves its networks. Those of each way, where there are several.
        """
        own = self._guards(statement)
        if any(map(self._is_about_device, own)):
            return [own]
        return [[*own, *way] for way in self._ways_to(statement.function)]

    def _ways_to(self, function: Function) -> list[list[Guard]]:
        if function not in self._led_to:
            self._led_to[function] = [[]]  # for functions that call each other
            callers = [one for _, one in self.facts.objects.possible_callers(function)]
            callers = [one for one in callers if one.function not in self._elsewhere]
            callers = [one for one in callers if not any(map(one.inside, self.facts.self_tests))]
            ways = [way for statement in callers for way in self._ways(statement)]
            self._led_to[function] = [way for at, way in enumerate(ways) if way not in ways[:at]] or [[]]
        return self._led_to[function]

    def _guards(self, moved: Statement) -> list[Guard]:
        """The ifs around a move, or a call that leads to one, that do not also hold the training."""
        guards = [guard for guard in enclosing_guards(self.facts, moved) if not self._holds_training(guard)]
        return [guard for guard in guards if not self._holds_for_any_device(guard)]

    def _holds_for_any_device(self, guard: Guard) -> bool:
        """True for `if device:` of something that is always a device: it does not tell one from another."""
        key = self.facts.identity.key
        asked = {key(part): part for part in walk(guard.test) if isinstance(part, (cst.Name, cst.Attribute))}
        devices = [part for name, part in asked.items() if name in guard.formula.variables]
        implies = self.facts.conditions.implies
        return (
            len(devices) == len(guard.formula.variables) == 1
            and self._is_a_device(devices[0])
            and all(implies(equal_to(key(devices[0]), name), guard.formula) for name in ("cuda", "cpu"))
        )

    def _is_a_device(self, node: cst.BaseExpression) -> bool:
        """True where nothing but devices, or names of them, is ever given to something."""
        values = self.facts.objects.values_of(node)
        is_given = any(one.kind == "parameter" for one in self.facts.objects.objects(node))
        is_given |= any(isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)) for value in values)  # or None
        return bool(values) and not is_given and all(self._place(value) != "unknown" for value in values)

    def _holds_training(self, guard: Guard) -> bool:
        inner = [*(loss.statement for loss in self.losses), *self._homes]
        if any(statement.arm_of(guard.statement.node) == guard.arm for statement in inner):
            return True
        functions = {loss.statement.function for loss in self.losses}
        arm = next(block for block in guard.statement.blocks if block.arm == guard.arm)
        sites = (
            site
            for statement in arm.statements
            for one in statement.descendants()
            for site in self.facts.calls.in_statement(one)
        )
        return any(self.facts.calls.reaches(site.callee, functions.__contains__) for site in sites)

    def _one_test(self, paths: list[list[Guard]]) -> list[Condition] | None:
        """A test that holds exactly on the paths; none needed where they are all there are."""
        moved = _on_one(paths)
        if self.facts.conditions.constant(moved) is True:
            return []
        for guard in dict.fromkeys(guard for guards in paths for guard in reversed(guards)):
            formula = self.facts.conditions.compile(guard.test)
            for candidate, negated in ((formula, False), (negation(formula), True)):
                if self.facts.conditions.equivalent(moved, candidate):
                    return [Condition(guard.test, candidate, negated=negated)]
        if len(paths) == 1:
            return [Condition(guard.test, guard.formula, negated=guard.arm != "body") for guard in reversed(paths[0])]
        return self._received_test(paths)

    def _is_about_device(self, guard: Guard) -> bool:
        return self._speaks_of_device(guard.test)

    def _speaks_of_device(self, test: cst.BaseExpression) -> bool:
        """Itself, or what its names stand for: `fast = torch.cuda.is_available()`."""
        parts = [part for part in walk(test) if isinstance(part, (cst.Name, cst.Attribute))]
        named = [one for part in parts for one in self.facts.objects.values_of(part)]
        tests = [test, *(one for one in named if all(map(self._asks_cuda, walk(one))))]
        return any(word in self.facts.text(one).lower() for one in tests for word in _WORDS)

    def _asks_cuda(self, node: cst.CSTNode) -> bool:
        """False for calls but those of torch.cuda: a model that has been moved is no test."""
        return not isinstance(node, cst.Call) or (self.facts.names.dotted(node.func) or "").startswith("torch.cuda.")


def _asked_for_device(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`config` of `config.device`, `config["DEVICE"]` and `config.get("device")`; None for everything else."""
    if isinstance(node, cst.Attribute) and node.attr.value.lower() == "device":
        return node.value
    if isinstance(node, cst.Subscript) and subscript_key(node).lower() == "['device']":
        return node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) == "get":
        key = literal_value(node.args[0].value) if node.args else None
        return node.func.value if isinstance(key, str) and key.lower() == "device" else None
    return None


def _values_shown(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """`"cuda"` and `"cpu"` of `["cpu", "cuda"]` and of `{False: "cpu", True: "cuda"}`."""
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple, cst.Dict)) else ()
    return [one.value for one in elements]


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _on_one(ways: list[list[Guard]]) -> Formula:
    """What holds where one of the ways, at least, is taken; false where there is none, as `disjunction` is not."""
    return negation(conjunction([negation(conjunction([guard.formula for guard in way])) for way in ways]))


def _above(model: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """`self.nets` and `self` of `self.nets.critic`."""
    while isinstance(model, cst.Attribute):
        model = model.value
        yield model
