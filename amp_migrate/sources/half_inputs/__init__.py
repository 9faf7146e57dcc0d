"""Inputs that are cast to half by hand beside apex.amp, for O2 has made half of the model (rule G1).

Natively the model is in float32, and takes no half input outside of autocast. Inside, autocast casts what has to be
half. So the casts go: what the option alone casts stays what it was, everything else is made float32.

if args.fp16: x = x.half()              goes
x = x.half()                            x = x.float(): x may hold integers
if args.fp16: x = x.half()              x = x.float(), in any case
else: x = x.float()
kind = torch.half if fp16 else None     kind = None
x.to(torch.half)                        x.to(torch.float)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.plan.model import Lowering, Recognition
from amp_migrate.plan.regions.tensors import leaves_torch
from amp_migrate.plan.roles import Roles
from amp_migrate.sources.copies import stays_a_copy
from amp_migrate.sources.floating import is_floating
from amp_migrate.sources.half.arms import OF_PRECISION, edited_guards
from amp_migrate.sources.half.module_casts import take_out
from amp_migrate.sources.half_inputs.given import Given
from amp_migrate.sources.half_inputs.half_models import forwards_in_half, models_in_half, running_in_half
from amp_migrate.sources.half_types import HalfTypes, is_half_call
from amp_migrate.vocabulary import SAYS_HALF


def lower_half_inputs(facts: Facts, found: Recognition) -> None:
    """Give a Recognition of apex.amp the lowering that takes its half inputs out, where it has some."""
    if not found.setups or not facts.says(SAYS_HALF):
        return
    inputs = _HalfInputs(facts, found)
    if not inputs.lowering.is_empty:
        found.lowering = inputs.lowering
        found.sites += inputs.sites


class _HalfInputs:
    def __init__(self, facts: Facts, found: Recognition) -> None:
        self.facts = facts
        self.types = HalfTypes(facts)
        self.lowering = Lowering()
        self.sites: list[cst.CSTNode] = []
        roles = Roles(facts, found)
        # O1 ran the code of a network in half and float32 as autocast does.
        casts_operations = all(setup.level in ("O0", "O1") for setup in found.setups)
        forwards = [
            (call, at)
            for call, at in facts.tree.every(cst.Call)
            if roles.is_forward(call) and not (casts_operations and at.function.is_of_network)
        ]
        models = models_in_half(facts)
        functions = running_in_half(facts, roles, models)
        in_half = [(call, at) for call, at in forwards if at.function in functions]
        in_float = [one for one in forwards if one not in in_half]
        self.parts = Given(facts, roles, in_float).parts
        self._leave(Given(facts, roles, in_half + forwards_in_half(facts, roles, models)))
        self._fold_choices()
        self._drop_guarded()
        self._lower_others()
        edited = edited_guards(facts, self.sites)
        self.lowering.edited = [statement for statement in edited if statement not in self.lowering.arms]

    def _leave(self, in_half: Given) -> None:
        """Leave what feeds a model in half as it is: autocast takes it as well. Forwards outside of autocast do not,
        which the plan sees (`plan/half_inputs.py`).
        """
        for part in in_half.parts:
            self.parts.pop(part, None)

    def _fold_choices(self) -> None:
        """Of `torch.half if fp16 else torch.float` and `x.half() if fp16 else x` the other side."""
        for part, statement in self.parts.items():
            found = self.types.plain_arm(statement)
            if found is not None and isinstance(statement.node, cst.Assign) and part is statement.node.value:
                outer, arm = found
                self.lowering.arms[outer] = arm
                self.sites.append(part)
            elif isinstance(part, cst.IfExp):
                plain = self.types.plain_side(part) or _uncast_side(part)
                if plain is not None:
                    self.lowering.replaced[part] = self.facts.text(plain)
                    self.sites.append(part)

    def _drop_guarded(self) -> None:
        """`if args.fp16: x = x.half()`, and `x = to_half(x)` by a helper. With an `else`, there are arms to compare."""
        for statement in dict.fromkeys(self.parts.values()):
            outer = statement.block.owner
            if outer is None or not isinstance(outer.node, cst.If) or outer.node.orelse is not None:
                continue
            if OF_PRECISION.search(self.facts.text(outer.node.test)) and self._only_casts(statement):
                self.lowering.removed.append(statement)
                self.sites += self.facts.tree.calls(statement)
        self._drop_helpers()

    def _only_casts(self, statement: Statement) -> bool:
        node = statement.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
            return False
        call, target = node.value, source_key(node.targets[0].target)
        if self.types.is_cast(call):
            return source_key(_receiver(call)) == target
        function = self.facts.objects.called_function(call)
        is_same = len(call.args) == 1 and source_key(call.args[0].value) == target
        return is_same and function is not None and self._holds_cast(function)

    def _drop_helpers(self) -> None:
        """The helpers that nothing calls any more."""
        for function in self.facts.tree.functions:
            if function.is_module or function.owner is not None or not self._holds_cast(function):
                continue
            calls = [site.statement for site in self.facts.calls.callers(function)]
            outside = [one for one in calls if one.function is not function]
            is_called = any(not any(one.inside(gone) for gone in self.lowering.removed) for one in outside)
            uses = self.facts.calls.value_uses(function)
            if outside and not is_called and not uses and not self.facts.is_used_outside(function):
                self.lowering.removed.append(self.facts.tree.statements[function.node])

    def _holds_cast(self, function: Function) -> bool:
        return any(
            statement.function is function and self.types.is_cast(part) for part, statement in self.parts.items()
        )

    def _lower_others(self) -> None:
        for part, statement in self.parts.items():
            if self._is_gone(part, statement):
                continue
            if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and is_half_call(part):
                if not leaves_torch(self.facts, part):
                    self._make_float(part, part.func, statement)
            elif isinstance(part, cst.BaseExpression) and self.types.is_one(part):
                if not self.types.makes_nothing_half(part):
                    self.lowering.replaced[part] = self.types.of_float32(part)
                    self.sites.append(part)

    def _make_float(self, cast: cst.Call, func: cst.Attribute, statement: Statement) -> None:
        """A cast of what is certainly in float32 goes, but for one with a counterpart in another arm."""
        self.sites.append(cast)
        outer = statement.block.owner
        has_other_arm = outer is not None and len(outer.blocks) > 1
        is_float32 = is_floating(self.facts, func.value)
        if stays_a_copy(self.facts, self.lowering, statement, cast, is_float32=is_float32):
            return
        if is_float32 and not has_other_arm:
            take_out(self.lowering, statement, cast, func.value)
        else:
            self.lowering.renamed[func] = "float"

    def _is_gone(self, part: cst.CSTNode, statement: Statement) -> bool:
        gone = [*self.lowering.removed, *self.lowering.arms]
        if any(statement.inside(one) or one.node is statement.function.node for one in gone):
            return True
        current: cst.CSTNode | None = part
        while current is not None and current is not statement.node:
            if current in self.lowering.replaced and current is not part:
                return True
            current = self.facts.tree.parents.get(current)
        return False


def _receiver(call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _uncast_side(choice: cst.IfExp) -> cst.BaseExpression | None:
    """The `x` of `x.half() if fp16 else x`."""
    for one, other in ((choice.body, choice.orelse), (choice.orelse, choice.body)):
        if is_half_call(one) and isinstance(one, cst.Call) and source_key(_receiver(one)) == source_key(other):
            return other
    return None
