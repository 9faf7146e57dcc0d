"""The `enabled` argument as source text, for the scaler and for each region (rule B2).

A guard that is a plain name or attribute is repeated; a longer condition stands once, at the scaler, and
regions that see the scaler ask it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated, without_not
from amp_migrate.facts.torch_name import torch_name
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Condition, LossScale
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.scaler.asked_models import AskedModels
from amp_migrate.plan.scaler.binding import Creation
from amp_migrate.plan.scaler.enabling import Enabling
from amp_migrate.plan.scaler.visible import Visible
from amp_migrate.plan.training_plan import Scaler
from amp_migrate.rules.scaler import UNKNOWN_SCALER


class Unknown:
    """The condition cannot be written where it is asked for."""


_ALWAYS = "True"


class EnabledText:
    """`trainers` are methods that make the scaled backward for others: those ask the instance that they call."""

    def __init__(self, facts: Facts, visible: Visible, enabling: Enabling, trainers: Collection[Function] = ()) -> None:
        self.facts = facts
        self.visible = visible
        self.enabling = enabling
        self.models: AskedModels | None = None
        self._asked = dict(self._instances(trainers))

    def asking(self, models: AskedModels) -> EnabledText:
        """The same with models that are asked at the scaler, where nothing else is known."""
        other = copy.copy(self)
        other.models = models
        return other

    def _instances(self, trainers: Collection[Function]) -> Iterator[tuple[Function, tuple[str, Function]]]:
        """Who calls `trainer.backward(loss)`, with the text for the instance, and the method."""
        root = self.facts.objects.root_class
        for method in trainers:
            for site in self.facts.calls.callers(method):
                owner, func = site.caller.owner, site.call.func
                assert method.owner is not None
                is_own = owner is not None and root(owner) is root(method.owner)
                if isinstance(func, cst.Attribute) and not is_own:
                    yield site.caller, (self.facts.text(func.value), method)

    def at_creation(self, creation: Creation) -> str | None:
        """For the scaler. Raises Refusal where the condition is not known at its place."""
        if self.enabling.always_off:
            return "False"
        text = self._at(creation)
        if isinstance(text, Unknown):
            text = self._of_models(creation.function, creation.at, before=creation.before) or text
        unread = next((part.unread for part in self.enabling.parts if part.unread is not None), None)
        if isinstance(text, Unknown) and unread is not None:
            raise unread
        if isinstance(text, Unknown):
            condition = self.facts.text(self.enabling.parts[0].node)
            message = f"the condition for mixed precision, {condition}, is not known in {creation.function.name}, "
            raise Refusal(UNKNOWN_SCALER, creation.at.node, message + "where the scaler is created", case="condition")
        return text

    def is_known_at(self, creation: Creation) -> bool:
        """True where what the program reads for the condition has its value by then."""
        return self.enabling.always_off or not isinstance(self._at(creation), Unknown)

    def can_be_on(self, function: Function) -> bool:
        """True where the condition is known in a function that may create the scaler."""
        return not isinstance(self.in_function(function), Unknown) or self._of_models(function) is not None

    def _of_models(self, function: Function, at: Statement | None = None, *, before: bool = False) -> str | None:
        """What the models tell of the whole condition, if it is about their device alone."""
        parts = self.enabling.parts
        if self.models is None or self.enabling.is_hung or not all(part.moves for part in parts):
            return None
        return self.models.test(parts[0].moves, function, at, before=before)

    def in_function(self, function: Function, at: Statement | None = None) -> str | Unknown | None:
        """The whole condition as `function` can write it, before `at` if given; None where it is always on."""
        if self.enabling.is_hung:
            return Unknown()
        return "False" if self.enabling.always_off else self._write(function, at)

    def for_region(self, region: Region, scaler: Scaler | None) -> str | Unknown | None:
        function, at = region.function, region.first
        parts = self.enabling.parts
        if not parts and not self.enabling.always_off and not self.enabling.is_hung:
            return None
        if len(parts) == 1 and not self.enabling.is_hung and not self.enabling.always_off and self._is_plain(parts[0]):
            text = self._write(function, at)
            if text is None or (isinstance(text, str) and _is_short(text)):
                return text
        if scaler is not None and scaler.enabled is None and not self.enabling.is_hung and not self.enabling.latch:
            return None
        is_there = scaler is not None and not scaler.binding.may_be_none(function)
        on = scaler.is_on(function) if scaler is not None and is_there else None
        if on is not None and scaler is not None and (scaler.flag_name or self.follows_scaler(scaler.loss_scale)):
            return on
        return self.in_function(function, at)

    def follows_scaler(self, scale: LossScale) -> bool:
        """A static scale of 1.0 switches the scaler off, but not autocast (rule C)."""
        follows = scale.static != 1.0 and scale.runtime is None and scale.used_when is None
        return self.enabling.always_off or follows

    def _is_plain(self, part: Condition) -> bool:
        """A bool that is a name or an attribute: as readable as `scaler.is_enabled()`."""
        node = negated(part.node) if part.negated else part.node
        is_name = isinstance(node, (cst.Name, cst.Attribute)) and not part.suffix
        return is_name and self.facts.values.is_bool(node)

    def _at(self, creation: Creation) -> str | Unknown | None:
        return self._write(creation.function, creation.follower, self._parts_at(creation))

    def _parts_at(self, creation: Creation) -> list[Condition]:
        """What is left to ask where the scaler is created: the flag that goes up there is up."""
        parts, latch = self.enabling.parts, self.enabling.latch
        if latch is None or not latch.is_up or creation.function not in latch.homes:
            return parts
        return [part for part in parts if not self.facts.conditions.equivalent(part.formula, latch.formula)]

    def _write(
        self, function: Function, at: Statement | None, parts: list[Condition] | None = None
    ) -> str | Unknown | None:
        texts = []
        for part in self.enabling.parts if parts is None else parts:
            text = self._write_part(part, function, at)
            if text is None:
                return Unknown()
            texts += [text] if text != _ALWAYS else []
        return " and ".join(texts) if texts else None

    def _write_part(self, part: Condition, function: Function, at: Statement | None) -> str | None:
        if part.unread is not None:
            return None
        text = self._of_instance(part, function) or self.visible.express(part.node, function, at)
        if text is None:
            return self._as_given(part, function)
        if _is_certain(part, text):
            return _ALWAYS
        written = cst.parse_expression(text)
        loose = isinstance(written, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not written.lpar
        several = len(self.enabling.parts) > 1
        if part.is_device_name:
            text = f"({text})" if loose and part.otherwise else text
            return f"{torch_name(self.facts, function.root) or 'torch'}.device({text}{part.otherwise}){part.suffix}"
        if part.suffix:
            return f"({text}){part.suffix}" if loose else f"{text}{part.suffix}"
        if part.negated:
            opposite = negated(written)
            is_bool = isinstance(opposite, (cst.Comparison, cst.UnaryOperation)) or self.facts.values.is_bool(
                negated(part.node)
            )
            text = cst.Module([]).code_for_node(opposite)
            return text if is_bool else f"bool({text})"
        if not self.facts.values.is_bool(part.node):
            return f"bool({text})"
        is_or = isinstance(written, cst.BooleanOperation) and isinstance(written.operator, cst.Or)
        return f"({text})" if several and loose and (is_or or isinstance(written, cst.IfExp)) else text

    def _as_given(self, part: Condition, function: Function) -> str | None:
        """The parameter that stands for a part of the condition in the function that trains."""
        for given in self.enabling.given:
            if given.parameter in function.parameters and self.facts.conditions.equivalent(part.formula, given.formula):
                name = given.parameter.name
                return name.value if self.facts.values.is_bool(name) else f"bool({name.value})"
        return None

    def _of_instance(self, part: Condition, function: Function) -> str | None:
        """`self.trainer.use_fp16`, where the trainer keeps the condition as an attribute of its own."""
        if function not in self._asked:
            return None
        instance, method = self._asked[function]
        own, _, attribute = (self.visible.express(part.node, method) or "").partition(".")
        is_attribute = attribute.isidentifier() and own == method.parameters[0].name.value
        return f"{instance}.{attribute}" if is_attribute else None


def _is_short(text: str) -> bool:
    """True for a name, an attribute, and the opposite of one."""
    return isinstance(without_not(cst.parse_expression(text)), (cst.Name, cst.Attribute))


def _is_certain(part: Condition, text: str) -> bool:
    """True where a function itself gives the device that is asked about: `train(model, device="cuda")`."""
    given = literal_value(cst.parse_expression(text))
    if not isinstance(given, str) or part.negated:
        return False
    return given.startswith("cuda") and (part.is_device_name or not part.suffix)
