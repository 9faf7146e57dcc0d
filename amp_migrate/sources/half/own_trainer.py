"""Classes that train in half by themselves, with a plain arm beside each piece of it.

    if self.use_fp16:                                   the guard, taken as false from now on (rule G3)
        self.masters = make_masters(self.params)        master copies, casts
        self.model.convert_to_fp16()
    ...
    if self.use_fp16:
        (loss * 2 ** self.lg_loss_scale).backward()     a loss scale that the class moves by itself
    else:
        loss.backward()

Every arm that holds a piece of the form goes, with the functions that only such arms use. What the arms have in
common, and what the plain one does, is the specification; the loss scale becomes the settings of a GradScaler.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, negated, negation, source_key
from amp_migrate.facts.tree import Block, Function, Statement, called_name, walk
from amp_migrate.findings import Finding, Refusal
from amp_migrate.native.lower import STEPPED
from amp_migrate.plan.model import Guard, Lowering
from amp_migrate.plan.purity import only_says
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.fp16_utils import ARMS_DIFFERED, OVERFLOW_SKIPPED
from amp_migrate.rules.half import OWN_SCALE, STATE_OF_HALF_RUN
from amp_migrate.rules.scaler import GUARDS_DIFFER
from amp_migrate.sources.half.helpers import all_below, without_use
from amp_migrate.sources.half.own_models import follow_weights
from amp_migrate.sources.half.own_scale import OwnScale, ScaledLoss, scaled_losses
from amp_migrate.vocabulary import GRADIENT_CLIPS, HALF_TYPES

_OF_HALF = re.compile(
    r"half|fp16|float16|f16|masters|master_?(?:params|parameters|grads|gradients|weights|copies)|flatten_dense|unflatten"
    r"|loss_scale",
    re.IGNORECASE,
)
_CASTS = re.compile(r"half|fp?16|float16", re.IGNORECASE)
_TRAINING = GRADIENT_CLIPS | frozenset("step clip_grad_norm clip_master_grads".split())


class OwnTrainer:
    """The lowering of the trainings of a unit that do everything by hand."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.losses = list(scaled_losses(facts))
        self.lowering = Lowering()
        self.findings: list[Finding] = []
        self.sites: list[cst.CSTNode] = [loss.call for loss in self.losses]
        self._folded: list[tuple[Statement, Block]] = []
        self._chosen: list[cst.BaseExpression] = []
        self._dead: set[Statement] = set()

    @property
    def is_found(self) -> bool:
        return bool(self.losses)

    def lower(self) -> None:
        """Raises Refusal where the arms in half cannot be told from the plain ones, or hold more than the form."""
        off = self._off()
        for statement in self.facts.tree.all_statements():
            if not _is_of_module(statement.function):
                self._fold(statement, off)
        dead = [one for _, block in self._folded for one in block.statements]
        self._dead = {inner for one in dead for inner in all_below(self.facts, one)}
        gone = {part for choice in self._chosen for part in walk(choice)}
        unused = without_use(self.facts, gone, dead, self._is_of_model)
        self._dead |= {inner for one in unused for inner in all_below(self.facts, one)}
        self.lowering.removed += unused
        self._check_rest(gone)
        self.sites += follow_weights(self.facts, self._converting(), self.lowering)
        self._scale()
        self._mark()
        self._results()
        self._note_differences()

    def _is_of_model(self, statement: Statement) -> bool:
        """True for a method of a model: inference may use it (`model.convert_to_fp16()`)."""
        function = self.facts.tree.function_at.get(statement.node)
        return function is not None and _is_of_module(function)

    # -- the guard --------------------------------------------------------------------------------------

    def _off(self) -> Formula:
        """The program in which nothing is in half. Raises Refusal where the losses do not agree on the guard."""
        guards: list[Guard] = []
        for loss in self.losses:
            guard = self._guard(loss)
            if guard is None:
                text = self.facts.text(loss.call)
                message = f"{text} has no plain arm beside it, which would say what the training is without half"
                raise Refusal(OWN_SCALE, loss.call, message)
            guards.append(guard)
        for guard in guards[1:]:
            if not self.facts.conditions.equivalent(guards[0].formula, guard.formula):
                raise Refusal(GUARDS_DIFFER, guard.test, "the losses are scaled under conditions that differ")
        return negation(guards[0].formula)

    def _guard(self, loss: ScaledLoss) -> Guard | None:
        """The `if` with the scaled loss in one arm and a plain backward in the other."""
        for guard in enclosing_guards(self.facts, loss.statement):
            others = [block for block in guard.statement.blocks if block.arm != guard.arm]
            inner = [one for block in others for top in block.statements for one in top.descendants()]
            calls = [part for one in inner for part in self.facts.tree.expressions(one)]
            if any(isinstance(part, cst.Call) and called_name(part) == "backward" for part in calls):
                return guard
        return None

    # -- what goes --------------------------------------------------------------------------------------

    def _fold(self, statement: Statement, off: Formula) -> None:
        node = statement.node
        if isinstance(node, cst.If):
            dead = self._dead_arm(node.test, off)
            block = next((one for one in statement.blocks if one.arm == dead), None)
            if block is not None and not self._is_folded(statement) and self._goes(statement, block):
                self._keep_other(statement, node, block)
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.IfExp) and not self._is_folded(statement):
                dead = self._dead_arm(part.test, off)
                arms = {"body": part.body, "else": part.orelse}
                if dead is not None and any(self._speaks_of_half(one) for one in walk(arms.pop(dead))):
                    self._chosen.append(part.body if dead == "body" else part.orelse)
                    self.lowering.replaced[part] = self.facts.text(next(iter(arms.values())))
                    self.sites.append(part)

    def _goes(self, statement: Statement, block: Block) -> bool:
        """True for arms with pieces of the form. In the class that trains, and what it alone calls, there is nothing
        else under the guard but logs: what has no plain arm beside it is told.
        """
        if self._is_of_half(block.statements):
            if len(statement.blocks) == 1 and not self._is_of_trainer(statement.function):
                self._note_others(statement, block)
            return True
        if not self._is_of_trainer(statement.function) or all(only_says(one) for one in block.statements):
            return False
        if len(statement.blocks) == 1:
            self._note_others(statement, block)
        return True

    def _note_others(self, statement: Statement, block: Block) -> None:
        """What goes with an arm, although it is no piece of the form."""
        assert isinstance(statement.node, cst.If)
        if not all(self._is_of_half([one]) or only_says(one) for one in block.statements):
            message = f"what stands under {self.facts.text(statement.node.test)} was done in half only"
            self.findings.append(self.facts.finding(statement.node, ARMS_DIFFERED, message))

    def _is_of_trainer(self, function: Function, seen: frozenset[Function] = frozenset()) -> bool:
        if function.owner is not None:
            root = self.facts.objects.root_class
            return any(root(function.owner) is root(loss.owner) for loss in self.losses)
        callers = [site.caller for site in self.facts.calls.callers(function) if site.caller not in seen]
        return bool(callers) and all(self._is_of_trainer(one, seen | {function}) for one in callers)

    def _is_folded(self, statement: Statement) -> bool:
        return any(statement is not one and statement.inside(one) for one, _ in self._folded)

    def _dead_arm(self, test: cst.BaseExpression, off: Formula) -> str | None:
        answer = self.facts.conditions.settled(test, off)
        return None if answer is None else "else" if answer else "body"

    def _keep_other(self, statement: Statement, node: cst.If, block: Block) -> None:
        if statement.is_elif or isinstance(node.orelse, cst.If):
            raise Refusal(OWN_SCALE, node.test, "the arm in half is one of several")
        self._folded.append((statement, block))
        self.sites.append(node.test)
        if len(statement.blocks) == 2:
            self.lowering.arms[statement] = "else" if block.arm == "body" else "body"
        elif block.arm == "body":
            self.lowering.removed.append(statement)

    def _is_of_half(self, statements: Iterable[Statement]) -> bool:
        """True where some statements, or what they call, do something that only a training in half needs."""
        return any(self._is_piece(inner) for one in statements for inner in self._reached(one))

    def _reached(self, statement: Statement) -> Iterator[Statement]:
        """A statement with all below it, and what the functions do that it calls."""
        seen: set[Function] = set()
        for inner in statement.descendants():
            yield inner
            for site in self.facts.calls.in_statement(inner):
                for function in self.facts.calls.reachable(site.callee):
                    if function not in seen:
                        seen.add(function)
                        for own in function.body.statements:
                            yield from own.descendants()

    def _is_piece(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return False
        if isinstance(node, cst.AugAssign) and any(
            source_key(node.target) == source_key(loss.exponent) for loss in self.losses
        ):
            return True
        return any(self._speaks_of_half(part) for part in self.facts.tree.expressions(statement))

    def _speaks_of_half(self, part: cst.CSTNode) -> bool:
        """True for casts and master copies by their names, for types, and for the scaled losses."""
        if isinstance(part, cst.Call):
            return part in self.sites or _OF_HALF.search(called_name(part)) is not None
        return isinstance(part, cst.Attribute) and self.facts.names.dotted(part) in HALF_TYPES

    # -- what stays -------------------------------------------------------------------------------------

    def _converting(self) -> set[str]:
        """The methods that the arms in half cast a model by."""
        parts = [part for statement in self._dead for part in self.facts.tree.expressions(statement)]
        calls = [part for part in parts if isinstance(part, cst.Call) and not part.args]
        return {called_name(call) for call in calls if _CASTS.search(called_name(call))}

    def _check_rest(self, gone: Collection[cst.CSTNode]) -> None:
        """Raises Refusal for casts of whole models that no arm in half holds: no GradScaler takes half weights."""
        for statement in self.facts.tree.all_statements():
            if statement in self._dead or not self._runs(statement.function):
                continue
            for part in self.facts.tree.expressions(statement):
                if part in gone:
                    continue
                if isinstance(part, cst.Call) and not part.args and _CASTS.search(called_name(part)):
                    text = self.facts.text(part)
                    raise Refusal(OWN_SCALE, part, f"{text} stands outside of the arms in half, and may cast the model")

    def _runs(self, function: Function) -> bool:
        """False in the code of a model, and in what only that uses, or nobody here: it may serve inference."""
        if function.is_module:
            return True
        if _is_of_module(function):
            return False
        users = [site.statement for site in self.facts.calls.callers(function)]
        users += [self.facts.tree.statement_of(use) for use in self.facts.calls.value_uses(function)]
        own = function.owner is not None
        return own or any(one not in self._dead and not _is_of_module(one.function) for one in users)

    def _scale(self) -> None:
        """The loss scale, told where it started. Raises Refusal for one that GradScaler has no settings for."""
        for exponent in {source_key(loss.exponent): loss for loss in reversed(self.losses)}.values():
            scale = OwnScale(self.facts, exponent, self._dead)
            first, settings = scale.first()
            self.lowering.removed.append(first)
            self.lowering.scales.append((first, settings))
            for read, text in scale.reads():
                self.lowering.replaced[read] = text
                self.sites.append(read)

    def _mark(self) -> None:
        """Mixed precision is on where the guard holds, from the constructor on where that has an arm in half."""
        made = [one for one in self._folded if one[0].function.name == "__init__"]
        statement, block = (made or self._folded)[0]
        assert isinstance(statement.node, cst.If)
        test = statement.node.test
        self.lowering.marks.append((statement, self.facts.text(test if block.arm == "body" else negated(test))))

    def _results(self) -> None:
        """`return True` of a plain step whose other arm returns False after an overflow: whether it was taken."""
        for statement, block in self._folded:
            inner = {one for top in block.statements for one in self._reached(top)}
            if not any(_returns(one, "False") for one in inner):
                continue
            plain = [one for one in self._plain_of(statement) if _returns(one, "True")]
            for one in plain:
                assert isinstance(one.node, cst.Return) and one.node.value is not None
                self.lowering.replaced[one.node.value] = STEPPED

    def _plain_of(self, folded: Statement) -> Iterator[Statement]:
        """The statements of the function around an `if` that stay, and of those that it returns the result of."""
        for top in folded.function.body.statements:
            for one in top.descendants():
                if one in self._dead:
                    continue
                yield one
                if isinstance(one.node, cst.Return):
                    for site in self.facts.calls.in_statement(one):
                        yield from site.callee.descendants()

    # -- notes ------------------------------------------------------------------------------------------

    def _note_differences(self) -> None:
        """What changes the training in an arm that goes, and is nowhere in what stays."""
        stays = {name for one in self._statements(dead=False) for name in self._training_calls(one)}
        for statement in self._statements(dead=True):
            for name, call in self._training_calls(statement).items():
                if name not in stays:
                    message = f"{self.facts.text(call)} was done in half only"
                    self.findings.append(self.facts.finding(call, ARMS_DIFFERED, message))
        self._note_states()
        for statement in self._statements(dead=True) if self._follows_step() else ():
            if isinstance(statement.node, cst.Return) and self._ends_step(statement):
                message = "an overflow ended the step here; now optimizer.step alone is left out, and what follows runs"
                self.findings.append(self.facts.finding(statement.node, OVERFLOW_SKIPPED, message))

    def _note_states(self) -> None:
        """Where an optimizer's state is loaded: that of a run in half is the state of master copies."""
        for statement in self._statements(dead=False):
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Call) and called_name(part) == "load_state_dict":
                    text = self.facts.text(part.func)
                    if "opt" in text.lower():
                        message = f"{text} may get the state of master copies, from a run in half"
                        self.findings.append(self.facts.finding(part, STATE_OF_HALF_RUN, message))

    def _follows_step(self) -> bool:
        """True where something stays that comes after a step, in its block."""
        removed = {*self.lowering.removed, *self._dead}
        steps = [one for one in self._statements(dead=False) if "step" in self._training_calls(one)]
        after = [one for step in steps for one in step.next_siblings() if one not in removed]
        return any(not isinstance(one.node, cst.Return) for one in after)

    def _statements(self, *, dead: bool) -> Iterator[Statement]:
        return (one for one in self.facts.tree.all_statements() if (one in self._dead) is dead)

    def _training_calls(self, statement: Statement) -> dict[str, cst.Call]:
        parts = self.facts.tree.expressions(statement)
        calls = [part for part in parts if isinstance(part, cst.Call)]
        return {called_name(call): call for call in calls if called_name(call) in _TRAINING}

    def _ends_step(self, statement: Statement) -> bool:
        """True for a bare `return` beside the exponent that an overflow makes smaller."""
        assert isinstance(statement.node, cst.Return)
        return statement.node.value is None and any(
            isinstance(one.node, cst.AugAssign) and isinstance(one.node.operator, cst.SubtractAssign)
            for one in statement.block.statements
        )


def _is_of_module(function: Function) -> bool:
    """True in the code of a model: what it casts may serve inference, and works under autocast as well."""
    current: Function | None = function
    while current is not None:
        if current.is_of_network:
            return True
        current = current.parent
    return False


def _returns(statement: Statement, name: str) -> bool:
    value = statement.node.value if isinstance(statement.node, cst.Return) else None
    return isinstance(value, cst.Name) and value.value == name
