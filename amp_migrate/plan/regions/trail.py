"""Values followed back to what made them, through the code of a unit.

    loss = bce(mask, y)  <-  mask = outputs["masks"][scale]  <-  outputs["masks"] = decoder(features)
                         <-  return masks  <-  masks.append(torch.sigmoid(head(x)))

The trail goes through names, parameters, attributes, lists, tuples and dicts with their keys, loops, functions, and the
forwards of modules. A call is followed with its own arguments, so that a helper that many call leads to nobody else's.
"""

from __future__ import annotations

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY, Key, Put, constant_key, key_of, may_be_same, puts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.plan.regions.operations import (
    FRESH,
    JOINING,
    LAYERS_OF_ONE,
    LIKE,
    OF_ONE,
    OF_SEVERAL,
    keeps_float32,
)
from amp_migrate.plan.regions.run_forwards import RunForwards, argument, replicated

Keys = tuple[Key, ...]

_MOST = 3000  # places on one trail
_DEEPEST = 6  # keys, of containers in containers
_SAME_ELEMENTS = frozenset("list tuple sorted reversed iter dict OrderedDict set deque copy deepcopy tqdm".split())
_OF_MODULES = frozenset("OrderedDict deque copy deepcopy tqdm".split())


@dataclasses.dataclass(frozen=True)
class Field:
    """The key of `outputs.masks`, where the object is what a call has made of keywords."""

    name: str


@dataclasses.dataclass(frozen=True)
class Frame:
    """A function that the trail has entered by its end, and the call that ran it; None where that is not one call."""

    function: Function
    call: cst.Call | None


Frames = tuple[Frame, ...]


class Lost(Exception):
    """Some of the value comes from where the trail does not lead."""


@dataclasses.dataclass(frozen=True)
class _Place:
    node: cst.BaseExpression
    keys: Keys
    frames: Frames


class Trail(ABC):
    """Follows one value after the other; `is_source` says where a trail may end."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._forwards = RunForwards(facts)
        self._waiting: list[_Place] = []

    @abstractmethod
    def is_source(self, node: cst.BaseExpression) -> bool:
        """True for what is looked for."""

    def walk(self, value: cst.BaseExpression) -> None:
        """Show `is_source` all that makes a value. Raises Lost where some of it comes from elsewhere."""
        seen: set[_Place] = set()
        self._waiting = [_Place(value, (), ())]
        while self._waiting:
            place = self._waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > _MOST or len(place.keys) > _DEEPEST:
                raise Lost
            self._follow(place.node, place.keys, place.frames)

    def _go(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        self._waiting.append(_Place(node, keys, frames))

    def _jump(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        """Go to what may stand in another function: calls that have not led there are forgotten."""
        function = self.facts.tree.function_of(node)
        while frames and not frames[-1].function.encloses(function):
            frames = frames[:-1]
        self._go(node, keys, frames)

    # -- expressions ------------------------------------------------------------------------------------

    def _follow(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        if literal_value(node) is not UNKNOWN and not isinstance(node, (cst.Tuple, cst.List)):
            return
        if self.is_source(node):
            return
        if isinstance(node, cst.Name):
            self._name(node, keys, frames)
        elif isinstance(node, cst.Attribute):
            self._attribute(node, keys, frames)
        elif isinstance(node, cst.Subscript):
            is_slice = any(not isinstance(item.slice, cst.Index) for item in node.slice)
            self._go(node.value, keys if is_slice else (key_of(node), *keys), frames)
        elif isinstance(node, cst.Call):
            self._call(node, keys, frames)
        elif isinstance(node, cst.BinaryOperation):
            self._operation(node, keys, frames)
        elif isinstance(node, cst.UnaryOperation):
            self._go(node.expression, keys, frames)
        elif isinstance(node, (cst.IfExp, cst.BooleanOperation)):
            arms = (node.body, node.orelse) if isinstance(node, cst.IfExp) else (node.left, node.right)
            for arm in arms:
                self._go(arm, keys, frames)
        elif isinstance(node, cst.NamedExpr):
            self._go(node.value, keys, frames)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            self._go(node.elt, keys[1:], frames)
        elif isinstance(node, cst.DictComp):
            self._go(node.value, keys[1:], frames)
        elif not isinstance(node, cst.Comparison):  # zeros and ones
            self._display(node, keys, frames)
        if isinstance(node, (cst.List, cst.Dict, cst.ListComp, cst.DictComp)):
            self._put(node, keys, frames)

    def _operation(self, node: cst.BinaryOperation, keys: Keys, frames: Frames) -> None:
        if isinstance(node.operator, cst.MatrixMultiply):
            raise Lost  # in half
        operands = (node.left, node.right)
        lists = [one for one in operands if isinstance(one, cst.List)]
        for operand in lists if lists and isinstance(node.operator, cst.Multiply) else operands:  # `[stop] * r`
            self._go(operand, _of_any(keys), frames)

    def _display(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            is_exact = True
            for index, element in enumerate(node.elements):
                if isinstance(element, cst.StarredElement):
                    is_exact = False  # what follows a star has no fixed position
                    self._go(element.value, _of_any(keys), frames)
                elif not keys or not is_exact or self._is_at(index, keys[0], len(node.elements)):
                    self._go(element.value, keys[1:], frames)
        elif isinstance(node, cst.Dict):
            for item in node.elements:
                if isinstance(item, cst.StarredDictElement):
                    self._go(item.value, keys, frames)
                elif isinstance(item, cst.DictElement):
                    if not keys or may_be_same(constant_key(item.key), keys[0]):
                        self._go(item.value, keys[1:], frames)
        else:
            raise Lost

    def _is_at(self, index: int, key: Key, length: int) -> bool:
        return not isinstance(key, int) or key % length == index

    # -- names and attributes ---------------------------------------------------------------------------

    def _name(self, node: cst.Name, keys: Keys, frames: Frames) -> None:
        variable = self.facts.names.variable_at(node)
        if variable is None:
            raise Lost
        self._bindings(variable, node, keys, frames)
        self._put(node, keys, frames)
        for put in self._puts if not keys else ():  # into the tensor itself: `p[mask] = q`
            if isinstance(put.base, cst.Name) and not put.merges and self.facts.names.variable_at(put.base) is variable:
                self._jump(put.value, put.selector, frames)

    def _bindings(self, variable: Variable, node: cst.Name, keys: Keys, frames: Frames) -> None:
        bindings = reaching(variable, self.facts.tree.statement_of(node))
        if not bindings:
            raise Lost
        for binding in bindings:
            if binding.kind == "param":
                self._parameter(variable, binding, keys, frames)
            elif binding.value is None or binding.kind not in ("assign", "augment", "for"):
                raise Lost
            elif binding.kind == "for":
                self._jump(binding.value, (ANY, *binding.selector, *keys), frames)
            else:
                self._jump(binding.value, (*binding.selector, *keys), frames)
                if binding.kind == "augment" and isinstance(binding.node, cst.Name) and binding.node is not node:
                    self._go(binding.node, keys, frames)  # what it had before

    def _parameter(self, variable: Variable, binding: Binding, keys: Keys, frames: Frames) -> None:
        function = variable.scope.owner
        param = binding.node
        if not isinstance(function, Function) or not isinstance(param, cst.Param) or param.star:
            raise Lost
        while frames and frames[-1].function is not function:
            frames = frames[:-1]
        calls = [frames[-1].call] if frames else self._forwards.calls_of(function)
        if not calls:
            raise Lost
        for call in calls:
            given = argument(self.facts, call, function, param) if call is not None else None
            if given is None:
                raise Lost
            if given is param.default:
                self._jump(given, keys, ())
            elif frames:
                self._go(given, keys, frames[:-1])
            else:
                self._jump(given, keys, ())

    def _attribute(self, node: cst.Attribute, keys: Keys, frames: Frames) -> None:
        if node.attr.value in ("data", "T", "mT"):
            self._go(node.value, (), frames)
            return
        values = self.facts.objects.values_of(node)
        for value in values:
            self._jump(value, keys, frames)
        if not values:
            self._go(node.value, (Field(node.attr.value), *keys), frames)
        self._put(node, keys, frames)

    # -- containers -------------------------------------------------------------------------------------

    @cached_property
    def _puts(self) -> list[Put]:
        return puts(self.facts.tree)

    def _put(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> bool:
        """What other statements put into what an expression means; False where none do."""
        if not keys or isinstance(keys[0], Field):
            return False
        found = False
        mine = self.facts.objects.objects(node)
        for put in self._puts:
            if put.base is not node and (put.merges or may_be_same(put.key, keys[0])):
                if mine & self.facts.objects.objects(put.base):
                    found = True
                    if put.merges:
                        self._jump(put.value, _of_any(keys) if isinstance(keys[0], int) else keys, frames)
                    else:
                        self._jump(put.value, (*put.selector, *keys[1:]), frames)
        return found

    # -- calls ------------------------------------------------------------------------------------------

    def _call(self, node: cst.Call, keys: Keys, frames: Frames) -> None:
        functions = [one for one in self.facts.objects.candidates(node) if one.name != "__init__"]
        functions = functions or self._forwards.of_call(node)
        if functions:
            for function in functions:
                self._returned(function, node, keys, frames)
        elif not self._of_containers(node, keys, frames) and not self._of_torch(node, frames):
            raise Lost
        self._put(node, keys, frames)

    def _returned(self, function: Function, call: cst.Call | None, keys: Keys, frames: Frames) -> None:
        values = self.facts.objects.returned_by(function)
        if not values or any(frame.function is function for frame in frames):
            raise Lost
        for value in values:
            self._go(value, keys, (*frames, Frame(function, call)))

    def _of_torch(self, node: cst.Call, frames: Frames) -> bool:
        """The operands of an operation of torch; False for what is none."""
        name = called_name(node)
        is_method = isinstance(node.func, cst.Attribute) and not self._is_of_torch(node)
        if not is_method and not self._is_of_torch(node):
            return self._is_layer_of_one(node) and self._first(node, frames)
        operands = [arg.value for arg in node.args if not arg.star and _is_operand(arg)]
        if is_method and isinstance(node.func, cst.Attribute):
            operands.insert(0, node.func.value)
        if name in FRESH:
            if self._put(node, (ANY,), frames) and name in LIKE and operands:
                self._go(operands[0], (), frames)  # what is put into it takes its dtype
            return True
        if name in JOINING and operands:
            self._go(operands[0], (ANY,), frames)
        elif name == "where" and len(operands) == 3:
            for operand in operands[:1] + operands[2:] if is_method else operands[1:]:
                self._go(operand, (), frames)
        elif name in OF_SEVERAL or (name in ("max", "min") and len(operands) > 1):
            for operand in operands:
                self._go(operand, (), frames)
        elif name in OF_ONE and operands and not self._may_cast_to_half(node, name):
            self._go(operands[0], (), frames)
        else:
            return self._is_layer_of_one(node) and self._first(node, frames)
        return True

    def _may_cast_to_half(self, node: cst.Call, name: str) -> bool:
        given = [arg.value for arg in node.args if arg.keyword is None or arg.keyword.value == "dtype"]
        return name in ("to", "type") and not all(keeps_float32(self.facts.text(value)) for value in given)

    def _is_of_torch(self, node: cst.Call) -> bool:
        return (self.facts.names.dotted(node.func) or "").startswith("torch.")

    def _is_layer_of_one(self, node: cst.Call) -> bool:
        if not isinstance(node.func, (cst.Name, cst.Attribute)):
            return False
        origins = [one.origin for one in self.facts.objects.objects(node.func)]
        return bool(origins) and all(isinstance(one, cst.Call) and called_name(one) in LAYERS_OF_ONE for one in origins)

    def _first(self, node: cst.Call, frames: Frames) -> bool:
        if len(node.args) != 1 or node.args[0].star:
            return False
        self._go(node.args[0].value, (), frames)
        return True

    def _of_containers(self, node: cst.Call, keys: Keys, frames: Frames) -> bool:
        """What is read of a container by a call: `outputs.get("mask")`, `zip(masks, depths)`."""
        name = called_name(node)
        args = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        if isinstance(node.func, cst.Attribute) and not self._is_of_torch(node):
            receiver = node.func.value
            if name in ("get", "setdefault", "pop"):
                self._go(receiver, (constant_key(args[0]) if args and name != "pop" else ANY, *keys), frames)
                for default in args[1:]:
                    self._go(default, keys, frames)
                return True
            if name in ("values", "copy"):
                self._go(receiver, _of_any(keys) if name == "values" else keys, frames)
                return True
            if name == "items":
                if len(keys) > 1 and may_be_same(keys[1], 1):
                    self._go(receiver, (ANY, *keys[2:]), frames)
                return True
        if (self.facts.names.dotted(node.func) or "").startswith("torch.nn.parallel.") and args:
            return self._in_parallel(name, args, keys, frames)
        if name in _SAME_ELEMENTS and (isinstance(node.func, cst.Name) or name in _OF_MODULES):
            for given in node.args:
                if given.keyword is None:
                    self._go(given.value, _of_any(keys), frames)
                elif name in ("dict", "OrderedDict") and keys and may_be_same(given.keyword.value, keys[0]):
                    self._go(given.value, keys[1:], frames)
            return True
        if name == "next" and args:
            self._go(args[0], (ANY, *keys), frames)
            return True
        if name == "enumerate" and args and len(keys) > 1:
            if may_be_same(keys[1], 1):
                self._go(args[0], (ANY, *keys[2:]), frames)
            return True
        if name == "zip" and args and len(keys) > 1:
            for index, arg in enumerate(args):
                if may_be_same(keys[1], index):
                    self._go(arg, (ANY, *keys[2:]), frames)
            return True
        field = keys[0] if keys else None
        named = [arg.value for arg in node.args if isinstance(field, Field) and _is_named(arg, field.name)]
        for value in named:
            self._go(value, keys[1:], frames)
        return bool(named)

    def _in_parallel(self, name: str, args: list[cst.BaseExpression], keys: Keys, frames: Frames) -> bool:
        if name == "gather":
            self._go(args[0], (ANY, *keys), frames)
            return True
        if name != "parallel_apply":
            return False
        forwards = self._forwards.of_module(replicated(self.facts, args[0]))
        for forward in forwards:
            self._returned(forward, None, keys[1:], frames)
        return bool(forwards)


class OpenTrail(Trail):
    """A trail that is lost in one part of a value and goes on in the others, as far as the code shows."""

    def look(self, value: cst.BaseExpression) -> None:
        """Walk as far as that, and no farther than any trail."""
        with contextlib.suppress(Lost):
            self.walk(value)

    def _follow(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        with contextlib.suppress(Lost):
            super()._follow(node, keys, frames)


def _of_any(keys: Keys) -> Keys:
    return (ANY, *keys[1:]) if keys else keys


def _is_named(arg: cst.Arg, name: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == name


def _is_operand(arg: cst.Arg) -> bool:
    return arg.keyword is None or arg.keyword.value in ("input", "other", "tensors")
