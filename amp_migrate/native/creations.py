"""Where a scaler is made, and what it is made of: `scaler = GradScaler(init_scale=128.0, enabled=args.fp16)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated, source_key
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.native.numbers import float_text, static_text
from amp_migrate.native.writer import Writer
from amp_migrate.plan.model import LossScale
from amp_migrate.plan.scaler.binding import Creation
from amp_migrate.plan.training_plan import Scaler

_LONG = 100


class CreationWriter(Writer):
    def write(self, scaler: Scaler) -> None:
        """The scaler, and beside it the values that it is made of."""
        for creation in scaler.binding.creations:
            self._create_at(scaler, creation)
        for statement, carrier in scaler.binding.absent:
            disabled = self.spellings.at(statement.node).grad_scaler("False")
            self.edits.insert_after(statement, f"{carrier.text(scaler.name)} = {disabled}")
        for statement, carrier in scaler.binding.taken_up:
            for name in scaler.names_for(statement.function):
                self.edits.insert_after(statement, f"{carrier.text(name)} = {name}")

    def _create_at(self, scaler: Scaler, creation: Creation) -> None:
        lines = [_wrapped(f"{name} = {value}") for name, value in self._creations(scaler, creation)]
        for line in lines:
            if creation.before:
                self.edits.insert_before(creation.at, line)
            else:
                self.edits.insert_after(creation.at, line)

    def _creations(self, scaler: Scaler, creation: Creation) -> Iterator[tuple[str | None, str]]:
        """The names that are given a value here, with the values: the scaler, after what it is made of."""
        function, enabled, scale = creation.function, scaler.enabled, scaler.loss_scale
        if scaler.is_flag:
            yield scaler.expression(function), enabled or "True"
            return
        if scaler.flag_name is not None:
            flag = scaler.is_on(function)
            yield flag, enabled or "True"
            enabled = flag
        first = self._first_scale(scale, creation.at)
        if scale.static == 1.0:
            enabled = "False"
        elif scale.runtime is not None:
            name = scaler.binding.expression(function, scaler.scale_name or "")
            dynamic = self._is_dynamic(scale, scale.runtime, enabled, self.facts.quote(creation.at.node))
            yield name, self._asked_for(scale.runtime, dynamic)
            first = name if dynamic is None else f"{name} or {first or '2.**16'}"
            enabled = _both(enabled, f"{name} != 1.0")
        if scale.used_when is not None:
            enabled = _both(enabled, self.facts.text(scale.used_when))
        interval = self.facts.text(scale.growth_interval) if scale.growth_interval is not None else None
        factor = self.facts.text(scale.growth_factor) if scale.growth_factor is not None else None
        spelling = self.spellings.at(creation.at.node)
        yield scaler.expression(function), spelling.grad_scaler(enabled, first, factor, interval)

    def _first_scale(self, scale: LossScale, at: Statement) -> str | None:
        """The number that a scale starts with; None for native AMP's own."""
        if scale.static is not None:
            return static_text(self.facts, scale, at) if scale.static != 1.0 else None
        if scale.initial is not None:
            return self.facts.text(scale.initial)
        if scale.runtime is None and scale.maximum is not None and _is_below_default(scale.maximum):
            return float_text(self.facts, scale.maximum)
        return None

    def _asked_for(self, runtime: cst.BaseExpression, dynamic: str | None) -> str:
        """The scale that a user asks for: a number, or None where it is dynamic."""
        text = self.facts.text(runtime)
        number = text if isinstance(runtime, cst.Float) else f"float({text})"
        return number if dynamic is None else f"None if {dynamic} else {number}"

    def _is_dynamic(self, scale: LossScale, runtime: cst.BaseExpression, enabled: str | None, quote: str) -> str | None:
        """The test whether a user asks for a dynamic scale; None where it is always a number."""
        text = self.facts.text(runtime)
        is_atom = isinstance(runtime, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
        dynamic: str | None = f"{text if is_atom else f'({text})'} in (None, {quote}dynamic{quote})"
        if scale.dynamic_when is not None:
            dynamic = self.facts.text(scale.dynamic_when)
        elif scale.is_number:
            dynamic = None
        if enabled is not None and may_be_missing(self.facts, runtime):
            off = self.facts.text(negated(_without_bool(cst.parse_expression(enabled))))
            return off if dynamic is None else f"{off} or {dynamic}"
        return dynamic


def _both(condition: str | None, other: str) -> str:
    return other if condition is None else f"{condition} and {other}"


def _without_bool(test: cst.BaseExpression) -> cst.BaseExpression:
    """`bool(x)` as a test is `x`."""
    is_bool = isinstance(test, cst.Call) and isinstance(test.func, cst.Name) and test.func.value == "bool"
    return test.args[0].value if isinstance(test, cst.Call) and is_bool else test


def _is_below_default(node: cst.BaseExpression) -> bool:
    """Apex starts at the lower of 2**16 and the maximum ([A:apex/amp/scaler.py])."""
    value = literal_value(node)
    return isinstance(value, (int, float)) and value < 2.0**16


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


# Settings that need not be there where mixed precision is off: they were only ever looked up under its guard.
#
# if settings.get("fp16", False):
#     optimizer = FP16_Optimizer(optimizer, static_loss_scale=settings.loss_scale)

_ASKS = frozenset("getattr hasattr".split())


def may_be_missing(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for what may raise where the guard is off: `params["amp"]["loss_scale"]`, or an attribute of something that
    the code asks by name for others of its kind, and that no option of a command line sets.
    """
    parts = list(walk(node))
    if any(isinstance(part, (cst.Subscript, cst.Call)) for part in parts):
        return True
    read = [part for part in parts if isinstance(part, cst.Attribute) and facts.values.option(part) is None]
    holders = {source_key(part.value) for part in read}
    return bool(holders) and any(_asked(call) in holders for call, _ in facts.tree.every(cst.Call))


def _asked(call: cst.Call) -> str | None:
    """What `settings.get("fp16", False)` and `getattr(settings, "fp16", False)` ask for what may not be there."""
    name, texts = called_name(call), [literal_value(arg.value) for arg in call.args[:2]]
    if name == "get" and isinstance(call.func, cst.Attribute) and texts and isinstance(texts[0], str):
        return source_key(call.func.value)
    if name in _ASKS and len(texts) == 2 and isinstance(texts[1], str):
        return source_key(call.args[0].value)
    return None
