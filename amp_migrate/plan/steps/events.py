"""The events of a training step, statement by statement.

scaled backward      makes scaled gradients (the source form's own)
plain backward       makes gradients that nobody scaled
step, zero_grad      of an optimizer in mixed precision
gradient use         anything else that reads or changes gradients: clipping, norms, checks
"""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import is_backward
from amp_migrate.facts.clips import is_bound_clip, is_clip
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.presence import asks_whether_there_is
from amp_migrate.facts.tree import Function, Statement, called_name, names_in, walk
from amp_migrate.files.averaging import averages_gradients
from amp_migrate.files.gradients import spares_gradients, uses_gradients
from amp_migrate.files.scale_free import reads_directions
from amp_migrate.findings import Refusal
from amp_migrate.interp.calls import Calls
from amp_migrate.models.traits import named
from amp_migrate.plan.model import Backward, ParameterAccess, Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.averages import Averages
from amp_migrate.plan.steps.cleared import is_cleared
from amp_migrate.plan.steps.closures import gives_closure
from amp_migrate.plan.steps.handed_losses import HandedLosses
from amp_migrate.plan.steps.hidden import refuse_hidden_training
from amp_migrate.plan.steps.inputs import is_input
from amp_migrate.plan.steps.norms import gives_norm
from amp_migrate.plan.steps.own_steps import is_own_step
from amp_migrate.plan.steps.second_backwards import ScaleFree
from amp_migrate.rules.steps import CLOSURE, GRADIENTS_IN_USE, STEP_NOT_JOINED, STEP_ON_SCALED, UPDATE_PLACE

_GRADIENT_WORDS = frozenset(
    "grad grads gradient gradients clip norm gradnorm backward hook hooks callback callbacks event".split()
)
_BUILTINS = frozenset("sum filter chain print zip enumerate map len list tuple sorted next iter set dict".split())
_NEUTRAL_METHODS = frozenset("step zero_grad state_dict load_state_dict add_param_group synchronize".split())
_TELLING = frozenset((cst.Attribute, cst.Yield, cst.Call))  # the classes of nodes that can be a use
_LOGS = frozenset("add_scalar add_scalars add_histogram".split())  # SummaryWriter's: they get values


@dataclasses.dataclass(eq=False)
class Step:
    """`optimizer.step()` of an optimizer in mixed precision."""

    call: cst.Call
    optimizer: cst.BaseExpression
    statement: Statement
    objects: ObjectSet


@dataclasses.dataclass(eq=False)
class ZeroGrad:
    """Gradients set to zero; `objects` is None where it may be those of every optimizer. Where this is known to be all
    `of_optimizer`, no gradient of it is left.
    """

    statement: Statement
    objects: ObjectSet | None
    of_optimizer: bool = False


@dataclasses.dataclass(eq=False)
class GradientUse:
    """A statement that reads or changes gradients.

    `kind` is clip, norm, helper, other or backward; `call` the clip or the norm; `objects` the optimizers
    whose gradients are meant, None where that cannot be said.
    """

    statement: Statement
    kind: str
    node: cst.CSTNode
    call: cst.Call | None
    objects: ObjectSet | None
    access: ParameterAccess | None = None


@dataclasses.dataclass(eq=False)
class Events:
    """The events of one module, by statement; `given_scaled` are functions that run inside of `with amp.scale_loss`,
    `apart` backwards whose gradients no step may take.
    """

    backwards: dict[Statement, list[Backward]] = dataclasses.field(default_factory=dict)
    steps: dict[Statement, list[Step]] = dataclasses.field(default_factory=dict)
    zero_grads: dict[Statement, list[ZeroGrad]] = dataclasses.field(default_factory=dict)
    uses: dict[Statement, list[GradientUse]] = dataclasses.field(default_factory=dict)
    other_steps: set[Statement] = dataclasses.field(default_factory=set)
    kept_clips: dict[Statement, cst.Call] = dataclasses.field(default_factory=dict)
    given_scaled: set[Function] = dataclasses.field(default_factory=set)
    apart: list[Statement] = dataclasses.field(default_factory=list)

    def all_steps(self) -> list[Step]:
        return [step for steps in self.steps.values() for step in steps]


def collect_events(facts: Facts, found: Recognition, roles: Roles, *, repair_clips: bool) -> Events:
    """Find the events of every statement; with `repair_clips`, clips of scaled gradients are uses too (rule D6).

    Raises Refusal for steps that a GradScaler cannot make.
    """
    return _Collector(facts, found, roles, repair_clips).collect()


class _Collector:
    def __init__(self, facts: Facts, found: Recognition, roles: Roles, repair_clips: bool) -> None:
        self.facts = facts
        self.found = found
        self.roles = roles
        self.repair_clips = repair_clips
        self.events = Events(apart=found.apart)
        self._scaled_blocks = [backward.statement for backward in found.backwards if backward.block is not None]
        self._handed = HandedLosses(facts, found)
        self._scaling_calls = {backward.call for backward in found.backwards}
        self._accesses = {access.node: access for access in found.parameters}
        self._uses_inside: dict[Function, str | None] = {}
        self._averages = Averages(facts)
        self._scale_free = ScaleFree(facts)
        self._calls = facts.analysis(Calls)

    def collect(self) -> Events:
        for backward in self.found.backwards:
            if backward.block is None:
                self.events.backwards.setdefault(backward.statement, []).append(backward)
                continue
            places = {place for name in backward.block.uses if (place := self._handed.backward_of(name)) is not None}
            if not places:
                message = f"where {backward.block.scaled} has its backward is not known"
                raise Refusal(STEP_NOT_JOINED, backward.call, message)
            self.events.given_scaled |= self._handed.functions
            for place in places:
                self.events.backwards.setdefault(place, []).append(backward)
        for statement in self.facts.tree.all_statements():
            if _drops_gradients(statement):
                if not self._is_for_some(statement):
                    self.events.zero_grads.setdefault(statement, []).append(ZeroGrad(statement, None))
                continue
            if _zeroes_gradients(statement):
                continue
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Call):
                    self._call(part, statement)
            use = self._use(statement)
            if use is not None:
                self.events.uses.setdefault(statement, []).append(use)
        refuse_hidden_training(self.facts, self.found, self.roles, {*self.events.backwards, *self.events.steps})
        return self.events

    def _is_for_some(self, statement: Statement) -> bool:
        """True below `if "head" in name:` in a loop over named parameters: the others keep their gradients; and below
        `if p.grad.sum() == 0:`, before which the scaler has seen them all.
        """
        loops = [one for one in statement.path()[:-1] if isinstance(one.node, cst.For)]
        if not loops or not isinstance(loops[-1].node, cst.For) or not isinstance(statement.node, cst.Assign):
            return False
        given = names_in(loops[-1].node.target)
        tests = [one for one in statement.path() if isinstance(one.node, cst.If) and one.inside(loops[-1])]
        by_name = any(
            given & names_in(one.node.test) and ("grad" not in names_in(one.node.test) or self._looks_into(one))
            for one in tests
            if isinstance(one.node, cst.If)
        )
        return by_name and all(given & names_in(one.target) for one in statement.node.targets)

    def _looks_into(self, test: Statement) -> bool:
        """True for `if p.grad.sum() == 0:`, which asks for more than whether there is a gradient."""
        use = self._use(test)
        parts = (part for part in self.facts.tree.expressions(test) if type(part) in _TELLING)
        looked_at = [part for part in parts if not self._is_presence(part) and self._use_at(part, test)]
        return use is not None and use.kind == "other" and bool(looked_at)

    # -- steps and zero_grad --------------------------------------------------------------------------

    def _call(self, call: cst.Call, statement: Statement) -> None:
        func = call.func
        if not isinstance(func, cst.Attribute):
            return
        if func.attr.value == "step":
            self._step(call, func, statement)
        elif func.attr.value == "zero_grad":
            objects: ObjectSet | None = self.roles.optimizers_at(func.value)
            is_own = bool(objects) or self._has_all(func.value)
            if not objects:
                objects = self.roles.holders(func.value) if self.roles.is_model(func.value) else frozenset()
            if objects is None or objects:
                self.events.zero_grads.setdefault(statement, []).append(ZeroGrad(statement, objects, is_own))

    def _has_all(self, model: cst.BaseExpression) -> bool:
        """True where each optimizer has the parameters of this model, and nothing else: `SGD(model.parameters())`."""
        makers = [one.origin for one in self.roles.optimizers]
        given = [one.args[0].value if isinstance(one, cst.Call) and one.args else None for one in makers]
        whole = self.facts.objects.objects(model)
        return bool(whole) and all(
            isinstance(one, cst.Call)
            and called_name(one) == "parameters"
            and isinstance(one.func, cst.Attribute)
            and self.facts.objects.objects(one.func.value) == whole
            for one in given
        )

    def _step(self, call: cst.Call, func: cst.Attribute, statement: Statement) -> None:
        objects = self.roles.optimizers_at(func.value)
        if not objects:
            if "optim" in self.facts.text(func.value).lower():
                self.events.other_steps.add(statement)
            return
        if is_own_step(self.facts, statement, self.roles.optimizers):
            return
        if objects != self.facts.objects.objects(func.value):
            others = self.facts.objects.objects(func.value) - objects
            if any(other.kind != "display" for other in others):  # nobody steps a dict
                text = self.facts.text(func.value)
                message = f"{text} may be an optimizer in mixed precision, or something else"
                raise Refusal(UPDATE_PLACE, call, message, case="either")
        if gives_closure(self.facts, call, statement.function):
            raise Refusal(CLOSURE, call, f"{self.facts.text(call)} gives the optimizer a closure")
        if any(
            self._scales_for(backward, objects) and statement.inside(backward.statement)
            for backward in self.found.backwards
            if backward.block is not None
        ):
            raise Refusal(STEP_ON_SCALED, call, f"{self.facts.text(call)} stands inside of `with amp.scale_loss`")
        step = Step(call, func.value, statement, objects)
        self.events.steps.setdefault(statement, []).append(step)

    def _scales_for(self, backward: Backward, objects: ObjectSet) -> bool:
        return any(self.facts.objects.objects(node) & objects for node in backward.optimizers)

    # -- gradient uses --------------------------------------------------------------------------------

    def _use(self, statement: Statement) -> GradientUse | None:
        """The gradient use of a statement, the most telling one where there are several."""
        if statement in self.found.removed:
            return None  # `optimizer.update_master_grads()`
        parts = (part for part in self.facts.tree.expressions(statement) if type(part) in _TELLING)
        uses = [use for part in parts if (use := self._use_at(part, statement))]
        if self._runs_in_a_block(statement):
            # Apex had not unscaled yet either.
            uses = [use for use in uses if use.kind == "clip"]
            if not self.repair_clips:
                if uses and uses[0].call is not None:
                    self.events.kept_clips[statement] = uses[0].call
                uses = []
        for use in uses:
            if use.kind == "clip" and self.facts.tree.function_of(use.node).is_lambda:
                raise Refusal(GRADIENTS_IN_USE, use.node, "a lambda clips gradients: when it is called is not known")
        order = ("clip", "norm", "helper", "other", "backward")
        return min(uses, key=lambda use: order.index(use.kind), default=None)

    def _runs_in_a_block(self, statement: Statement) -> bool:
        """True inside of `with amp.scale_loss`, and in a function that is given the scaled loss there."""
        inside = any(statement.inside(block) and statement is not block for block in self._scaled_blocks)
        return inside or statement.function in self.events.given_scaled

    def _use_at(self, part: cst.CSTNode, statement: Statement) -> GradientUse | None:
        if isinstance(part, cst.Attribute) and part.attr.value == "grad" and self._is_parameter_grad(part):
            if self._only_asks(part, statement):
                return None
            averages = self._averages.are_made_in(statement)
            return GradientUse(statement, "other", part, None, None) if not averages else None
        if isinstance(part, cst.Yield) and self._scales_a_loss(statement.function):
            return GradientUse(statement, "other", part, None, None)  # the caller may look at them before it goes on
        if not isinstance(part, cst.Call) or part in self._scaling_calls:
            return None
        name = called_name(part)
        access = self._access_in(part)
        objects = self.roles.optimizers_at(access.optimizer) if access is not None else self._given_only(part)
        functions = self.facts.objects.candidates(part)
        if part in self._accesses and self._accesses[part].clips:
            own = self._accesses[part]
            return GradientUse(statement, "clip", part, part, self.roles.optimizers_at(own.optimizer), own)
        if is_clip(self.facts, part) and not functions:
            return GradientUse(statement, "clip", part, part, objects or self._holders(part), access)
        if is_bound_clip(self.facts, part):
            return GradientUse(statement, "other", part, part, objects, access)
        if is_backward(self.facts, part) and not functions:
            is_of_apex = "apex" in (self.facts.names.dotted(part.func) or "")
            is_harmless = is_of_apex or is_cleared(self.facts, self.roles, statement)
            return GradientUse(statement, "backward", part, part, None) if not is_harmless else None
        if self.facts.objects.objects(part) & self.roles.optimizers:
            return None  # builds the optimizer
        if self._is_optimizers_own(part, name):
            return None
        if self._averages.are_made_by(functions):
            return None  # of scaled gradients, they are scaled
        if self._scale_free.are_all(functions):
            return None  # scaled or not
        if functions:
            self._averages.check(functions)
            inside = {self._use_inside(function) for function in functions}
            if access is not None or "helper" in inside:
                return GradientUse(statement, "helper", part, part, objects, access)
            return GradientUse(statement, "backward", part, part, None) if "backward" in inside else None
        if name in ("list", "tuple", "iter", "len"):
            return None  # only hands the parameters on
        if access is not None or self._looks_like_use(part, name, statement):
            kind = "norm" if "norm" in name.lower() else "other"
            return GradientUse(statement, kind, part, part, objects, access)
        return None

    def _only_asks(self, gradient: cst.Attribute, statement: Statement) -> bool:
        """True for `if p.grad is None: print(name)`, where nothing below looks at gradients, in all of a loop over `p`.

        Where something does, the test goes with it: what stands before the use stands before the test.
        """
        if not asks_whether_there_is(self.facts, gradient):
            return False
        loops = [one for one in statement.path() if isinstance(one.node, cst.For)]
        own = [one for one in loops if isinstance(one.node, cst.For) and names_in(one.node.target) & names_in(gradient)]
        around = own[-1] if own else statement
        return not any(
            self._use_at(part, inner)
            for inner in (around, *around.descendants())
            for part in self.facts.tree.expressions(inner)
            if type(part) in _TELLING and not self._is_presence(part)
        )

    def _is_presence(self, part: cst.CSTNode) -> bool:
        return isinstance(part, cst.Attribute) and asks_whether_there_is(self.facts, part)

    def _is_optimizers_own(self, call: cst.Call, name: str) -> bool:
        """True for `optimizer.step()` and `optimizer.zero_grad()`, where the class of the optimizer is in the unit as
        well: GradScaler unscales before the step, and nobody needs to before the other.
        """
        if name not in ("step", "zero_grad") or not isinstance(call.func, cst.Attribute):
            return False
        return bool(self.roles.optimizers_at(call.func.value))

    def _scales_a_loss(self, function: Function) -> bool:
        return any(statement.function is function for statement in self.events.backwards)

    def _holders(self, clip: cst.Call) -> ObjectSet | None:
        """The optimizers of X in `clip_grad_norm_(X.parameters(), ...)`, where there are several; and those of tensors
        that are parameters of nothing: `clip_grad_norm_(X.arch_parameters(), ...)`.
        """
        given = clip.args[0].value if clip.args else None
        if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute):
            return None
        if given.func.attr.value not in named("parameters"):
            return self.roles.holders_of_loose(given)
        return self.roles.holders(given.func.value)

    def _given_only(self, call: cst.Call) -> ObjectSet | None:
        """The optimizer whose gradients are looked at in `clip_gradient(optimizer, limit)`; None where a call gets
        something else that leads to gradients, or may read them from elsewhere.
        """
        if not isinstance(call.func, cst.Name):
            return None
        given = [(arg.value, self.roles.optimizers_at(arg.value)) for arg in call.args if not arg.star]
        others = [node for node, objects in given if not objects]
        if len(others) < len(call.args) - 1 or any(self.roles.is_model(node) for node in others):
            return None
        plain = all(isinstance(node, (cst.Name, cst.Attribute, cst.BaseNumber)) for node in others)
        return next((objects for _, objects in given if objects), None) if plain else None

    def _access_in(self, call: cst.Call) -> ParameterAccess | None:
        """The optimizer's parameters among the arguments of a call, as such or under a name."""
        for arg in call.args:
            for value in (arg.value, *self.facts.objects.values_of(arg.value)):
                if isinstance(value, cst.Call) and value in self._accesses:
                    return self._accesses[value]
        return None

    def _looks_like_use(self, call: cst.Call, name: str, statement: Statement) -> bool:
        """A function of another file that may look at gradients: it gets parameters, or it gets a model or an
        optimizer and its body, or some name, speaks of gradients (`norm = check(model, args.grad_clip)`).
        """
        if self._is_neutral(call, name) or name[:1].isupper():
            return False
        imported = [*self.facts.names.imported_as(call.func), *self._imported_methods(call)]
        if not self._may_look(call, name, statement, imported):
            return False
        if forwards := self._calls.forwards_of(call.func):  # of modules: their code tells more than their names
            return any(self._use_inside(one) for one in forwards)
        return not any(spares_gradients(dotted) or averages_gradients(dotted) for dotted in imported)

    def _may_look(self, call: cst.Call, name: str, statement: Statement, imported: list[str]) -> bool:
        """The same before its file is asked whether it spares gradients."""
        given_parameters = any(self._has_parameters(arg.value) for arg in call.args)
        if given_parameters:
            return name not in _BUILTINS
        known = any(map(uses_gradients, imported))
        if not known and ("penalty" in name or not self._words_around(call, name, statement) & _GRADIENT_WORDS):
            return False  # a gradient penalty is a part of the loss
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        touched = [arg.value for arg in call.args] + ([receiver] if receiver is not None else [])
        touched += [arg.value for made in self._made_by(call) for arg in made.args] if known else []
        return any(self.roles.is_model(node) or self.roles.optimizers_at(node) for node in touched) or (
            any(isinstance(arg.value, cst.Name) and arg.value.value == "self" for arg in call.args)
        )

    def _has_parameters(self, node: cst.BaseExpression) -> bool:
        """True for `model.parameters()`, and for what is made with it: `[*a.parameters(), *b.parameters()]`; not for an
        optimizer, and not for a norm, which is a number.
        """
        if self.roles.optimizers_at(node):
            return False
        made = [node, *self.facts.objects.values_of(node)] if isinstance(node, cst.Name) else [node]
        made = [one for one in made if not (isinstance(one, cst.Call) and self._gives_number(one))]
        return any(
            isinstance(part, cst.Call)
            and isinstance(part.func, cst.Attribute)
            and part.func.attr.value in named("parameters")
            for one in made
            for part in walk(one)
        )

    def _gives_number(self, call: cst.Call) -> bool:
        return is_clip(self.facts, call) or gives_norm(self.facts, call)

    def _imported_methods(self, call: cst.Call) -> list[str]:
        """What a method may be that is called on an instance of an imported class: `monitor.update(model)`. None of a
        class that reads gradients, and nothing of their size.
        """
        owners = [one for made in self._made_by(call) for one in self.facts.names.imported_as(made.func)]
        sized = [one for one in owners if not reads_directions(one)]
        return [self.facts.elsewhere.member(one, called_name(call)) for one in sized]

    def _made_by(self, call: cst.Call) -> list[cst.Call]:
        """The calls that make what a method is called on."""
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if not isinstance(receiver, (cst.Name, cst.Attribute, cst.Subscript)):
            return []
        return self.facts.objects.calls_behind(receiver)

    def _words_around(self, call: cst.Call, name: str, statement: Statement) -> set[str]:
        """The words in the names of a function, of its arguments, and of what its result is assigned to."""
        texts = [name, *(self.facts.text(arg) for arg in call.args)]
        if isinstance(statement.node, cst.Assign) and statement.node.value is call:
            texts += [self.facts.text(target) for target in statement.node.targets]
        return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}

    def _is_neutral(self, call: cst.Call, name: str) -> bool:
        if name in _NEUTRAL_METHODS or name in _LOGS:
            return True
        dotted = self.facts.names.dotted(call.func) or ""
        return name in ("no_grad", "set_grad_enabled", "enable_grad") or dotted.startswith("torch.optim.")

    def _use_inside(self, function: Function) -> str | None:
        """What a call of a function of the unit is: a use by a helper, or a plain backward; None for neither, and for
        a training step of its own.
        """
        if function not in self._uses_inside:
            self._uses_inside[function] = None
            self._uses_inside[function] = self._search(function)
        return self._uses_inside[function]

    def _search(self, function: Function) -> str | None:
        scaling = {statement.function for statement in self.events.backwards}
        if self.facts.calls.reaches(function, scaling.__contains__):
            return None
        kinds: set[str] = set()
        for statement in function.body.statements:
            for inner in statement.descendants():
                if _zeroes_gradients(inner):
                    continue
                for part in self.facts.tree.expressions(inner):
                    if isinstance(part, cst.Call) and called_name(part) in ("step", "deepcopy"):
                        return None  # a step of its own, or gradients of a copy
                    use = self._use_at(part, inner)
                    kinds |= {use.kind} if use is not None else set()
        if "backward" in kinds:
            return "backward"
        return "helper" if kinds else None

    def _is_parameter_grad(self, node: cst.Attribute) -> bool:
        """True for `p.grad` unless `p` is certainly no parameter (an input that requires gradients).

        The gradients of inputs are scaled natively as they were in apex, which unscaled those of the
        optimizers' parameters only.
        """
        if (self.facts.names.dotted(node) or "").startswith("torch."):
            return False
        return not is_input(self.facts, self.roles.optimizers, node.value)


def _drops_gradients(statement: Statement) -> bool:
    """True for `p.grad = None`, the zero_grad of the tuning guide."""
    node = statement.node
    return (
        isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Name)
        and node.value.value == "None"
        and all(isinstance(one.target, cst.Attribute) and one.target.attr.value == "grad" for one in node.targets)
    )


def _zeroes_gradients(statement: Statement) -> bool:
    """True for `p.grad.zero_()`, alone or where there is a gradient: zero is zero, scaled or not, and what other
    gradients there are stays as it is.
    """
    node = statement.node
    if isinstance(node, cst.If):
        inner = [one for block in statement.blocks for one in block.statements]
        is_there = isinstance(node.test, cst.Comparison) and _is_of_gradient(node.test.left)
        return is_there and all(_zeroes_gradients(one) or _drops_gradients(one) for one in inner)
    call = node.value if isinstance(node, cst.Expr) else None
    return isinstance(call, cst.Call) and called_name(call) in named("clearing") and _is_of_gradient(call.func)


def _is_of_gradient(node: cst.BaseExpression) -> bool:
    """True for `p.grad`, `p.grad.data` and their attributes, and not for what is computed of them."""
    while isinstance(node, cst.Attribute):
        if node.attr.value == "grad":
            return True
        node = node.value
    return False
