"""What is said about a plan, beside what it does: findings of units that are migrated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import without_not
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.findings import Finding
from amp_migrate.options import Options
from amp_migrate.plan.flags import availability_flags, reads_of
from amp_migrate.plan.hooks import calls_that_log_gradients
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.plan.steps.caught import caught_while_unscaled
from amp_migrate.plan.training_plan import TrainingPlan
from amp_migrate.rules.apex import APEX_NOT_REQUIRED, LEVEL_AT_RUN_TIME, UNTESTED_CHECKPOINT
from amp_migrate.rules.regions import (
    BCE_IN_FLOAT32,
    HALF_COPY,
    MODEL_RETURNS_LOGITS,
    REPLICAS_IN_FLOAT16,
    REPLICAS_IN_FLOAT32,
)
from amp_migrate.rules.rule import Rule
from amp_migrate.rules.steps import CLIP_AFTER_UNSCALE, LOGGED_GRADIENTS, OPTIONAL_LOSS, SCALED_CLIP_KEPT, STEP_LEFT_OUT

_DATA_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel")


def notes(facts: Facts, options: Options, plan: TrainingPlan, clips: list[cst.Call]) -> Iterator[Finding]:
    """The findings of a plan; `clips` are those inside of `with amp.scale_loss`."""
    writer = _Notes(facts, options, plan)
    yield from writer.binary_cross_entropies()
    yield from writer.logits()
    yield from writer.optional_losses()
    yield from writer.steps_left_out()
    yield from writer.clips_of_scaled(clips)
    yield from caught_while_unscaled(facts, plan.steps)
    yield from writer.logged_gradients()
    yield from writer.replicas()
    yield from writer.levels()
    yield from writer.loads()
    yield from writer.half_copies()
    yield from writer.availability()


class _Notes:
    def __init__(self, facts: Facts, options: Options, plan: TrainingPlan) -> None:
        self.facts = facts
        self.options = options
        self.plan = plan
        self.found = plan.found

    def binary_cross_entropies(self) -> Iterator[Finding]:
        """Rule E4: those whose sigmoid is not in sight."""
        for site in self.plan.bce:
            if not site.sigmoid_in_sight:
                message = f"{self.facts.text(site.call.func)} computes a binary cross entropy outside of autocast"
                yield self._finding(site.call, BCE_IN_FLOAT32, message)

    def logits(self) -> Iterator[Finding]:
        for sigmoid in self.plan.logits.sigmoids:
            yield self._finding(
                sigmoid, MODEL_RETURNS_LOGITS, "this Sigmoid is part of the loss now: the model returns logits"
            )

    def optional_losses(self) -> Iterator[Finding]:
        for step in self.plan.steps.configured:
            message = f"{self.facts.text(step.call)} is reached without a backward where the options switch it off"
            yield self._finding(step.call, OPTIONAL_LOSS, message)

    def steps_left_out(self) -> Iterator[Finding]:
        for step in self.plan.steps.left_out:
            message = f"{self.facts.text(step.call)} is left out where no parameter has a gradient"
            yield self._finding(step.call, STEP_LEFT_OUT, message)

    def clips_of_scaled(self, clips: list[cst.Call]) -> Iterator[Finding]:
        for clip in clips:
            text = self.facts.text(clip.func)
            if clip in self.plan.clips_of_scaled:
                level = "apex's O1" if any(setup.level is None for setup in self.found.setups) else "apex"
                yield self._finding(clip, SCALED_CLIP_KEPT, f"{text} clips scaled gradients, as it did under {level}")
            else:
                message = f"{text} clipped scaled gradients under apex; now it clips unscaled ones"
                yield self._finding(clip, CLIP_AFTER_UNSCALE, message)

    def logged_gradients(self) -> Iterator[Finding]:
        """Hooks of a source that scaled its loss saw scaled gradients before; with bfloat16 there is no scale."""
        if self.found.is_scaled or self.options.dtype != "float16":
            return
        for call in calls_that_log_gradients(self.facts):
            yield self._finding(call, LOGGED_GRADIENTS, f"{self.facts.text(call)} logs gradients that are scaled now")

    def replicas(self) -> Iterator[Finding]:
        """DataParallel hands `enabled` to its threads since torch 1.7, never the dtype (rule E6)."""
        for call in self._calls():
            if self.facts.names.dotted(call.func) not in _DATA_PARALLEL:
                continue
            declared = self.facts.elsewhere.declared_torch(self.facts.file_of(call).path)
            if self.options.dtype == "bfloat16":
                yield self._finding(call, REPLICAS_IN_FLOAT16, "the replicas of DataParallel run in float16")
            elif declared is not None and (0, 0) < declared < (1, 7):
                yield self._finding(
                    call, REPLICAS_IN_FLOAT32, "the replicas of DataParallel run in float32 with torch 1.6"
                )

    def levels(self) -> Iterator[Finding]:
        for setup in self.found.setups:
            if (
                setup.level is None
                and not setup.stays
                and (setup.optimizers or (self.plan.regions and not self.found.backwards))
            ):
                message = "the level is known at run time only: O1, O2 and O3 all become autocast"
                yield self._finding(setup.call, LEVEL_AT_RUN_TIME, message)

    def loads(self) -> Iterator[Finding]:
        for load in self.found.loads:
            if load.format_test is None and self.options.dtype == "float16":
                yield self._finding(
                    load.node, UNTESTED_CHECKPOINT, f"{self.facts.text(load.node)} meets checkpoints that apex wrote"
                )
        for one in self.found.handed:
            if one.is_saved and self.options.dtype == "float16":
                message = f"{self.facts.text(one.node)} is given to code that meets checkpoints that apex wrote"
                yield self._finding(one.node, UNTESTED_CHECKPOINT, message)

    def half_copies(self) -> Iterator[Finding]:
        """O1 had patched torch so that a copy with half weights, to be traced or exported, took float32 inputs."""
        for call in self._calls():
            if called_name(call) != "half" or call.args or not isinstance(call.func, cst.Attribute):
                continue
            copied = [arg for value in self.facts.objects.values_of(call.func.value) for arg in _copied(value)]
            if any(self.plan.roles.is_whole_model(arg.value) for arg in copied):
                yield self._finding(call, HALF_COPY, f"{self.facts.text(call)} casts a copy of the model")

    def availability(self) -> Iterator[Finding]:
        """A guard that asked whether apex is there, and would quietly train in float32 without it: a flag, or what the
        import has bound.
        """
        tried = {one for one in self.found.imports if one.block.owner and isinstance(one.block.owner.node, cst.Try)}
        imported = {one for one in self.facts.names.all_variables() if tried & {b.statement for b in one.bindings}}
        flags = availability_flags(self.facts, self.found.imports) | imported
        reads = {read for _, read in reads_of(self.facts, flags)}
        for setup in self.found.setups:
            for guard in enclosing_guards(self.facts, setup.statement):
                if guard.plain is not None and any(one.leaves for one in guard.plain.statements):
                    continue
                named = (self.facts.conditions.test_behind(without_not(guard.test)),)
                for part in (part for test in (guard.test, *filter(None, named)) for part in walk(test)):
                    if part in reads:
                        text = self.facts.text(part)
                        message = f"{text} was false where apex was missing, mixed precision is on there now"
                        yield self._finding(part, APEX_NOT_REQUIRED, message)

    def _finding(self, node: cst.CSTNode, rule: Rule, message: str) -> Finding:
        return self.facts.finding(node, rule, message)

    def _calls(self) -> Iterator[cst.Call]:
        for statement in self.facts.tree.all_statements():
            yield from self.facts.tree.calls(statement)


def _copied(value: cst.BaseExpression) -> Sequence[cst.Arg]:
    """What `copy.deepcopy(model)` copies."""
    return value.args if isinstance(value, cst.Call) and called_name(value) in ("deepcopy", "copy") else ()
