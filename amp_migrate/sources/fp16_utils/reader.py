"""Reading the plain program: wrapped optimizers, their backwards, and what else only they have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.names import dotted_text
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.torch_name import torch_name
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.files.saving import taken_of
from amp_migrate.findings import Refusal
from amp_migrate.plan.equal_choices import without_equal_choices
from amp_migrate.plan.model import Backward, ParameterAccess, Recognition, ScaleAccess, Setup, SkipRead
from amp_migrate.rules.fp16_utils import (
    CLIP_NORM_READ,
    FP16_OPTIMIZER,
    SCALE_BY_HAND,
    SCALE_SETTING,
    STATE_OF_FP16_OPTIMIZER,
    UNKNOWN_FP16_USE,
    UNWRAPPED_OPTIMIZER,
)
from amp_migrate.sources.fp16_utils.names import (
    CLIPS,
    COPIES,
    HAND_LOOPS,
    METHODS,
    OPTIMIZERS,
    SCALERS,
    form_name,
    is_backward,
    program_statements,
)
from amp_migrate.sources.fp16_utils.scaled_twice import scaled_twice
from amp_migrate.sources.fp16_utils.wrappers import read_loss_scale, saves_masters, unknown_to_torch, wrapped
from amp_migrate.sources.optimizers import find_optimizers, parameters_of
from amp_migrate.sources.states import add_states

_KEPT_AS_THEY_ARE = frozenset("step zero_grad state_dict load_state_dict param_groups state add_param_group".split())
_INTERNALS = frozenset(
    "overflow fp16_groups fp32_from_fp16_groups fp32_from_fp32_groups fp32_groups all_fp16_params loss_scaler "
    "first_closure_call_this_step inspect_master_grad_data fp32_params cur_scale".split()
)
_OF_THE_WRAPPER = _INTERNALS | METHODS | {"backward", "loss_scale"}


class Reader:
    """Fills a Recognition; `refusals` are the reasons why not all of it can be migrated."""

    def __init__(self, facts: Facts, found: Recognition) -> None:
        self.facts = facts
        self.found = found
        self.refusals: list[Refusal] = []
        self._statements = program_statements(facts)
        self._wrapped: ObjectSet = frozenset()

    def read(self) -> None:
        self._each(self._setup)
        self._wrapped = self._objects_of(node for setup in self.found.setups for node in setup.optimizers)
        self._each(self._read)
        self._optimizers_without_backward()
        self._other_optimizers()
        self._states()
        self.found.findings.extend(scaled_twice(self.facts, self.found))
        self.found.replaced = without_equal_choices(self.facts, self.found.replaced)

    def _each(self, read: Callable[[cst.CSTNode, Statement], None]) -> None:
        for statement in self._statements:
            for part in self.facts.tree.expressions(statement):
                try:
                    read(part, statement)
                except Refusal as refusal:
                    self.refusals.append(refusal)

    # -- setups -----------------------------------------------------------------------------------------

    def _setup(self, part: cst.CSTNode, statement: Statement) -> None:
        if not isinstance(part, cst.Call) or form_name(self.facts, part.func) not in OPTIMIZERS:
            return
        optimizer = wrapped(self.facts, part)
        setup = Setup(
            statement=statement,
            call=part,
            models=self._models(optimizer),
            optimizers=[optimizer],
            aliases=[],
            conditions=[],
            loss_scale=read_loss_scale(self.facts, part),
            level="O2",
        )
        if not self._only_wraps(statement, part, optimizer):
            setup.stays = True
            self.found.replaced[part] = self.facts.text(optimizer)
        self.found.setups.append(setup)
        self._report_settings(part)
        message = "half weights with masters become autocast with float32 weights"
        self.found.findings.append(self.facts.finding(part, FP16_OPTIMIZER, message))

    def _report_settings(self, call: cst.Call) -> None:
        names = unknown_to_torch(self.facts, call)
        if names:
            message = f"a GradScaler has no {' and no '.join(names)}"
            self.found.findings.append(self.facts.finding(call, SCALE_SETTING, message))

    def _only_wraps(self, statement: Statement, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        """True for `optimizer = FP16_Optimizer(optimizer)`: nothing is left of it."""
        node = statement.node
        if not isinstance(node, cst.Assign) or node.value is not call or len(node.targets) != 1:
            return False
        return self.facts.text(node.targets[0].target) == self.facts.text(optimizer)

    def _models(self, optimizer: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The models whose parameters an optimizer was made of."""
        origins = (one.origin for one in self.facts.objects.objects(optimizer))
        calls = [origin for origin in origins if isinstance(origin, cst.Call)]
        models = [model for call in calls for arg in call.args for model in parameters_of(self.facts, arg.value)]
        return models or list(self._trained())

    def _trained(self) -> Iterator[cst.BaseExpression]:
        """X of `X.train()`: the models of an optimizer whose parameters come from elsewhere."""
        for statement in self._statements:
            for call in self.facts.tree.calls(statement):
                if called_name(call) == "train" and not call.args and isinstance(call.func, cst.Attribute):
                    yield call.func.value

    def _optimizers_without_backward(self) -> None:
        """A wrapper that steps, and none of whose own scales a loss: another one scales it for both."""
        backwards = self.found.backwards
        scaled_by = [self._objects_of(backward.optimizers[:1]) for backward in backwards]
        is_one = all(one & scaled_by[0] for one in scaled_by)
        for optimizer, function in self._stepped():
            objects = self.facts.objects.objects(optimizer)
            if any(objects & scaling for scaling in scaled_by):
                continue
            if not is_one or any(backward.statement.function is not function for backward in backwards):
                message = f"{self.facts.text(optimizer)} scales no loss, and which one it steps for cannot be told"
                self.refusals.append(Refusal(UNKNOWN_FP16_USE, optimizer, message))
                continue
            for backward in backwards:
                if not objects & self._objects_of(backward.optimizers):
                    backward.optimizers.append(optimizer)

    def _stepped(self) -> Iterator[tuple[cst.BaseExpression, Function]]:
        """The wrappers that `optimizer.step()` is called of, with the function that does it."""
        for statement in self._statements:
            for call in self.facts.tree.calls(statement):
                if called_name(call) == "step" and isinstance(call.func, cst.Attribute):
                    if self._is_wrapped(call.func.value):
                        yield call.func.value, statement.function

    def _objects_of(self, optimizers: Iterable[cst.BaseExpression]) -> ObjectSet:
        return frozenset(one for node in optimizers for one in self.facts.objects.objects(node))

    def _other_optimizers(self) -> None:
        """What else steps on these gradients: they are scaled natively, whoever steps."""
        if not self.found.setups or self._has_plain_backward():
            return
        functions = {backward.statement.function for backward in self.found.backwards}
        made = {call for _, call in find_optimizers(self.facts) if not self._is_given_optimizer(call)}
        for statement in self._statements:
            for part in self.facts.tree.expressions(statement):
                if statement.function in functions and isinstance(part, cst.Call) and called_name(part) == "step":
                    assert isinstance(part.func, cst.Attribute)
                    objects = self.facts.objects.objects(part.func.value)
                    if not objects & self._wrapped and any(one.origin in made for one in objects):
                        self.found.setups[0].optimizers.append(part.func.value)
                        self._report_other(part)
                        for backward in self.found.backwards:
                            backward.optimizers.append(part.func.value)

    def _report_other(self, step: cst.Call) -> None:
        """The wrapper unscaled its own gradients only; this optimizer stepped on gradients times the loss scale."""
        text = self.facts.text(step)
        message = f"{text} used gradients times the loss scale, of half weights; they are unscaled now"
        self.found.findings.append(self.facts.finding(step, UNWRAPPED_OPTIMIZER, message))

    def _is_given_optimizer(self, call: cst.Call) -> bool:
        """True for a scheduler."""
        stepped = {one for _, other in find_optimizers(self.facts) for one in self.facts.objects.objects(other)}
        own = self.facts.objects.objects(call)
        return any(self.facts.objects.objects(arg.value) & (stepped - own) for arg in call.args)

    def _has_plain_backward(self) -> bool:
        scaled = {backward.call for backward in self.found.backwards}
        calls = (call for statement in self._statements for call in self.facts.tree.calls(statement))
        return any(called_name(call) == "backward" and call not in scaled for call in calls)

    def _states(self) -> None:
        """The scaler's state beside the optimizer's; what was saved before holds that of the wrapper."""
        add_states(self.facts, self.found, self._wrapped)
        saved = self._objects_of(
            one for setup in self.found.setups if saves_masters(setup.call) for one in setup.optimizers
        )
        for statement in self._statements:
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Call) and called_name(part) == "load_state_dict":
                    assert isinstance(part.func, cst.Attribute)
                    if self.facts.objects.objects(part.func.value) & saved:
                        message = f"{self.facts.text(part)} meets states that the wrapper saved"
                        self.found.findings.append(self.facts.finding(part, STATE_OF_FP16_OPTIMIZER, message))

    # -- everything else --------------------------------------------------------------------------------

    def _read(self, part: cst.CSTNode, statement: Statement) -> None:
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            if part is statement.node.names or isinstance(part, (cst.ImportAlias, cst.ImportStar)):
                if _imports_apex(statement.node) and statement not in self.found.imports:
                    self.found.imports.append(statement)
            return
        if isinstance(part, cst.Call):
            self._call(part, statement)
        elif isinstance(part, cst.Attribute) and self.facts.tree.call_of(part) is None:
            self._attribute(part, statement)
        if isinstance(part, cst.Name) and self.facts.names.variable_at(part) is None:
            if form_name(self.facts, part) is not None:
                self.found.sites.append(part)  # by a star import

    def _call(self, call: cst.Call, statement: Statement) -> None:
        name = form_name(self.facts, call.func)
        if name in HAND_LOOPS or name in SCALERS:
            raise Refusal(SCALE_BY_HAND, call, f"{self.facts.text(call.func)} keeps master weights by hand")
        if name == "clip_grad_norm" and isinstance(call.func, (cst.Name, cst.Attribute)):
            torch = torch_name(self.facts, self.facts.tree.root_of(call)) or "torch"
            self.found.replaced[call.func] = f"{torch}.nn.utils.clip_grad_norm_"
        elif name == "to_python_float" and len(call.args) == 1:
            self.found.replaced[call] = f"{_atom(self.facts, call.args[0].value)}.item()"
        if is_backward(self.facts, call):
            self._backward(call, statement)
            return
        self._given_elsewhere(call)
        if not isinstance(call.func, cst.Attribute):
            return
        receiver, method = call.func.value, call.func.attr.value
        if method in CLIPS:
            self.found.parameters.append(ParameterAccess(call, receiver, statement, clips=True))
            if not isinstance(statement.node, cst.Expr):
                message = f"{self.facts.text(call)} returned -1 where gradients overflow"
                self.found.findings.append(self.facts.finding(call, CLIP_NORM_READ, message))
        elif method == "update_master_grads" or method in COPIES:
            if not isinstance(statement.node, cst.Expr):
                raise Refusal(UNKNOWN_FP16_USE, call, f"{self.facts.text(call)} is used inside a larger expression")
            self.found.removed.append(statement)
        elif method == "zero_grad" and self._is_wrapped(receiver):
            self._zero_grad(call)
        elif method in _INTERNALS and self._is_wrapped(receiver):
            raise Refusal(UNKNOWN_FP16_USE, call, f"{self.facts.text(call)} reads the inside of the wrapper")

    def _given_elsewhere(self, call: cst.Call) -> None:
        """Code of other files that takes of the wrapper what no optimizer has: it belongs to the unit."""
        elsewhere = self.facts.names.imported_as(call.func) if not self.facts.objects.candidates(call) else []
        for index, arg in enumerate(call.args):
            position = arg.keyword.value if arg.keyword is not None else index
            for dotted in elsewhere if self._is_wrapped(arg.value) else ():
                taken = sorted(taken_of(dotted, position) & _OF_THE_WRAPPER)
                if taken:
                    text = self.facts.text(call.func)
                    message = f"{text} of another file takes {taken[0]} of the wrapper"
                    raise Refusal(UNKNOWN_FP16_USE, call, message, (dotted,))

    def _backward(self, call: cst.Call, statement: Statement) -> None:
        assert isinstance(call.func, cst.Attribute)
        if not isinstance(statement.node, cst.Expr):
            raise Refusal(UNKNOWN_FP16_USE, call, f"{self.facts.text(call)} is used inside a larger expression")
        arguments = []
        for index, arg in enumerate(call.args[1:], start=1):
            name = arg.keyword.value if arg.keyword is not None else ("", "update_master_grads", "retain_graph")[index]
            if not name.startswith("update_"):
                keyword = cst.Name(name) if arg.keyword is None else arg.keyword
                arguments.append(cst.Arg(arg.value, keyword=keyword, equal=_NO_SPACES))
        self.found.backwards.append(
            Backward(statement, call, call.args[0].value, [call.func.value], arguments=arguments)
        )

    def _zero_grad(self, call: cst.Call) -> None:
        for arg in call.args:
            assert isinstance(call.func, cst.Attribute)
            if arg.keyword is None or arg.keyword.value == "set_grads_to_None":
                text = f"{self.facts.text(call.func)}(set_to_none={self.facts.text(arg.value)})"
                self.found.replaced[call] = text

    def _attribute(self, node: cst.Attribute, statement: Statement) -> None:
        name = node.attr.value
        if name in _KEPT_AS_THEY_ARE or not self._is_wrapped(node.value):
            return
        if name == "optimizer":
            self.found.replaced[node] = self.facts.text(node.value)
        elif name == "loss_scale":
            parent = self.facts.tree.parents.get(node)
            if isinstance(parent, (cst.AssignTarget, cst.AugAssign)):
                self._initial_scale(node, statement)
            else:
                self.found.scale_reads.append(ScaleAccess(node, statement))
        elif name == "overflow" and not isinstance(self.facts.tree.parents.get(node), cst.AssignTarget):
            self.found.skip_reads.append(SkipRead(node, statement, node.value))
        elif name in _INTERNALS:
            raise Refusal(UNKNOWN_FP16_USE, node, f"{self.facts.text(node)} reads the inside of the wrapper")

    def _initial_scale(self, node: cst.Attribute, statement: Statement) -> None:
        """A scale that is set before the training is the initial one."""
        before = [setup for setup in self.found.setups if setup.statement.block is statement.block]
        if not isinstance(statement.node, cst.Assign) or not before or len(self.found.setups) != 1:
            raise Refusal(SCALE_BY_HAND, node, "the loss scale is set away from where the optimizer is wrapped")
        setup = before[0]
        value = literal_value(statement.node.value)
        if setup.loss_scale.static is not None and isinstance(value, (int, float)):
            setup.loss_scale = dataclasses.replace(setup.loss_scale, static=float(value))
        elif setup.loss_scale.static is None and setup.loss_scale.runtime is None:
            setup.loss_scale = dataclasses.replace(setup.loss_scale, initial=statement.node.value)
        else:
            raise Refusal(SCALE_BY_HAND, node, "the loss scale is set to what is known at run time only")
        self.found.removed.append(statement)

    def _is_wrapped(self, node: cst.BaseExpression) -> bool:
        return bool(self.facts.objects.objects(node) & self._wrapped)


_NO_SPACES = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _atom(facts: Facts, node: cst.BaseExpression) -> str:
    text = facts.text(node)
    return text if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) else f"({text})"


def _imports_apex(node: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(node, cst.ImportFrom):
        return node.module is not None and not node.relative and dotted_text(node.module).split(".")[0] == "apex"
    return any(dotted_text(alias.name).split(".")[0] == "apex" for alias in node.names)
