"""Forwards outside of training steps: evaluation, and models set up for inference only (rules E5, E7).

O1 had patched torch everywhere, so evaluation ran in mixed precision too. A forward without gradients is
wrapped where the guard or the scaler is in scope already, and where every use of what it makes is
understood: half tensors that leave get `.float()`. Otherwise it stays in float32, which is always correct,
and a finding says so.

    with torch.no_grad():
        output = model(images)                      with autocast(...):
        loss = criterion(output, target)     =>         output = model(images)
        meter.update(accuracy(output))                  loss = criterion(output, target)
                                                    meter.update(accuracy(output.float()))
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.dataflow import own_reads, writes
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Block, Function, Statement, called_name, walk
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import values_as_written
from amp_migrate.models import traits
from amp_migrate.models.dtypes import HALF
from amp_migrate.models.queries import in_float32
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.purity import only_looks, only_says
from amp_migrate.plan.regions.forwards import Forwards, has_no_gradients, is_no_grad
from amp_migrate.plan.regions.half_parts import names_of_halves, plain_names
from amp_migrate.plan.regions.region import Region, has_no_casts
from amp_migrate.plan.regions.tensors import Tensors


@dataclasses.dataclass(eq=False)
class EvaluationRegion:
    """A region, and the loads in later statements that get `.float()`."""

    region: Region
    floats: list[cst.Name]


# Why a forward stays in float32.
_UNNAMED = "the result is used in the same statement"
_UNSURE = "what becomes of the result is not certain"
_TRAINS = "what is called there runs with gradients as well"
_OTHER_ARM = "the forward in the other arm stays in float32"
_CASTS_OFF = "the casts are switched off around some calls of it"


class Evaluation:
    """Finds the forwards that no training region covers."""

    def __init__(self, facts: Facts, found: Recognition, forwards: Forwards, covered: list[Region]) -> None:
        self.facts = facts
        self.found = found
        self.forwards = forwards
        self.tensors = Tensors(facts)
        self.covered = covered
        self.regions: list[EvaluationRegion] = []
        self.left: dict[Statement, str] = {}  # with the reason

    def find(self, *, inference: bool) -> None:
        """Fill `regions` with what can be wrapped and `left` with what cannot.

        With `inference`, the models are never trained here: all their forwards count, but for what they consist of.
        """
        with_gradients: set[Function] = set()
        for statement in self.facts.tree.all_statements():
            if not self._is_open_forward(statement):
                continue
            if not self._has_no_gradients(statement) and (not inference or statement.function.is_of_network):
                self._leave_evaluations_behind(statement.function, with_gradients)
                continue
            region = _CASTS_OFF if True in self._casts_off(statement) else self._region(statement)
            if isinstance(region, str):
                self.left[statement] = region
            else:
                self.regions.append(region)
        self._merge_arms()
        self._leave_both_arms()
        self._join_neighbours()

    def _join_neighbours(self) -> None:
        """One region for forwards that follow each other: `loss = model(x, y)` and `logits = model(x)`."""
        for second in sorted(self.regions, key=lambda found: found.region.first.order):
            first = next((one for one in self.regions if _ends_before(one.region, second.region)), None)
            if first is not None:
                joined = Region(first.region.block, first.region.first, second.region.last)
                self.regions[self.regions.index(first)] = EvaluationRegion(joined, [*first.floats, *second.floats])
                self.regions.remove(second)

    def _leave_evaluations_behind(self, function: Function, seen: set[Function]) -> None:
        """`loss = self.train_step(batch)` under no_grad: a function runs the model for the training as well."""
        if function in seen:
            return
        seen.add(function)
        for site in self.facts.calls.callers(function):
            if self._may_be_covered(site.statement, set()) or site.statement in self.left:
                continue
            if self._has_no_gradients(site.statement):
                if not self._trains(site.caller):
                    self.left[site.statement] = _TRAINS
            else:
                self._leave_evaluations_behind(site.caller, seen)

    def _merge_arms(self) -> None:
        """Where both arms of an `if` are regions as a whole, the `if` is one."""
        for first in list(self.regions):
            holder = first.region.block.owner
            if holder is None or not isinstance(holder.node, cst.If) or holder.is_elif:
                continue
            arms = [found for block in holder.blocks for found in self.regions if _is_all_of(found.region, block)]
            if first in arms and len(arms) == 2:
                merged = Region(holder.block, holder, holder)
                floats = [load for arm in arms for load in arm.floats]
                self.regions = [found for found in self.regions if found not in arms]
                self.regions.append(EvaluationRegion(merged, list(dict.fromkeys(floats))))

    def _leave_both_arms(self) -> None:
        """One precision for an `if`: where a forward in one arm is left alone, the forward in the other is, too."""
        for found in list(self.regions):
            holder = found.region.block.owner
            others = holder.blocks if holder is not None and isinstance(holder.node, cst.If) else []
            beside = (one for block in others if block is not found.region.block for one in block.statements)
            if any(left.inside(one) for one in beside for left in self.left):
                self.regions.remove(found)
                self.left[found.region.first] = _OTHER_ARM

    def _is_open_forward(self, statement: Statement) -> bool:
        if not self.forwards.runs_model_here(statement):
            return False
        if self._is_covered(statement, frozenset()):
            return False
        if self._casts_off(statement) == {True}:
            return False
        return not any(found.region.covers(statement) for found in self.regions)

    def _is_covered(self, statement: Statement, seen: frozenset[Function]) -> bool:
        """True in a region, and in a function that is only ever called in one."""
        if any(region.covers(statement) for region in self.covered):
            return True
        function = statement.function
        callers = self.facts.calls.callers(function)
        if not callers or function in seen or self.facts.calls.value_uses(function):
            return False
        return all(self._is_covered(site.statement, seen | {function}) for site in callers)

    def _casts_off(self, statement: Statement) -> set[bool]:
        """Whether `amp.disable_casts()` holds where a statement runs: around it, or around calls that lead to it."""
        off: set[bool] = set()
        waiting, seen = [statement], set()
        while waiting and self.found.no_casts:
            one = waiting.pop()
            callers = self.facts.calls.callers(one.function)
            if any(has_no_casts(outer, self.found) for outer in one.path()[:-1]):
                off.add(True)
            elif not callers:
                off.add(False)
            elif one.function not in seen:
                seen.add(one.function)
                waiting += [site.statement for site in callers]
        return off

    def _trains(self, function: Function) -> bool:
        """True for a function that runs a model with gradients, too: the forward without them is a teacher's."""
        return any(
            self.forwards.runs_model_here(one) and not self._has_no_gradients(one) for one in function.descendants()
        )

    def _may_be_covered(self, statement: Statement, seen: set[Function]) -> bool:
        """True in a region, and in a function that a region runs, be it among others: a teacher's forward."""
        if any(region.covers(statement) for region in self.covered):
            return True
        if statement.function in seen:
            return False
        seen.add(statement.function)
        return any(self._may_be_covered(one.statement, seen) for one in self.facts.calls.callers(statement.function))

    def _has_no_gradients(self, statement: Statement) -> bool:
        """True under no_grad, in a function decorated with it, or in one that only evaluates."""
        if any(is_no_grad(self.facts, outer) for outer in statement.path()[:-1]):
            return True
        functions = takewhile(lambda one: isinstance(one.node, cst.FunctionDef), statement.function.around)
        return any(has_no_gradients(self.facts, one) or self._only_evaluates(one) for one in functions)

    def _only_evaluates(self, function: Function) -> bool:
        calls = {called_name(call) for inner in function.descendants() for call in self.facts.tree.calls(inner)}
        return "eval" in calls and calls.isdisjoint(("backward", "step", "grad"))

    # -- one region -------------------------------------------------------------------------------------

    def _region(self, statement: Statement) -> EvaluationRegion | str:
        """A region, or why there is none."""
        node = statement.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            return _UNNAMED
        if self._generates(node.value):
            return _UNSURE
        names = plain_names(node.targets[0].target)
        if names is None or isinstance(node.value, (cst.ListComp, cst.List, cst.Tuple, cst.DictComp)):
            return _UNNAMED
        half = set(names_of_halves(self.facts, node))
        last = statement
        for following in statement.next_siblings():
            if self._belongs(following, {*names}, half):
                names.extend(path[0] for path in writes(following))
                last = following
            elif not self._runs_alike(following, {*names}):
                break
        region = Region(statement.block, statement, last)
        floats: list[cst.Name] = []
        for name in sorted(half):
            leaving = self._leaving(name, region)
            if leaving is None:
                return _UNSURE
            unsure = len(names) > 1 or self._may_be_ids(name, region)
            if leaving and unsure and not self._is_floating(name, region):
                return _UNSURE
            floats.extend(leaving)
        return EvaluationRegion(region, floats)

    def _belongs(self, statement: Statement, made: set[str], half: set[str]) -> bool:
        """Losses on the results; softmax and the like, which are float32; parts taken out of them, and what the next
        model makes of them, stay half.
        """
        node = statement.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            return False
        used = {path[0] for path in own_reads(statement)}
        names = plain_names(node.targets[0].target)
        if names is None or not used & made:
            return False
        if isinstance(node.value, (cst.Name, cst.Subscript)):
            half.update(names)
            return True
        if not isinstance(node.value, cst.Call):
            return False
        if self.forwards.runs_model_here(statement) and not self._generates(node.value):
            half.update(names_of_halves(self.facts, node))
            return True
        if self._is_never_half(node.value):
            half.difference_update(names)  # `output = output.float()`
            return True
        return self._is_loss(node.value)

    def _runs_alike(self, statement: Statement, made: set[str]) -> bool:
        """True for messages, and names of what is computed already: with autocast as without, of half as of float."""
        node = statement.node
        if statement.blocks or not (only_says(statement) or (isinstance(node, cst.Assign) and only_looks(node.value))):
            return False
        written = {path[0] for path in writes(statement)}
        parts = list(self.facts.tree.expressions(statement))
        given = [arg.value for part in parts if isinstance(part, cst.Call) for arg in part.args]
        is_computed = any(isinstance(part, cst.BinaryOperation) for part in parts)
        loads = [part for part in parts if isinstance(part, cst.Name) and part.value in made - written]
        if is_computed or written & made or not all(map(only_looks, given)):
            return False
        return all(self.tensors.is_neutral(load) for load in loads)

    def _is_never_half(self, call: cst.Call) -> bool:
        """True for an operation of torch that runs in float32, or makes no floating tensor."""
        is_operation = self.facts.analysis(Steps).calls.is_operation(call)
        return is_operation and HALF not in self.facts.analysis(values_as_written).of(call).dtypes

    def _is_loss(self, call: cst.Call) -> bool:
        name = called_name(call).lower()
        return "loss" in name or "criterion" in name or name in models.names(in_float32)

    def _generates(self, node: cst.BaseExpression) -> bool:
        """Generated ids are no floating tensors, and decoding loops are best left alone."""
        return any(
            isinstance(part, cst.Call) and any(word in called_name(part) for word in ("generate", "decode", "sample"))
            for part in walk(node)
        )

    # -- what leaves ------------------------------------------------------------------------------------

    def _leaving(self, name: str, region: Region) -> list[cst.Name] | None:
        """The loads of a half result after its region that need `.float()`; None where that is not certain."""
        loads = list(_loads_after(self.facts, name, region))
        leaving = [load for load in loads if not self.tensors.is_neutral(load)]
        if not leaving:
            return []
        if self._may_be_rebound(name, region) or any(self.tensors.asks_dtype(load) for load in loads):
            return None
        inside = self._loads_in(name, region)
        if not any(
            self.tensors.shows_tensor(load) for load in (*loads, *inside, *self._loads_of_product(name, region))
        ):
            return None
        if any(self.tensors.shows_other(load) for load in (*loads, *inside)):
            return None
        return leaving

    def _may_be_ids(self, name: str, region: Region) -> bool:
        """True where a result is compared or indexes something, and for `model(x, None)`: without targets many models
        return predictions.
        """
        loads = self.facts.names.loads_visible(name, region.function)
        forwards = [call for call in self.facts.tree.calls(region.first) if self.forwards.is_forward(call)]
        given = [value for call in forwards for arg in call.args for value in _items(arg.value)]
        return any(self.tensors.shows_ids(load) for load in loads) or any(
            isinstance(value, cst.Name) and value.value == "None" for value in given
        )

    def _is_floating(self, name: str, region: Region) -> bool:
        """One of several outputs may hold ids: `.float()` on them would change what they index."""
        loads = (*_loads_after(self.facts, name, region), *self._loads_in(name, region))
        return any(self.tensors.shows_floating(load) for load in loads)

    def _may_be_rebound(self, name: str, region: Region) -> bool:
        """True where the name gets another value in a branch or a loop, and is read after it."""
        for statement in _what_follows(region.last):
            if (name,) in writes(statement) and isinstance(statement.node, cst.Assign):
                return False
            branches = (inner for inner in statement.descendants() if inner is not statement)
            if any((name,) in writes(inner) and not self._stays_tensor(inner) for inner in branches):
                return True
        return False

    def _stays_tensor(self, statement: Statement) -> bool:
        """False for `out = out.cpu().numpy()`, and for values that are not computed by a call."""
        node = statement.node
        if not isinstance(node, cst.Assign) or not isinstance(node.value, (cst.Call, cst.BinaryOperation)):
            return False
        words = traits.named("leaves torch") | {"decode", "join", "format", "str", "list", "dict"}
        return not any(any(word in called_name(call) for word in words) for call in self.facts.tree.calls(statement))

    def _loads_of_product(self, name: str, region: Region) -> Iterator[cst.Name]:
        """Loads after `x = x * c`: what they show of x holds before the product too."""
        loads = self.facts.names.loads_visible(name, region.function)
        rescaled = False
        for statement in _what_follows(region.last):
            if rescaled:
                yield from (load for load in loads if self.facts.tree.statement_of(load).inside(statement))
            if (name,) in writes(statement) and isinstance(statement.node, cst.Assign):
                value = statement.node.value
                rescaled = isinstance(value, cst.BinaryOperation) and not isinstance(value.operator, cst.Add)
                if not rescaled:
                    return

    def _loads_in(self, name: str, region: Region) -> list[cst.Name]:
        loads = self.facts.names.loads_visible(name, region.function)
        return [load for load in loads if region.covers(self.facts.tree.statement_of(load))]


def _items(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [element.value for element in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else [node]


def _ends_before(region: Region, other: Region) -> bool:
    """True where nothing stands between two regions."""
    return next(iter(region.last.next_siblings()), None) is other.first


def _is_all_of(region: Region, block: Block) -> bool:
    return region.block is block and region.first is block.statements[0] and region.last is block.statements[-1]


def _loads_after(facts: Facts, name: str, region: Region) -> Iterator[cst.Name]:
    """The loads after the region, up to the statement that certainly gives the name another value."""
    variable = facts.names.visible(name, region.function)
    for load in variable.loads if variable is not None else ():
        at = facts.tree.statement_of(load)
        if at.function is region.function and at.order > region.last.order and not region.covers(at):
            bound = [one.statement for one in reaching(variable, at)] if variable is not None else []
            if any(one is not None and region.covers(one) for one in bound):
                yield load


def _what_follows(statement: Statement) -> Iterator[Statement]:
    """What runs after a statement in its function: later siblings, then those of what holds it."""
    current: Statement | None = statement
    while current is not None:
        yield from current.next_siblings()
        current = current.block.owner


def asks_anew(facts: Facts, function: Function, enabled: str) -> bool:
    """True where a condition reads an attribute of a parameter that the function did not read: `args.fp16`.

    Who calls it from another script may have options without it.
    """
    params = {param.name.value for param in function.parameters}
    asked = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(enabled, mode="eval"))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in params
    }
    parts = (part for statement in function.descendants() for part in facts.tree.expressions(statement))
    return not asked <= {source_key(part) for part in parts if isinstance(part, cst.Attribute)}
