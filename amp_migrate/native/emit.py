"""The back end: a TrainingPlan becomes edits that write native autocast and GradScaler."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import is_backward_of_torch
from amp_migrate.native.creations import CreationWriter
from amp_migrate.native.edits import Edits, Wrap
from amp_migrate.native.nodes import alone, named_in
from amp_migrate.native.parameters import ParameterWriter
from amp_migrate.native.repairs import RepairWriter
from amp_migrate.native.signatures import add_arguments, add_parameters
from amp_migrate.native.skips import write_skip
from amp_migrate.native.spelling import Spellings
from amp_migrate.native.states import StateWriter
from amp_migrate.native.step_calls import StepWriter
from amp_migrate.native.writer import Writer
from amp_migrate.plain_attributes import bare
from amp_migrate.plan.model import Backward, ScaledBlock, Setup
from amp_migrate.plan.shared_backwards import SharedBackward
from amp_migrate.plan.training_plan import AutocastRegion, TrainingPlan


def _hoisted(backward: Backward) -> tuple[str, cst.BaseExpression]:
    """The name and the value of a loss that is computed before its backward: those of `(loss := f(x)).backward()`."""
    name, value = named_in(backward.loss)
    return name or "loss", value


def emit(facts: Facts, plans: list[TrainingPlan], spellings: Spellings) -> Edits:
    """Every edit that the plans ask for, in the spelling of each file."""
    edits = Edits()
    for plan in plans:
        _Emitter(facts, plan, spellings, edits).emit()
    return edits


class _Emitter(Writer):
    def __init__(self, facts: Facts, plan: TrainingPlan, spellings: Spellings, edits: Edits) -> None:
        super().__init__(facts, plan, spellings, edits)
        self.creations = CreationWriter(facts, plan, spellings, edits)
        self.step_calls = StepWriter(facts, plan, spellings, edits)
        self.parameters = ParameterWriter(facts, plan, spellings, edits)
        self.states = StateWriter(facts, plan, spellings, edits)
        self.repairs = RepairWriter(facts, spellings, edits)
        self._hoisted = {region.region.hoisted for region in plan.regions} - {None}

    def emit(self) -> None:
        for setup in self.plan.found.setups:
            self._setup(setup)
        for scaler in self.plan.scalers:
            self.creations.write(scaler)
            add_parameters(scaler, self.spellings, self.edits)
            add_arguments(scaler, self.edits)
        shared = self.plan.shared_backwards
        gone = {backward for one in shared for backward in (one.first, one.other)}
        for backward in self.plan.found.backwards:
            if backward not in gone:
                self._backward(backward)
        for one in shared:
            self._shared_backward(one)
        for collapse in self.plan.collapses:
            if isinstance(collapse.node, cst.If):
                self.edits.keep_arm(collapse.node, collapse.arm, stands_for_both=True)
        self.parameters.write()
        if self.spellings.uses_scaler:
            self.step_calls.write()
            self.states.write()
            self._skips()
        else:
            self.states.drop()
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
        self._binary_cross_entropies()
        self._logits()
        self.repairs.write(self.plan.safety)
        for statement in self.plan.found.removed:
            self.edits.remove(statement)

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

    # -- the step ---------------------------------------------------------------------------------------

    def _backward(self, backward: Backward) -> None:
        """`with amp.scale_loss(loss, opt) as scaled: scaled.backward()` -> `scaler.scale(loss).backward()`"""
        loss = _hoisted(backward)[0] if backward in self._hoisted else self.facts.text(bare(backward.loss))
        scaled = self._scaled(loss, backward)
        block = backward.block
        if block is None and is_backward_of_torch(self.facts, backward.call):
            self.edits.replace(backward.loss, scaled)
            return
        if block is None:
            arguments = ", ".join(self.facts.text(alone(arg)) for arg in backward.arguments)
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

    def _shared_backward(self, shared: SharedBackward) -> None:
        """What both arms of an `if` begin with, written once before it."""
        first = shared.first
        assert first.block is not None
        call = self.facts.text(first.statement.blocks[0].statements[0].node).removeprefix(first.block.scaled)
        self.edits.pull_before(shared.holder, f"{self._scaled(self.facts.text(bare(first.loss)), first)}{call}")
        for backward in (first, shared.other):
            self.edits.remove(backward.statement)

    def _scaled(self, loss: str, backward: Backward) -> str:
        if self.spellings.uses_scaler:
            return f"{self.scaler(backward.statement.function)}.scale({loss})"
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

    # -- tests, losses ----------------------------------------------------------------------------------

    def _skips(self) -> None:
        steps = [skip.step for skip in self.plan.skips]
        for index, skip in enumerate(self.plan.skips):
            scaler = self.scaler(skip.step.function)
            write_skip(self.facts, skip, scaler, self.edits, is_first=skip.step not in steps[:index])

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
            name, value = _hoisted(region.hoisted)
            tail = f"{name} = {self.facts.text(value)}"
        if region.only_hoisted:
            self.edits.insert_before(region.first, f"with {autocast}:\n    {tail}")
            return
        owner = region.block.owner
        whole = len(region.block.statements) == len(region.statements())
        if whole and tail is None and owner is not None and isinstance(owner.node, cst.With) and found.evaluation:
            self.edits.transform(owner.node, lambda updated: _with_item(updated, autocast))
            return
        self.edits.wraps.append(Wrap(region.first, region.last, f"with {autocast}", tail))


def _is_discard(target: cst.BaseExpression) -> bool:
    return isinstance(target, cst.Name) and target.value == "_"


def _without_item(node: cst.CSTNode, index: int) -> cst.CSTNode:
    assert isinstance(node, cst.With)
    items = [item for number, item in enumerate(node.items) if number != index]
    items[-1] = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(items=items)


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
