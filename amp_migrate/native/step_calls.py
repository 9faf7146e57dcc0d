"""The calls around a step: `scaler.unscale_`, `scaler.step`, `scaler.update`, and thresholds of scaled gradients."""

from __future__ import annotations

import textwrap

import libcst as cst

from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.native.edits import Wrap
from amp_migrate.native.nodes import alone, over_parameters
from amp_migrate.native.numbers import float_text, static_text
from amp_migrate.native.writer import Writer
from amp_migrate.plan.steps.closures import gives_values


class StepWriter(Writer):
    def write(self) -> None:
        """The calls of every step, and the uses of gradients that stay scaled."""
        self._steps()
        self._micro_uses()

    def _steps(self) -> None:
        for step in self.plan.steps.steps:
            scaler = self.scaler(step.statement.function)
            values = step.call.args if gives_values(self.facts, step.call) else ()
            given = [step.optimizer, *map(alone, values)]
            self.edits.replace(step.call, f"{scaler}.step({', '.join(map(self.facts.text, given))})")
        for step in self.plan.steps.left_out:
            any_gradient = f"any(p.grad is not None {over_parameters(self.facts, step.optimizer, step.call)})"
            behind = [one for one in self.plan.steps.updates if one.anyway and one.at is step.statement]
            lines = [line for update in behind for line in self._update_lines(update.at)]
            self.edits.wraps.append(Wrap(step.statement, step.statement, f"if {any_gradient}", behind=lines))
        for unscale in self.plan.steps.unscales:
            scaler = self.scaler(unscale.before.function)
            line = f"{scaler}.unscale_({unscale.text(self.facts)})"
            if unscale.loop is not None:
                target, source = self.facts.text(unscale.loop.target), self.facts.text(unscale.loop.iter)
                line = f"for {target} in {source}:\n    {line}"
            if unscale.condition is not None:
                line = f"if {self.facts.text(unscale.condition)}:\n{textwrap.indent(line, '    ')}"
            self.edits.insert_before(unscale.before, line)
        left_out = {step.statement for step in self.plan.steps.left_out}
        for update in self.plan.steps.updates:
            if update.anyway and update.at in left_out:
                continue
            for line in self._update_lines(update.at):
                if update.before:
                    self.edits.insert_before(update.at, line)
                else:
                    self.edits.insert_after(update.at, line)

    def _update_lines(self, at: Statement) -> list[str]:
        """update(), with the value that a static scale is to keep, and clamped where the source bounds it."""
        function = at.function
        scaler = self.plan.scaler_for(function)
        assert scaler is not None
        text = self.scaler(function)
        scale = scaler.loss_scale
        if scale.static not in (None, 1.0):
            return [f"{text}.update({static_text(self.facts, scale, at)})"]
        if scale.runtime is not None:
            return [f"{text}.update({scaler.binding.expression(function, scaler.scale_name or '')})"]
        lines = [f"{text}.update()"]
        for bound, sign in ((scale.minimum, "<"), (scale.maximum, ">")):
            if bound is not None:
                value = float_text(self.facts, bound)
                given = "" if literal_value(bound) is not UNKNOWN else f"{self.facts.text(bound)} and "  # may be None
                lines.append(f"if {given}{text}.get_scale() {sign} {value}:\n    {text}.update({value})")
        return lines

    def _micro_uses(self) -> None:
        """Clips and norms of gradients that stay scaled until the step (rule D2)."""
        for use in self.plan.steps.micro_uses:
            assert use.call is not None
            scale = f"{self.scaler(use.statement.function)}.get_scale()"
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


def _divided(node: cst.CSTNode, by: str) -> cst.CSTNode:
    assert isinstance(node, cst.BaseExpression)
    return cst.BinaryOperation(node, cst.Divide(), cst.parse_expression(by))
