"""Plain loops that are known not to fit mixed precision, or not to be ours: each is left alone by name (rule H6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import PurePath

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.names import dotted_text
from amp_migrate.facts.presence import asks_whether_there_is
from amp_migrate.facts.running import Running
from amp_migrate.facts.tree import Class, Function, Statement, argument_value, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.steps import Steps
from amp_migrate.models import names
from amp_migrate.models.queries import takes_dtype, updates
from amp_migrate.plan.hooks import is_blind, is_only_kept, products_of
from amp_migrate.plan.steps.closures import gives_closure
from amp_migrate.plan.steps.own_steps import is_own_step
from amp_migrate.rules.plain import (
    FLOAT64,
    GRADIENTS_WATCHED,
    LOSS_EVALUATED_AGAIN,
    NO_STEP,
    OLD_CODE,
    SECOND_ORDER,
    SEVERAL_PROCESSES,
    TEST,
    UNKNOWN_CALLER,
    UNKNOWN_OPTIMIZER,
    UPDATE_BY_HAND,
    VERSION_BESIDE,
)
from amp_migrate.rules.safety import GRADIENT_PENALTY
from amp_migrate.rules.steps import UPDATE_PLACE
from amp_migrate.sources.plain.attacks import Attacks
from amp_migrate.sources.plain.frameworks import owned_by_framework
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers
from amp_migrate.sources.tests import is_in_test

_HOOKS = frozenset(
    "register_hook register_backward_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_post_accumulate_grad_hook register_multi_grad_hook retain_grad".split()
)
_DOUBLES = frozenset(("torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor"))
_GONE_MODULES = frozenset("torch.utils.serialization torch.utils.ffi torch.legacy torch.legacy.nn".split())
_PYTHON_2 = frozenset(("xrange", "raw_input", "unicode"))
_DEBUGGING = re.compile(r"debug|anomal", re.IGNORECASE)
_PYTHON_VERSION = re.compile(r"version|\bPY[23]\b")
_PARAMETERS = re.compile(r"param|weight|theta|fast|named_|\bphi\b", re.IGNORECASE)


def reasons_to_leave_alone(facts: Facts, optimizers: Optimizers, losses: list[Loss], attacks: Attacks) -> list[Refusal]:
    """The reasons that hold, the most telling one first; attacks may look at their gradients."""
    finder = _Finder(facts, optimizers, losses, attacks)
    checks: list[Callable[[], Refusal | None]] = [
        lambda: owned_by_framework(facts, optimizers, losses),
        finder.test,
        finder.sibling,
        finder.too_old,
        finder.manual_update,
        finder.shared_processes,
        finder.no_optimizer,
        finder.two_kinds,
        finder.only_gradients,
        finder.closure,
        finder.double,
        finder.second_order,
        finder.hidden_penalty,
        finder.hooks,
        finder.anomalies,
        finder.other_gradients,
    ]
    return [refusal for check in checks if (refusal := check()) is not None]


class _Finder:
    def __init__(self, facts: Facts, optimizers: Optimizers, losses: list[Loss], attacks: Attacks) -> None:
        self.facts = facts
        self.optimizers = optimizers
        self.losses = losses
        self.attacks = attacks

    # -- whose code it is -------------------------------------------------------------------------------

    def test(self) -> Refusal | None:
        for loss in self.losses:
            if is_in_test(self.facts, loss.statement):
                return Refusal(TEST, loss.call, f"{self.facts.text(loss.call)} is part of a test")
        return None

    def sibling(self) -> Refusal | None:
        """A copy of the script in mixed precision lies beside it: `train_amp.py` beside `train.py`."""
        for loss in self.losses:
            name = PurePath(self.facts.file_of(loss.call).name)
            for other in _in_mixed_precision(name.name):
                if self.facts.elsewhere.is_there(str(name.with_name(other))):
                    return Refusal(VERSION_BESIDE, loss.call, f"{other}.py beside this file trains in mixed precision")
        return None

    def too_old(self) -> Refusal | None:
        """What raises with every torch (1.6) and Python (3) that has native AMP."""
        scalars = {self.facts.text(part) for loss in self.losses for part in self._summands(loss)}
        for statement in self.facts.tree.all_statements():
            gone = _gone_module(statement)
            if gone is not None:
                return Refusal(OLD_CODE, statement.node, f"{gone} is not there since torch 1.0")
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Name) and part.value in _PYTHON_2 and not self.facts.tree.is_label(part):
                    is_known = self.facts.names.variable_at(part) is not None or self.facts.names.star_imports
                    if not is_known and not self._is_for_both_pythons(part, statement):
                        return Refusal(OLD_CODE, part, f"{part.value} is Python 2")
                if self._is_element_of(part, scalars) and statement.function in self._computing:
                    message = f"{self.facts.text(part)} raises IndexError for a loss since torch 0.5"
                    return Refusal(OLD_CODE, part, message)
        return None

    def _is_element_of(self, part: cst.CSTNode, scalars: set[str]) -> bool:
        """True for `loss.data[0]`."""
        if not isinstance(part, cst.Subscript) or not isinstance(part.value, cst.Attribute):
            return False
        is_first = part.value.attr.value == "data" and self.facts.text(part).endswith("[0]")
        return is_first and self.facts.text(part.value.value) in scalars

    def _is_for_both_pythons(self, part: cst.CSTNode, statement: Statement) -> bool:
        """True below `try:` and `if sys.version_info[0] < 3:`: who asks has an answer for either. So has
        `sys.version_info[0] == 2 and isinstance(path, unicode)`.
        """
        tests = [outer.node.test for outer in statement.path()[:-1] if isinstance(outer.node, cst.If)]
        asks = any(_PYTHON_VERSION.search(self.facts.text(test)) for test in [*tests, *self._asked_before(part)])
        return asks or any(isinstance(outer.node, cst.Try) for outer in statement.path()[:-1])

    def _asked_before(self, part: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """What is asked in the expression of a part, before it comes to the part."""
        node, parent = part, self.facts.tree.parents.get(part)
        while isinstance(parent, (cst.BaseExpression, cst.Arg, cst.Element, cst.ComparisonTarget)):
            if isinstance(parent, cst.BooleanOperation) and parent.right is node:
                yield parent.left
            elif isinstance(parent, cst.IfExp) and parent.test is not node:
                yield parent.test
            node, parent = parent, self.facts.tree.parents.get(parent)

    @cached_property
    def _computing(self) -> set[Function]:
        """The functions with the losses, their callers, what they call, and the forwards of the criteria among that."""
        calls = self.facts.calls
        training = {loss.statement.function for loss in self.losses}
        found = {one for function in training for one in calls.reachable(function)}
        found |= {one for one in self.facts.tree.functions if calls.reaches(one, training.__contains__)}
        made = [
            one.origin
            for call, statement in self.facts.tree.every(cst.Call)
            if statement.function in found and isinstance(call.func, (cst.Name, cst.Attribute))
            for one in self.facts.objects.objects(call.func)
        ]
        criteria = [one for one in made if isinstance(one, Class) and "forward" in one.methods]
        forwards = [one.methods["forward"] for one in criteria]
        return found | {one for forward in forwards for one in calls.reachable(forward)}

    def _summands(self, loss: Loss) -> Iterator[cst.BaseExpression]:
        """A loss, and what `loss = loss_boxes + loss_classes` adds up: scalars as well, by their names."""
        yield loss.loss
        for value in self.facts.objects.values_of(loss.loss) if isinstance(loss.loss, cst.Name) else ():
            waiting = [value]
            while waiting:
                part = waiting.pop()
                if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Add):
                    waiting += [part.left, part.right]
                elif isinstance(part, cst.Name) and "loss" in part.value:
                    yield part

    # -- what steps -------------------------------------------------------------------------------------

    def no_optimizer(self) -> Refusal | None:
        if self.optimizers.unknown:
            call = self.optimizers.unknown[0]
            assert isinstance(call.func, cst.Attribute)
            text = self.facts.text(call.func.value)
            objects = self.facts.objects.objects(call.func.value)
            if objects and all(one.kind in ("parameter", "field") and one.source.kind != "call" for one in objects):
                return Refusal(UNKNOWN_CALLER, call, f"{text} comes from a caller that is not known")
            return Refusal(UNKNOWN_OPTIMIZER, call, f"no call was recognised that makes {text} from parameters")
        if self.optimizers.steps:
            return None
        loss = self.losses[0]
        return Refusal(NO_STEP, loss.call, f"no optimizer steps after {self.facts.text(loss.call)}")

    def two_kinds(self) -> Refusal | None:
        """An optimizer of torch or a class around one, as an option has it: they are stepped in different places."""
        for call, _ in self.optimizers.steps:
            other = self.optimizers.not_for_a_scaler(call.func.value) if isinstance(call.func, cst.Attribute) else None
            if other is not None:
                text = f"{self._text(call.func)} steps an optimizer, or a {other.name}, which has no param_groups"
                return Refusal(UPDATE_PLACE, call, text, case="either")
        return None

    def _given_none(self, function: Function, name: str, seen: tuple[Function, ...]) -> Iterator[CallSite]:
        """The calls that give None for a parameter, itself or by a parameter of their own function."""
        param = next((one for one in function.parameters if one.name.value == name), None)
        if param is None or function in seen:
            return
        for site in self.facts.calls.callers(function):
            arg = self.facts.objects.argument(site.call, function, param)
            given = self._text(arg.value if arg is not None else param.default)
            if given == "None":
                yield site
            yield from self._given_none(site.caller, given, (*seen, function))

    def only_gradients(self) -> Refusal | None:
        """`if optimizer: optimizer.step()`, where a caller gives none: it wants the gradients, and nothing would say
        that they are too large.
        """
        for call, statement in self.optimizers.steps:
            function = statement.function
            name = self._text(call.func.value) if isinstance(call.func, cst.Attribute) else ""
            tests = (name, f"{name} is not None")
            guards = [
                one for one in statement.path() if isinstance(one.node, cst.If) and self._text(one.node.test) in tests
            ]
            outside = [loss for loss in self.losses if loss.statement.function is function]
            outside = [loss for loss in outside if guards and not loss.statement.inside(guards[0])]
            for site in self._given_none(function, name, ()) if outside else ():
                return Refusal(NO_STEP, site.call, f"{function.name} is called for gradients alone here")
        return None

    def _text(self, node: cst.CSTNode | None) -> str:
        return self.facts.text(node) if node is not None else ""

    def manual_update(self) -> Refusal | None:
        """`p.data.add_(p.grad, alpha=-lr)` and `w -= lr * w.grad`."""
        for statement in self.facts.tree.all_statements():
            node = statement.node
            if self._is_inside_optimizer(statement.function):
                continue
            if isinstance(node, cst.AugAssign) and _reads_grad(node.value) and not _reads_grad(node.target):
                is_own = isinstance(node.target, (cst.Name, cst.Attribute)) and self._is_own_grad(
                    node.target, node.value
                )
                if is_own and not self._is_input(node.target, statement):
                    return Refusal(UPDATE_BY_HAND, node, f"{self.facts.text(node)} updates a parameter by hand")
            if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
                call = node.value
                if called_name(call) in names(updates) and isinstance(call.func, cst.Attribute):
                    is_by_grad = not _reads_grad(call.func.value) and any(_reads_grad(arg.value) for arg in call.args)
                    if is_by_grad and not self._is_input(call.func.value, statement):
                        return Refusal(UPDATE_BY_HAND, node, f"{self.facts.text(node)} updates a parameter by hand")
        return None

    def _is_input(self, node: cst.BaseExpression, statement: Statement) -> bool:
        """True for what an attack changes: `delta.data`."""
        while isinstance(node, cst.Attribute) and node.attr.value == "data":
            node = node.value
        return self.attacks.change(node, statement) and not self._is_parameter(node)

    def _is_own_grad(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        own = self.facts.text(target).removesuffix(".data")
        return any(
            isinstance(part, cst.Attribute) and part.attr.value == "grad" and self.facts.text(part.value) == own
            for part in walk(value)
        )

    def _is_inside_optimizer(self, function: Function) -> bool:
        owner = function.owner
        return owner is not None and any("Optim" in self.facts.text(base.value) for base in owner.node.bases)

    def closure(self) -> Refusal | None:
        for call, statement in self.optimizers.steps:
            is_own = is_own_step(self.facts, statement, self.optimizers.objects)
            if not is_own and gives_closure(self.facts, call, statement.function):
                return Refusal(LOSS_EVALUATED_AGAIN, call, f"{self.facts.text(call)} gives the optimizer a closure")
        for call in self.optimizers.built:
            if called_name(call) == "LBFGS" and not self._is_one_of_several(call):
                return Refusal(LOSS_EVALUATED_AGAIN, call, "LBFGS evaluates the loss several times in one step")
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) in ("first_step", "second_step") and isinstance(call.func, cst.Attribute):
                return Refusal(LOSS_EVALUATED_AGAIN, call, f"{self.facts.text(call)} makes two backwards for one step")
        return None

    def _is_one_of_several(self, built: cst.Call) -> bool:
        """True where the function that builds it builds others for the same steps: with no closure it raises."""
        home = self.facts.tree.function_of(built)
        beside = [one for one in self.optimizers.built if self.facts.tree.function_of(one) is home]
        others = {one for call in beside if called_name(call) != "LBFGS" for one in self.facts.objects.objects(call)}
        mine = self.facts.objects.objects(built)
        receivers = [call.func.value for call, _ in self.optimizers.steps if isinstance(call.func, cst.Attribute)]
        stepped = [self.optimizers.optimizers_at(receiver) for receiver in receivers]
        return all(optimizers & others for optimizers in stepped if optimizers & mine)

    # -- numbers ----------------------------------------------------------------------------------------

    def double(self) -> Refusal | None:
        for call, _ in self.facts.tree.every(cst.Call):
            name = called_name(call)
            if name in ("set_default_dtype", "set_default_tensor_type") and self._asks_for_double(call):
                return Refusal(FLOAT64, call, f"{self.facts.text(call)} makes everything float64")
            if not isinstance(call.func, cst.Attribute):
                continue
            if name == "double" or (name in names(takes_dtype) and self._asks_for_double(call)):
                if self.facts.objects.may_be(call.func.value, self.optimizers.models):
                    return Refusal(FLOAT64, call, f"{self.facts.text(call)} trains in float64")
        return None

    def _asks_for_double(self, call: cst.Call) -> bool:
        return any(self._is_double(arg.value) for arg in call.args)

    def _is_double(self, node: cst.BaseExpression) -> bool:
        values = [node, *self.facts.objects.values_of(node)]
        return any((self.facts.names.dotted(one) or self.facts.text(one).strip("'\"")) in _DOUBLES for one in values)

    def second_order(self) -> Refusal | None:
        """Gradients of gradients, a gradient penalty left out: that is a loss of its own."""
        for call in self.optimizers.built:
            if "kfac" in called_name(call).lower() or "kfac" in (self.facts.names.dotted(call.func) or "").lower():
                message = f"{self.facts.text(call.func)} preconditions with second-order statistics"
                return Refusal(SECOND_ORDER, call, message)
        for call, statement in self.facts.tree.every(cst.Call):
            if not any(_is_true(arg, "create_graph") for arg in call.args):
                continue
            if called_name(call) == "backward":
                message = f"{self.facts.text(call)} makes gradients that are differentiated again"
                return Refusal(SECOND_ORDER, call, message)
            if called_name(call) == "grad" and not self._is_penalty(call, statement):
                text = self.facts.text(call.func)
                return Refusal(SECOND_ORDER, call, f"{text}(..., create_graph=True) is no gradient penalty")
        return None

    def _is_penalty(self, call: cst.Call, statement: Statement) -> bool:
        """The gradient is for an input, and only its size counts."""
        inputs = argument_value(call, "inputs", 1)
        if inputs is None or _PARAMETERS.search(self.facts.text(inputs)):
            return False
        body = self.facts.text(statement.function.node)
        return any(word in body for word in (".norm(", "linalg.norm", "pow(2)", "** 2", "**2", "square(", "torch.sum("))

    def hidden_penalty(self) -> Refusal | None:
        for call, _ in self.facts.tree.every(cst.Call):
            name = called_name(call).lower()
            if "penalty" in name and "grad" in name and not self.facts.objects.candidates(call):
                message = f"{self.facts.text(call.func)} was not found in these files"
                return Refusal(GRADIENT_PENALTY, call, message, self._unread(call.func), case="unread")
        return None

    def shared_processes(self) -> Refusal | None:
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) == "share_memory" and isinstance(call.func, cst.Attribute):
                message = f"{self.facts.text(call)} lets several processes train the same weights"
                return Refusal(SEVERAL_PROCESSES, call, message)
        return None

    # -- gradients of other things ----------------------------------------------------------------------

    def hooks(self) -> Refusal | None:
        """Hooks that look at gradients; those of tensors may be linear in them (`plan/hooks.py`)."""
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) in _HOOKS and isinstance(call.func, cst.Attribute) and not self._is_harmless(call):
                if self._are_made_here and (not self.facts.analysis(Running).may_run(call) or self._is_only_kept(call)):
                    continue
                text = self.facts.text(call.func)
                message = f"{text} looks at gradients during the backward"
                return Refusal(GRADIENTS_WATCHED, call, message, self._unread_hook(call))
        return None

    def _is_only_kept(self, call: cst.Call) -> bool:
        """True, too, for `x.retain_grad()` of a variable, where nothing reads a gradient."""
        if called_name(call) == "retain_grad" and isinstance(call.func, cst.Attribute):
            read = (one for one, _ in self.facts.tree.every(cst.Attribute) if one.attr.value == "grad")
            return isinstance(call.func.value, cst.Name) and all(map(self.facts.names.dotted, read))
        hooks = self.facts.objects.functions_given(call.args[0].value) if call.args else []
        return bool(hooks) and all(is_only_kept(self.facts, hook) for hook in hooks)

    @cached_property
    def _are_made_here(self) -> bool:
        """True where no other file gives the model that is trained: it may switch a hook on."""
        models = self.optimizers.models
        training = {loss.statement.function for loss in self.losses}
        open_functions = [
            one
            for one in self.facts.tree.functions
            if self.facts.calls.reaches(one, training.__contains__)
            for param in (one.parameters[1:] if one.is_method else one.parameters)
            if self.facts.objects.may_be(param.name, models) and self.facts.is_used_outside(one)
        ]
        is_run = any(self.facts.analysis(Running).may_run(loss.statement.node) for loss in self.losses)
        return is_run and not open_functions and all(one.source.kind != "parameter" for one in models)

    def anomalies(self) -> Refusal | None:
        """Anomaly detection raises for the NaN of the first overflow, where GradScaler would skip the step ([run])."""
        for call, statement in self.facts.tree.every(cst.Call):
            is_on = not call.args or literal_value(call.args[0].value) is True
            if called_name(call) in ("set_detect_anomaly", "detect_anomaly") and is_on:
                tests = [outer.node.test for outer in statement.path() if isinstance(outer.node, cst.If)]
                if not any(_DEBUGGING.search(self.facts.text(test)) for test in tests):
                    message = f"{self.facts.text(call)} stops at the first overflow, where a scaler skips the step"
                    return Refusal(GRADIENTS_WATCHED, call, message, case="anomaly")
        return None

    def _is_harmless(self, call: cst.Call) -> bool:
        hooks = self.facts.objects.functions_given(call.args[0].value) if call.args else []
        is_of_tensor = called_name(call) == "register_hook"
        return bool(hooks) and all(
            is_blind(self.facts, hook) or (is_of_tensor and products_of(self.facts, hook) is not None) for hook in hooks
        )

    def _unread_hook(self, call: cst.Call) -> tuple[str, ...]:
        given = call.args[0].value if call.args else call
        return self._unread(given.func if isinstance(given, cst.Call) else given)

    def _unread(self, function: cst.BaseExpression) -> tuple[str, ...]:
        """The names of other local modules that a function comes from: their files show what it does."""
        names = self.facts.names.imported_as(function)
        return tuple(name for name in names if self.facts.elsewhere.source_of(name) is not None)

    def other_gradients(self) -> Refusal | None:
        """`x.grad` of an input: it stays scaled, since only the optimizer's gradients are unscaled."""
        for part, statement in self.facts.tree.every(cst.Attribute):
            if part.attr.value == "grad":
                dotted = self.facts.names.dotted(part) or ""
                if dotted.startswith("torch.") or self._is_parameter(part.value):
                    continue
                if asks_whether_there_is(self.facts, part) or self.attacks.change(part.value, statement):
                    continue
                return Refusal(GRADIENTS_WATCHED, part, f"{self.facts.text(part)} is no gradient of a parameter")
        return None

    def _is_parameter(self, node: cst.BaseExpression) -> bool:
        """A loop variable over parameters, a weight of a layer, or something named like one."""
        made = trace(self.facts.analysis(Steps), Place(node), lambda row: False).ends
        if made and all(models.function("torch.nn.Parameter") in one.operations for one in made):
            return True
        if isinstance(node, cst.Name):
            return any(one.kind in ("for", "comprehension", "param") for one in self.facts.names.bindings_at(node))
        return (
            isinstance(node, (cst.Attribute, cst.Subscript)) and _PARAMETERS.search(self.facts.text(node)) is not None
        )


def _gone_module(statement: Statement) -> str | None:
    """The module that a file imports in any case and that torch has no more."""
    node = statement.node
    names = [alias.name for alias in node.names] if isinstance(node, cst.Import) else []
    if isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
        names = [node.module]
    is_certain = statement.function.is_module and statement.block.owner is None
    return next((name for one in names if is_certain and (name := dotted_text(one)) in _GONE_MODULES), None)


def _in_mixed_precision(name: str) -> Iterator[str]:
    """What a copy of `train` or `train_fp32` in mixed precision may be called."""
    for word in ("amp", "apex", "fp16"):
        yield from (f"{name}_{word}", f"{word}_{name}")
        yield from (name.replace(full, word) for full in ("fp32", "float32") if full in name)


def _reads_grad(node: cst.CSTNode) -> bool:
    return any(isinstance(part, cst.Attribute) and part.attr.value == "grad" for part in walk(node))


def _is_true(arg: cst.Arg, name: str) -> bool:
    named = arg.keyword is not None and arg.keyword.value == name
    return named and not (isinstance(arg.value, cst.Name) and arg.value.value == "False")
