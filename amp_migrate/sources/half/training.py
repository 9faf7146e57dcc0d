"""What is trained in the plain program that is left once the casts are gone: optimizers, losses, and when it was in
half.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction, source_key
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.native.lower import SCALE_NOW, STEPPED, scale_at, scale_settings
from amp_migrate.plan.model import Backward, Condition, LossScale, Recognition, ScaleAccess, Setup, SkipRead
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.half import RAISED_EPS, UNKNOWN_HALF_USER, UNKNOWN_TRAINER
from amp_migrate.rules.scaler import GUARDS_DIFFER, TWO_LOSS_SCALES
from amp_migrate.sources.optimizers import find_optimizers, parameters_of
from amp_migrate.sources.plain.losses import check_given, find_losses
from amp_migrate.sources.states import add_states

_DEFAULT_EPS = 1e-8


class Training:
    """Fills a Recognition with the training of a plain program."""

    def __init__(self, facts: Facts, found: Recognition, marks: list[Statement]) -> None:
        self.facts = facts
        self.found = found
        self.marks = marks
        self.scales = [one for one in facts.tree.all_statements() if scale_at(one) is not None]
        self.optimizers = find_optimizers(facts)

    def read(self) -> None:
        """Raises Refusal where nothing shows when, or by what, the model is trained."""
        if not self.optimizers:
            if any(scale_settings(one) for one in self.scales):
                message = "who steps on the gradients of this class was not found"
                raise Refusal(UNKNOWN_HALF_USER, self.marks[0].node, message)
            message = "no optimizer was found that is made from parameters of the half model"
            raise Refusal(UNKNOWN_TRAINER, self.marks[0].node, message)
        conditions = self._conditions()
        loss_scale = self._loss_scale(conditions)
        self.found.removed += [*self.marks, *self.scales]
        self.found.is_scaled = bool(self.scales)
        for statement, call in self.optimizers:
            models = [model for arg in call.args for model in parameters_of(self.facts, arg.value)]
            self.found.setups.append(
                Setup(statement, call, models, [call], [], conditions, loss_scale, level="half", stays=True)
            )
        self.found.backwards += self._backwards()
        if not self.found.backwards:
            message = "no backward was found for what this optimizer steps on"
            raise Refusal(UNKNOWN_TRAINER, self.optimizers[0][1], message)
        self._check_backwards()
        self._values()
        if loss_scale.static is None and loss_scale.runtime is None:  # a scale that is given again has no state
            optimizers = frozenset(one for _, call in self.optimizers for one in self.facts.objects.objects(call))
            add_states(self.facts, self.found, optimizers)
        self._notes()

    def _check_backwards(self) -> None:
        """Raises Refusal for `optimizer.backward(loss)`, where something of another kind scales the loss."""
        for backward in self.found.backwards:
            given = backward.arguments[0] if backward.arguments else None
            if given is not None and given.keyword is None and "loss" in self.facts.text(given).lower():
                text = self.facts.text(backward.call)
                raise Refusal(UNKNOWN_TRAINER, backward.call, f"{text} is the backward of something that is no loss")

    def _conditions(self) -> list[Condition]:
        """What the casts stand under, all of them the same (rule G3). Raises Refusal."""
        each = [enclosing_guards(self.facts, mark)[::-1] for mark in self.marks]
        if self._is_in_every_arm():
            return []
        formulas = [conjunction([guard.formula for guard in guards]) for guards in each]
        for mark, formula in zip(self.marks[1:], formulas[1:], strict=True):
            if not self.facts.conditions.equivalent(formulas[0], formula):
                raise Refusal(GUARDS_DIFFER, mark.node, "the models are cast to half under conditions that differ")
        return [Condition(guard.test, guard.formula, negated=guard.arm != "body") for guard in each[0]]

    def _loss_scale(self, conditions: list[Condition]) -> LossScale:
        """The one scale that all losses were multiplied by (rule C); without one it is dynamic. Raises Refusal."""
        moving = [settings for statement in self.scales if (settings := scale_settings(statement))]
        if moving:
            self.found.casts_models = True
            return self._moving_scale(moving)
        scales = [scale for statement in self.scales if (scale := scale_at(statement)) is not None]
        if not scales:
            return LossScale()
        values = {self._scale_key(scale) for scale in scales}
        if len(values) > 1:
            message = "the losses are multiplied by different loss scales"
            raise Refusal(TWO_LOSS_SCALES, scales[0], message, case="by hand")
        value = values.pop()
        when = self._scaled_when(conditions)
        if isinstance(value, float):
            return LossScale(static=value, name=scales[0], used_when=when)
        return LossScale(runtime=scales[0], used_when=when, is_number=True)

    def _moving_scale(self, moving: list[dict[str, cst.BaseExpression]]) -> LossScale:
        """A scale that the script moved as GradScaler does. Raises Refusal where there are several."""
        texts = [{name: source_key(node) for name, node in settings.items()} for settings in moving]
        if any(other != texts[0] for other in texts) or len(moving) != len(self.scales):
            message = "the losses are multiplied by different loss scales"
            raise Refusal(TWO_LOSS_SCALES, self.scales[-1].node, message, case="by hand")
        first = moving[0]
        return LossScale(
            initial=first["init_scale"],
            growth_factor=first.get("growth_factor"),
            growth_interval=first.get("growth_interval"),
        )

    def _scale_key(self, scale: cst.BaseExpression) -> object:
        """A number, where the scale is one that nothing changes; else its text."""
        found = {self.facts.values.constant(value) for value in (scale, *self.facts.objects.values_of(scale))}
        numbers = {value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)}
        known = len(numbers) == 1 and len(found - {UNKNOWN}) == 1 and len(self.facts.objects.values_of(scale)) <= 1
        return float(numbers.pop()) if known else source_key(scale)

    def _scaled_when(self, conditions: list[Condition]) -> cst.BaseExpression | None:
        """The test under which the loss is multiplied, where mixed precision alone does not say it. Raises Refusal."""
        world = conjunction([condition.formula for condition in conditions])
        tests: list[cst.BaseExpression] = []
        for statement in self.scales:
            for guard in enclosing_guards(self.facts, statement):
                if not self.facts.conditions.implies(world, guard.formula):
                    if guard.arm != "body":
                        message = "the loss is scaled where this test does not hold"
                        raise Refusal(UNKNOWN_TRAINER, guard.test, message, case="scale")
                    tests.append(guard.test)
        if len({source_key(test) for test in tests}) > 1:
            raise Refusal(UNKNOWN_TRAINER, tests[0], "the losses are scaled under different conditions", case="scale")
        return tests[0] if tests else None

    def _is_in_every_arm(self) -> bool:
        """True where one mark has no condition, or both arms of an `if` have one."""
        arms: dict[Statement, set[str]] = {}
        for mark in self.marks:
            guards = enclosing_guards(self.facts, mark)
            if not guards:
                return True
            if len(guards) == 1:
                arms.setdefault(guards[0].statement, set()).add(guards[0].arm)
        return any(len(found) == 2 for found in arms.values())

    def _backwards(self) -> Iterator[Backward]:
        for one in find_losses(self.facts):
            check_given(self.facts, one)
            optimizers = self._optimizers_beside(one.statement.function)
            yield Backward(one.statement, one.call, one.loss, optimizers, arguments=one.arguments)

    def _optimizers_beside(self, function: Function) -> list[cst.BaseExpression]:
        """Those stepped in the function of a backward; all of them, where they are stepped elsewhere."""
        stepped = {
            one
            for inner in function.descendants()
            for part in self.facts.tree.expressions(inner)
            if isinstance(part, cst.Call) and called_name(part) == "step" and isinstance(part.func, cst.Attribute)
            for one in self.facts.objects.objects(part.func.value)
        }
        calls: list[cst.BaseExpression] = [call for _, call in self.optimizers]
        return [call for call in calls if self.facts.objects.objects(call) & stepped] or calls

    def _values(self) -> None:
        """What the lowering left for values that are known natively only: the scale, and whether a step was taken."""
        for statement in self.facts.tree.all_statements():
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Name) and part.value == SCALE_NOW:
                    self.found.scale_reads.append(ScaleAccess(part, statement))
                elif isinstance(part, cst.Name) and part.value == STEPPED:
                    self.found.skip_reads.append(SkipRead(part, statement))

    # -- notes ------------------------------------------------------------------------------------------

    def _notes(self) -> None:
        for _, call in self.optimizers:
            for arg in call.args:
                value = literal_value(arg.value)
                if arg.keyword is not None and arg.keyword.value == "eps" and isinstance(value, float):
                    if value > _DEFAULT_EPS:
                        message = f"eps={self.facts.text(arg.value)} may have been raised for half gradients"
                        self.found.findings.append(self.facts.finding(call, RAISED_EPS, message))
