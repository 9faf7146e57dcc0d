"""The back end: a TrainingPlan becomes edits that write native autocast and GradScaler."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated, source_key
from amp_migrate.facts.tree import Function, walk
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.native.edits import Edits, Wrap
from amp_migrate.native.repairs import RepairWriter
from amp_migrate.native.signatures import add_arguments, add_parameters
from amp_migrate.native.skips import write_skip
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.model import Backward, FormatTest, ParameterAccess, ScaledBlock, Setup
from amp_migrate.plan.scaler.binding import Creation
from amp_migrate.plan.training_plan import AutocastRegion, Scaler, TrainingPlan

_Item = TypeVar("_Item", bound=cst.CSTNode)

_LONG = 100


def emit(facts: Facts, plans: list[TrainingPlan], spellings: Spellings) -> Edits:
    """Every edit that the plans ask for, in the spelling of each file."""
    edits = Edits()
    for plan in plans:
        _Emitter(facts, plan, spellings, edits).emit()
    return edits


class _Emitter:
    def __init__(self, facts: Facts, plan: TrainingPlan, spellings: Spellings, edits: Edits) -> None:
        self.facts = facts
        self.plan = plan
        self.spellings = spellings
        self.edits = edits
        self.repairs = RepairWriter(facts, spellings, edits)
        self._hoisted = {region.region.hoisted for region in plan.regions} - {None}

    def emit(self) -> None:
        for setup in self.plan.found.setups:
            self._setup(setup)
        for scaler in self.plan.scalers:
            self._create(scaler)
            add_parameters(scaler, self.spellings, self.edits)
            add_arguments(scaler, self.edits)
        for backward in self.plan.found.backwards:
            self._backward(backward)
        for collapse in self.plan.collapses:
            if isinstance(collapse.node, cst.If):
                self.edits.keep_arm(collapse.node, collapse.arm, stands_for_both=True)
        self._parameters()
        if self.spellings.uses_scaler:
            self._steps()
            self._micro_uses()
            self._checkpoints()
            self._added_states()
            self._skips()
        else:
            self._drop_checkpoints()
        for test in self.plan.carrier_tests:
            self._carrier_test(test)
        for node, text in self.plan.found.replaced.items():
            self.edits.replace(node, text)
        for node in self.plan.found.absent:
            self.edits.replace(node, "None")
        for call in self.plan.found.no_casts:
            self.edits.replace(call, self.spellings.at(call).autocast("False"))
        self.repairs.cast_functions(self.plan.found.casts)
        for operand in self.plan.found.floats:
            self.repairs.float(operand)
        for region in self.plan.regions:
            self._region(region)
        for name in self.plan.floats:
            self.edits.replace(name, f"{name.value}.float()")
        self._binary_cross_entropies()
        self._logits()
        self.repairs.write(self.plan.safety)
        for statement in self.plan.found.removed:
            self.edits.remove(statement)

    def _scaler(self, function: Function) -> str:
        scaler = self.plan.scaler_for(function)
        expression = scaler.expression(function) if scaler is not None else None
        assert expression is not None, f"no scaler in {function.name}"
        return expression

    # -- setup ------------------------------------------------------------------------------------------

    def _setup(self, setup: Setup) -> None:
        """`amp.initialize` goes; what remains are aliases for objects under other names."""
        statement = setup.statement
        if setup.stays:
            return
        if isinstance(statement.node, cst.Return):
            self.edits.replace(setup.call, self._returned(setup))
            return
        self.edits.remove(statement)
        plain = [(target, value) for target, value in setup.aliases if not _is_discard(target)]
        for target, value in setup.aliases:
            if _is_discard(target):
                self.edits.insert_after(statement, self.facts.text(value))
        if plain:
            targets = ", ".join(self.facts.text(target) for target, _ in plain)
            values = ", ".join(self.facts.text(value) for _, value in plain)
            self.edits.insert_after(statement, f"{targets} = {values}")

    def _returned(self, setup: Setup) -> str:
        given: dict[str, cst.BaseExpression | None] = {"models": None, "optimizers": None}
        for name, arg in zip(given, setup.call.args, strict=False):
            if arg.keyword is None:
                given[name] = arg.value
        for arg in setup.call.args:
            if arg.keyword is not None and arg.keyword.value in given:
                given[arg.keyword.value] = arg.value
        return ", ".join(self.facts.text(node) for node in given.values() if node is not None)

    def _create(self, scaler: Scaler) -> None:
        """The scaler, and beside it the values that it is made of."""
        for creation in scaler.binding.creations:
            self._create_at(scaler, creation)
        for statement, carrier in scaler.binding.absent:
            disabled = self.spellings.at(statement.node).grad_scaler("False")
            self.edits.insert_after(statement, f"{carrier.text(scaler.name)} = {disabled}")
        for statement, carrier in scaler.binding.taken_up:
            for name in scaler.names:
                self.edits.insert_after(statement, f"{carrier.text(name)} = {name}")

    def _create_at(self, scaler: Scaler, creation: Creation) -> None:
        lines = [_wrapped(f"{name} = {value}") for name, value in self._creations(scaler, creation)]
        for line in lines:
            if creation.before:
                self.edits.insert_before(creation.at, line)
            else:
                self.edits.insert_after(creation.at, line)

    def _creations(self, scaler: Scaler, creation: Creation) -> Iterator[tuple[str | None, str]]:
        function = creation.function
        enabled, init_scale = scaler.enabled, None
        scale = scaler.loss_scale
        if scaler.is_flag:
            yield scaler.expression(function), enabled or "True"
            return
        if scaler.flag_name is not None:
            flag = scaler.is_on(function)
            yield flag, enabled or "True"
            enabled = flag
        if scale.static == 1.0:
            enabled = "False"
        elif scale.static is not None:
            init_scale = _number(scale.static)
        elif scale.runtime is not None:
            name = scaler.binding.expression(function, scaler.scale_name or "")
            text = self.facts.text(scale.runtime)
            is_atom = isinstance(scale.runtime, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
            asked = text if is_atom else f"({text})"
            quote = self.facts.quote(creation.at.node)
            dynamic = f"{asked} in (None, {quote}dynamic{quote})" if not scale.is_number else None
            if scale.dynamic_when is not None:
                dynamic = self.facts.text(scale.dynamic_when)
            if enabled is not None and dynamic is not None and _may_raise(scale.runtime):
                # It was only ever looked up under the guard.
                off = self.facts.text(negated(cst.parse_expression(enabled)))
                dynamic = f"{off} or {dynamic}"
            number = text if isinstance(scale.runtime, cst.Float) else f"float({text})"
            yield name, number if dynamic is None else f"None if {dynamic} else {number}"
            first = "2.**16" if scale.initial is None else self.facts.text(scale.initial)
            init_scale = name if dynamic is None else f"{name} or {first}"
            enabled = f"{name} != 1.0" if enabled is None else f"{enabled} and {name} != 1.0"
        elif scale.initial is not None:
            init_scale = self.facts.text(scale.initial)
        elif scale.maximum is not None and _is_below_default(scale.maximum):
            init_scale = _float_text(self.facts, scale.maximum)
        if scale.used_when is not None:
            used = self.facts.text(scale.used_when)
            enabled = used if enabled is None else f"{enabled} and {used}"
        interval = self.facts.text(scale.growth_interval) if scale.growth_interval is not None else None
        factor = self.facts.text(scale.growth_factor) if scale.growth_factor is not None else None
        spelling = self.spellings.at(creation.at.node)
        yield scaler.expression(function), spelling.grad_scaler(enabled, init_scale, factor, interval)

    # -- the step ---------------------------------------------------------------------------------------

    def _backward(self, backward: Backward) -> None:
        """`with amp.scale_loss(loss, opt) as scaled: scaled.backward()` -> `scaler.scale(loss).backward()`"""
        loss = "loss" if backward in self._hoisted else self.facts.text(_bare(backward.loss))
        scaled = self._scaled(loss, backward)
        block = backward.block
        if block is None:
            arguments = ", ".join(self.facts.text(_alone(arg)) for arg in backward.arguments)
            self.edits.replace(backward.call, f"{scaled}.backward({arguments})")
            return
        first = []
        if self._is_read_once(block):
            self.edits.replace(block.uses[0], scaled)
        else:
            first = [f"{block.scaled} = {scaled}"]
        node = backward.statement.node
        assert isinstance(node, cst.With)
        if len(node.items) == 1:
            self.edits.unwrap(backward.statement, first)
        else:
            for line in first:
                self.edits.insert_before(backward.statement, line)
            self.edits.transform(node, lambda updated: _without_item(updated, node.items.index(block.item)))

    def _scaled(self, loss: str, backward: Backward) -> str:
        if self.spellings.uses_scaler:
            return f"{self._scaler(backward.statement.function)}.scale({loss})"
        simple = backward in self._hoisted or isinstance(
            backward.loss, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)
        )
        return loss if simple else f"({loss})"

    def _is_read_once(self, block: ScaledBlock) -> bool:
        """True where the scaled loss is only used to call its backward."""
        if len(block.uses) != 1:
            return False
        variable = self.facts.names.variable_at(block.uses[0])
        assert variable is not None
        blocks = [
            other.statement
            for other in self.plan.found.backwards
            if other.block is not None and other.block.scaled == block.scaled
        ]
        return all(any(self.facts.tree.statement_of(load).inside(block) for block in blocks) for load in variable.loads)

    def _steps(self) -> None:
        for step in self.plan.steps.steps:
            scaler = self._scaler(step.statement.function)
            self.edits.replace(step.call, f"{scaler}.step({self.facts.text(step.optimizer)})")
        for unscale in self.plan.steps.unscales:
            scaler = self._scaler(unscale.before.function)
            line = f"{scaler}.unscale_({self.facts.text(unscale.optimizer)})"
            if unscale.loop is not None:
                target, source = self.facts.text(unscale.loop.target), self.facts.text(unscale.loop.iter)
                line = f"for {target} in {source}:\n    {line}"
            if unscale.condition is not None:
                line = f"if {self.facts.text(unscale.condition)}:\n{textwrap.indent(line, '    ')}"
            self.edits.insert_before(unscale.before, line)
        for update in self.plan.steps.updates:
            for line in self._update_lines(update.at.function):
                if update.before:
                    self.edits.insert_before(update.at, line)
                else:
                    self.edits.insert_after(update.at, line)

    def _update_lines(self, function: Function) -> list[str]:
        """update(), with the value that a static scale is to keep, and clamped where the source bounds it."""
        scaler = self.plan.scaler_for(function)
        assert scaler is not None
        text = self._scaler(function)
        scale = scaler.loss_scale
        if scale.static not in (None, 1.0):
            assert scale.static is not None
            return [f"{text}.update({_number(scale.static)})"]
        if scale.runtime is not None:
            return [f"{text}.update({scaler.binding.expression(function, scaler.scale_name or '')})"]
        lines = [f"{text}.update()"]
        for bound, sign in ((scale.minimum, "<"), (scale.maximum, ">")):
            if bound is not None:
                value = _float_text(self.facts, bound)
                given = "" if literal_value(bound) is not UNKNOWN else f"{self.facts.text(bound)} and "  # may be None
                lines.append(f"if {given}{text}.get_scale() {sign} {value}:\n    {text}.update({value})")
        return lines

    def _micro_uses(self) -> None:
        """Clips and norms of gradients that stay scaled until the step (rule D2)."""
        for use in self.plan.steps.micro_uses:
            assert use.call is not None
            scale = f"{self._scaler(use.statement.function)}.get_scale()"
            if use.kind == "clip":
                self._scale_threshold(use.call, scale)
            if not (isinstance(use.statement.node, cst.Expr) and use.statement.node.value is use.call):
                self.edits.transform(use.call, lambda updated, scale=scale: _divided(updated, scale))  # type: ignore[misc]

    def _scale_threshold(self, call: cst.Call, scale: str) -> None:
        for index, arg in enumerate(call.args):
            named = arg.keyword is not None and arg.keyword.value in ("max_norm", "clip_value")
            if named or (arg.keyword is None and index == 1):
                text = self.facts.text(arg.value)
                loose = not isinstance(arg.value, (cst.Name, cst.Attribute, cst.Subscript, cst.BaseNumber, cst.Call))
                self.edits.replace(arg.value, f"({text}) * {scale}" if loose else f"{text} * {scale}")

    # -- parameters, checkpoints, tests -----------------------------------------------------------------

    def _parameters(self) -> None:
        kept = {collapse.node: collapse for collapse in self.plan.collapses}
        for access in self.plan.found.parameters:
            text = self._parameters_text(access)
            if access.clips:
                torch = self.spellings.at(access.node).torch
                arguments = ", ".join([text, *(self.facts.text(_alone(arg)) for arg in access.node.args)])
                self.edits.replace(access.node, f"{torch}.nn.utils.clip_grad_norm_({arguments})")
                continue
            parent = self.facts.tree.parents.get(access.node)
            node = parent if parent in kept else access.node
            assert node is not None
            self.edits.replace(node, text)
            if text.startswith("(") and self._is_only_argument(node):
                self.edits.transform(node, lambda new: new.with_changes(lpar=[], rpar=[]))

    def _parameters_text(self, access: ParameterAccess) -> str:
        function = access.statement.function
        text = access.replacement
        if text is None:
            models = self.plan.parameters.models_of_optimizer(access.optimizer)
            text = self.plan.parameters.visible_expression(models, function) if models is not None else None
        optimizer = self.facts.text(access.optimizer)
        quote = self.facts.quote(access.node)
        generator = f"p for group in {optimizer}.param_groups for p in group[{quote}params{quote}]"
        if self._is_bound_to_name(access):
            return f"list({text})" if text is not None else f"[{generator}]"
        if text is not None:
            return text
        return f"({generator})"

    def _is_only_argument(self, node: cst.CSTNode) -> bool:
        """True in `list(...)`, where a generator needs no parentheses of its own."""
        argument = self.facts.tree.parents.get(node)
        if not isinstance(argument, cst.Arg) or argument.keyword is not None:
            return False
        call = self.facts.tree.parents.get(argument)
        return isinstance(call, cst.Call) and len(call.args) == 1

    def _is_bound_to_name(self, access: ParameterAccess) -> bool:
        if access.clips:
            return False
        node = self.facts.tree.parents.get(access.node)
        return isinstance(node, cst.Assign) or (
            isinstance(node, cst.IfExp) and isinstance(self.facts.tree.parents.get(node), cst.Assign)
        )

    def _checkpoints(self) -> None:
        found = self.plan.found
        for access in found.saves:
            self.edits.replace(access.node, f"{self._scaler(access.statement.function)}.state_dict()")
        for access in found.loads:
            assert access.state is not None
            scaler = self._scaler(access.statement.function)
            self.edits.replace(access.node, f"{scaler}.load_state_dict({self.facts.text(access.state)})")
            if access.format_test is not None:
                self._format_test(access.format_test, access.state)
        for read in found.scale_reads:
            self.edits.replace(read.node, f"{self._scaler(read.statement.function)}.get_scale()")
        for one in found.handed:
            self.edits.replace(one.node, self._scaler(one.statement.function))
        for node in found.received:
            self.edits.replace(node, self._scaler(self.facts.tree.function_of(node)))

    def _skips(self) -> None:
        steps = [skip.step for skip in self.plan.skips]
        for index, skip in enumerate(self.plan.skips):
            scaler = self._scaler(skip.step.function)
            write_skip(self.facts, skip, scaler, self.edits, is_first=skip.step not in steps[:index])

    def _added_states(self) -> None:
        """The scaler's state beside the optimizer's, and a load that old checkpoints pass by (rule F)."""
        for one in self.plan.found.added:
            scaler = self._scaler(one.statement.function)
            quote = self.facts.quote(one.statement.node)
            state = f"{scaler}.state_dict()"
            if one.checkpoint is not None:
                checkpoint = self.facts.text(one.checkpoint)
                load = f"{scaler}.load_state_dict({checkpoint}[{quote}{one.key}{quote}])"
                line = f"if {checkpoint}.get({quote}{one.key}{quote}):\n    {load}"
                self.edits.insert_after(one.statement, line)
            elif isinstance(one.saved_in, cst.Assign):
                target = one.saved_in.targets[0].target
                assert isinstance(target, cst.Subscript)
                holder = self.facts.text(target.value)
                self.edits.insert_after(one.statement, f"{holder}[{quote}{one.key}{quote}] = {state}")
            elif isinstance(one.saved_in, cst.DictElement):
                self._add_entry(one.saved_in, one.key, state)
            else:
                assert one.saved_in is not None
                self._add_keyword(one.saved_in, one.key, state)

    def _add_entry(self, element: cst.DictElement, key: str, state: str) -> None:
        """An entry after another one, in its style: its quotes, and its spaces around the colon."""
        assert isinstance(element.key, cst.SimpleString)
        quote = element.key.quote
        whole = self.facts.tree.parents[element]
        assert isinstance(whole, cst.Dict)
        index = whole.elements.index(element)
        added = element.with_changes(key=cst.SimpleString(f"{quote}{key}{quote}"), value=cst.parse_expression(state))
        self.edits.transform(whole, lambda node: _with_element(node, index, added))

    def _add_keyword(self, arg: cst.Arg, key: str, state: str) -> None:
        whole = self.facts.tree.parents[arg]
        assert isinstance(whole, cst.Call)
        index = whole.args.index(arg)
        added = arg.with_changes(keyword=cst.Name(key), value=cst.parse_expression(state))
        self.edits.transform(whole, lambda node: _with_arg(node, index, added))

    def _format_test(self, test: FormatTest, state: cst.BaseExpression) -> None:
        """A state that apex wrote counts as none: GradScaler cannot load it. It is asked about last: where the other
        tests are false, there may be None in its place.
        """
        quote = self.facts.quote(test.node)
        written, loaded = self.facts.text(test.node), self.facts.text(state)
        if test.says_missing:
            self.edits.replace(test.node, f"{written} or {quote}scale{quote} not in {loaded}")
            return
        there = f"{quote}scale{quote} in {loaded}"
        whole = self._whole_conjunction(test.node)
        if whole is test.node:
            text = f"{written} and {there}"
            self.edits.replace(test.node, f"({text})" if test.is_negated else text)
        else:
            self.edits.transform(whole, lambda updated: _and(updated, there))

    def _whole_conjunction(self, part: cst.BaseExpression) -> cst.BaseExpression:
        """`a and b and c`, for one of its parts."""
        parent = self.facts.tree.parents.get(part)
        while isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.And):
            part, parent = parent, self.facts.tree.parents.get(parent)
        return part

    def _drop_checkpoints(self) -> None:
        """Without a scaler there is no state to save: the entries go."""
        found = self.plan.found
        for access in found.saves:
            element = self.facts.tree.parents.get(access.node)
            if isinstance(access.statement.node, cst.Assign) and access.statement.node.value is access.node:
                self.edits.remove(access.statement)
            elif isinstance(element, cst.DictElement):
                whole = self.facts.tree.parents[element]
                self.edits.transform(whole, lambda node, key=element.key: _without_key(node, key))  # type: ignore[misc]
            else:
                self.edits.replace(access.node, "None")
        for access in found.loads:
            self.edits.remove(access.statement)
        for read in found.scale_reads:
            self.edits.replace(read.node, "1.0")
        for skip in self.plan.skips:
            self.edits.replace(skip.node, "True" if skip.taken else "False")

    def _carrier_test(self, test: cst.BaseExpression) -> None:
        function = self.facts.tree.function_of(test)
        scaler = self.plan.scaler_for(function)
        text = scaler.is_on(function) if scaler is not None else None
        assert text is not None, f"no scaler in {function.name}"
        parent = self.facts.tree.parents.get(test)
        if isinstance(parent, cst.Comparison):
            is_none = isinstance(parent.comparisons[0].operator, (cst.Is, cst.Equal))
            self.edits.replace(parent, f"not {text}" if is_none else text)
        else:
            self.edits.replace(test, text)

    def _binary_cross_entropies(self) -> None:
        """Inputs in float32, and an island without autocast where the region goes on (rule E4)."""
        for site in self.plan.bce:
            for node in site.floats:
                self.repairs.float(node)
            if site.island is not None:
                self.repairs.island(site.island)

    def _logits(self) -> None:
        """A sigmoid leaves its container, and the loss takes what it was given (rule E4)."""
        logits = self.plan.logits
        for sigmoid in logits.sigmoids:
            container = self.facts.tree.parents[self.facts.tree.parents[sigmoid]]
            self.edits.transform(container, _without_last)
        for criterion in logits.criteria:
            self.edits.replace(criterion.func, self.facts.text(criterion.func).replace("BCELoss", "BCEWithLogitsLoss"))
        for name in logits.probabilities:
            self.edits.replace(name, f"{name.value}.sigmoid()")

    # -- regions ----------------------------------------------------------------------------------------

    def _region(self, found: AutocastRegion) -> None:
        region = found.region
        autocast = self.spellings.at(region.first.node).autocast(found.enabled, cached=found.cached)
        tail = None
        if region.hoisted is not None:
            tail = f"loss = {self.facts.text(region.hoisted.loss)}"
        if region.only_hoisted:
            self.edits.insert_before(region.first, f"with {autocast}:\n    {tail}")
            return
        owner = region.block.owner
        whole = len(region.block.statements) == len(region.statements())
        if whole and tail is None and owner is not None and isinstance(owner.node, cst.With) and found.evaluation:
            self.edits.transform(owner.node, lambda updated: _with_item(updated, autocast))
            return
        self.edits.wraps.append(Wrap(region.first, region.last, f"with {autocast}", tail))


def _may_raise(node: cst.BaseExpression) -> bool:
    """True for expressions that need not exist where mixed precision is off: `params["amp"]["loss_scale"]`."""
    return any(isinstance(part, (cst.Subscript, cst.Call)) for part in walk(node))


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without parentheses around the whole of it: `a + b` of `(a + b).backward()`."""
    return node.with_changes(lpar=[], rpar=[]) if node.lpar and not isinstance(node, cst.Tuple) else node


def _alone(arg: cst.Arg) -> cst.Arg:
    """An argument without the comma and the line break after it."""
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))


def _is_discard(target: cst.BaseExpression) -> bool:
    return isinstance(target, cst.Name) and target.value == "_"


def _without_item(node: cst.CSTNode, index: int) -> cst.CSTNode:
    assert isinstance(node, cst.With)
    items = [item for number, item in enumerate(node.items) if number != index]
    items[-1] = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(items=items)


def _without_key(node: cst.CSTNode, key: cst.BaseExpression) -> cst.CSTNode:
    """A dict display with one entry gone."""
    assert isinstance(node, cst.Dict)
    wanted = source_key(key)
    kept = [e for e in node.elements if not isinstance(e, cst.DictElement) or source_key(e.key) != wanted]
    if kept and node.elements[-1] not in kept:
        kept[-1] = kept[-1].with_changes(comma=node.elements[-1].comma)
    return node.with_changes(elements=kept)


def _with_element(node: cst.CSTNode, index: int, added: cst.DictElement) -> cst.CSTNode:
    assert isinstance(node, cst.Dict)
    return node.with_changes(elements=_inserted(node.elements, index, added))


def _with_arg(node: cst.CSTNode, index: int, added: cst.Arg) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    return node.with_changes(args=_inserted(node.args, index, added))


def _inserted(items: Sequence[_Item], index: int, added: _Item) -> list[_Item]:
    """A list with one more item after `index`; commas as between the items before, the last one's as it was."""
    before: Any = items[index]
    if index + 1 < len(items):
        added = added.with_changes(comma=before.comma)
        return [*items[: index + 1], added, *items[index + 1 :]]
    previous: Any = items[index - 1]
    between = previous.comma if index else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*items[:index], before.with_changes(comma=between), added.with_changes(comma=before.comma)]


def _without_last(node: cst.CSTNode) -> cst.CSTNode:
    """A call without its last argument: what stood behind that one stands behind the one before."""
    assert isinstance(node, cst.Call)
    *kept, before, last = node.args
    before = before.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return node.with_changes(args=[*kept, before])


def _with_item(node: cst.CSTNode, text: str) -> cst.CSTNode:
    assert isinstance(node, cst.With)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = node.items[-1].with_changes(comma=comma)
    return node.with_changes(items=[*node.items[:-1], last, cst.WithItem(cst.parse_expression(text))])


def _and(node: cst.CSTNode, text: str) -> cst.CSTNode:
    assert isinstance(node, cst.BaseExpression)
    return cst.BooleanOperation(node, cst.And(), cst.parse_expression(text))


def _divided(node: cst.CSTNode, by: str) -> cst.CSTNode:
    assert isinstance(node, cst.BaseExpression)
    return cst.BinaryOperation(node, cst.Divide(), cst.parse_expression(by))


def _number(value: float) -> str:
    return repr(float(value))


def _is_below_default(node: cst.BaseExpression) -> bool:
    """Apex starts at the lower of 2**16 and the maximum ([A:apex/amp/scaler.py])."""
    value = literal_value(node)
    return isinstance(value, (int, float)) and value < 2.0**16


def _float_text(facts: Facts, node: cst.BaseExpression) -> str:
    """`scaler.update()` takes floats only."""
    value = literal_value(node)
    if isinstance(value, (int, float)):
        return facts.text(node) if isinstance(value, float) else _number(value)
    return f"float({facts.text(node)})"


def _wrapped(line: str) -> str:
    """An assignment of a call, with a line for each argument where it is long."""
    name, _, value = line.partition(" = ")
    call = cst.parse_expression(value)
    if len(line) <= _LONG or not isinstance(call, cst.Call) or len(call.args) < 4:
        return line
    code = cst.Module([]).code_for_node
    arguments = [code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in call.args]
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name} = {code(call.func)}(\n{inner})"
