"""One step back from a value to what it comes from, for each kind of expression.

    loss = bce(mask, y)  <-  mask = outputs["masks"][scale]  <-  outputs["masks"] = decoder(features)
                         <-  return masks  <-  masks.append(torch.sigmoid(head(x)))

A step goes through names, parameters, attributes, lists, tuples and dicts with their keys, loops, functions, and the
forwards of modules. A call is followed with its own arguments, so that a helper that many call leads to nobody else's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY, Key, Put, constant_key, key_of, may_be_same
from amp_migrate.facts.object import Object
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.stores import Store
from amp_migrate.facts.tree import Class, Function, called_name, walk
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.interp.calls import SINGLE, Calls
from amp_migrate.interp.containers import Containers
from amp_migrate.interp.place import Field, Frame, Frames, Keys, Place, of_any
from amp_migrate.interp.step import CONSTANT, LOST, Made, Step, either
from amp_migrate.models import traits

_OPERATORS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "__add__",
    cst.Subtract: "__sub__",
    cst.Multiply: "__mul__",
    cst.Divide: "__truediv__",
    cst.FloorDivide: "__floordiv__",
    cst.Modulo: "__mod__",
    cst.Power: "__pow__",
    cst.MatrixMultiply: "__matmul__",
    cst.BitAnd: "__and__",
    cst.BitOr: "__or__",
    cst.BitXor: "__xor__",
    cst.LeftShift: "__lshift__",
    cst.RightShift: "__rshift__",
}
_COMPARING: dict[type[cst.BaseCompOp], str] = {
    cst.LessThan: "__lt__",
    cst.LessThanEqual: "__le__",
    cst.GreaterThan: "__gt__",
    cst.GreaterThanEqual: "__ge__",
    cst.NotEqual: "__ne__",
}
# What layers of torch call their parameters.
_WEIGHTS = frozenset("weight bias in_proj_weight in_proj_bias".split())
_LISTS = (cst.List, cst.ListComp, cst.Tuple)

_DEEPEST = 6  # keys, of containers in containers
_MOST_PLACES = 100  # on the way to what a key may be


class Steps:
    """Where the values of a unit's expressions come from. Each step is worked out once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.calls = facts.analysis(Calls)
        self._containers = facts.analysis(Containers)
        self._known: dict[Place, Step] = {}
        self._strings: dict[cst.BaseExpression, Sequence[Key]] = {}

    def of(self, place: Place) -> Step:
        """What a value is made of, one step back."""
        step = self._known.get(place)
        if step is None:
            step = self._known[place] = self._of(place)
        return step

    def _of(self, place: Place) -> Step:
        node = place.node
        if len(place.keys) > _DEEPEST:  # a function may go into containers of containers by calling itself
            return LOST
        if literal_value(node) is not UNKNOWN and not isinstance(node, (cst.Tuple, cst.List)):
            return CONSTANT
        match node:
            case cst.Name():
                return self._name(node, place)
            case cst.Attribute():
                return self._attribute(node, place)
            case cst.Subscript():
                is_slice = any(not isinstance(item.slice, cst.Index) for item in node.slice)
                keys = place.keys if is_slice else (key_of(node), *place.keys)
                return Step((Place(node.value, keys, place.frames),))
            case cst.Call():
                return either([self.calls.of(node, place), self._put(node, place)])
            case cst.BinaryOperation():
                return self._arithmetic(node, place)
            case cst.UnaryOperation():
                return self._unary(node, place)
            case cst.IfExp():
                return _same([node.body, node.orelse], place)
            case cst.BooleanOperation():
                return _same([node.left, node.right], place)
            case cst.NamedExpr():
                return _same([node.value], place)
            case cst.Comparison():
                operands = (node.left, *(one.comparator for one in node.comparisons))
                name = _COMPARING.get(type(node.comparisons[0].operator), "__eq__")
                return _made(node, name, operands, place.frames)
        return either([self._display(node, place), self._put(node, place)])

    # -- operators --------------------------------------------------------------------------------------

    def _arithmetic(self, node: cst.BinaryOperation, place: Place) -> Step:
        operands = (Place(node.left, place.keys, place.frames), Place(node.right, place.keys, place.frames))
        if place.keys and any(self._is_listed(one.node) for one in operands):  # `[stop] * r`
            if isinstance(node.operator, cst.Add):
                return _joined(*operands)
            listed = (one for one in operands if self._is_listed(one.node))
            return Step(tuple(dataclasses.replace(one, keys=of_any(one.keys)) for one in listed))
        made = _made(node, _OPERATORS[type(node.operator)], (node.left, node.right), place.frames)
        return dataclasses.replace(made, is_container=self._is_listed(node.right))

    def _is_listed(self, node: cst.BaseExpression) -> bool:
        """True for a list or a tuple, also under a name, and for what is joined to one."""
        if isinstance(node, cst.BinaryOperation):
            return self._is_listed(node.left) or self._is_listed(node.right)
        return any(one.kind == "display" and isinstance(one.origin, _LISTS) for one in self.facts.objects.objects(node))

    def _unary(self, node: cst.UnaryOperation, place: Place) -> Step:
        if isinstance(node.operator, cst.Not):
            return CONSTANT
        name = "__invert__" if isinstance(node.operator, cst.BitInvert) else "__neg__"
        return _made(node, name, (node.expression,), place.frames)

    def _display(self, node: cst.BaseExpression, place: Place) -> Step:
        keys, frames = place.keys, place.frames
        if isinstance(node, (cst.ListComp, cst.GeneratorExp, cst.SetComp)):
            return Step((Place(node.elt, keys[1:], frames),))
        if isinstance(node, cst.DictComp):
            return Step((Place(node.value, keys[1:], frames),))
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            return Step(tuple(_elements(node, keys, frames)))
        if isinstance(node, cst.Dict):
            return Step(tuple(_items(node, keys, frames)))
        return LOST

    # -- names and attributes ---------------------------------------------------------------------------

    def _name(self, node: cst.Name, place: Place) -> Step:
        variable = self.facts.names.variable_at(node)
        if variable is None:
            return LOST
        bindings = reaching(variable, self.facts.tree.statement_of(node))
        steps = [self._binding(variable, one, place) for one in bindings] or [LOST]
        written = [] if place.keys else self._written_into.get(variable, [])
        into = tuple(self._elsewhere(put.value, put.selector, place.frames) for put in written)
        return either([*steps, self._put(node, place), Step(written=into)])

    @cached_property
    def _written_into(self) -> dict[Variable, list[Put]]:
        """What is written in place into a tensor, by the variable that holds it: `p[mask] = q`."""
        found: dict[Variable, list[Put]] = {}
        for put in self._containers.puts:
            variable = self.facts.names.variable_at(put.base)
            if variable is not None and not put.merges:
                found.setdefault(variable, []).append(put)
        return found

    def _binding(self, variable: Variable, binding: Binding, place: Place) -> Step:
        keys, frames = place.keys, place.frames
        if binding.kind == "param":
            return self._parameter(variable, binding, place)
        if binding.value is None or binding.kind not in ("assign", "augment", "for"):
            return LOST
        if binding.kind == "for":
            return Step((self._elsewhere(binding.value, (ANY, *binding.selector, *keys), frames),))
        value = self._elsewhere(binding.value, (*binding.selector, *keys), frames)
        if binding.kind == "assign" or not isinstance(binding.node, cst.Name) or binding.node is place.node:
            return Step((value,))
        return self._augmented(binding, Place(binding.node, keys, frames), value)

    def _augmented(self, binding: Binding, before: Place, value: Place) -> Step:
        """`x += y`: in place where x is a tensor, and x + y where it is a number."""
        if before.keys:
            return _joined(before, value)
        statement = binding.statement.node if binding.statement is not None else None
        operator = statement.operator if isinstance(statement, cst.AugAssign) else None
        name = _IN_PLACE.get(type(operator)) if operator is not None else None
        operation = models.method(name) if name is not None else None
        return Step(made=(Made(before.node, (operation,), (before, value)),), is_container=self._is_listed(value.node))

    def _parameter(self, variable: Variable, binding: Binding, place: Place) -> Step:
        function, param = variable.scope.owner, binding.node
        if not isinstance(function, Function) or not isinstance(param, cst.Param):
            return LOST
        frames = place.frames
        while frames and frames[-1].function is not function:
            frames = frames[:-1]
        if frames:
            runs = self.calls.runs_of(function) if self._is_inside(frames[-1], function) else []
            again = [(*frames[:-1], one) for one in runs if self._is_inside(one, function)]
            return either([self.calls.given(frames[-1], param, place.keys, one) for one in (frames[:-1], *again)])
        set_to = self._set_to(function) if variable.name != function.receiver else []
        if set_to:
            return Step(tuple(self._elsewhere(one.value, (*one.selector, *place.keys), ()) for one in set_to))
        runs = self.calls.runs_of(function)
        default = [] if param.default is None else [Place(param.default, place.keys)]
        return either([self.calls.given(run, param, place.keys, ()) for run in runs] or [LOST, Step(tuple(default))])

    def _is_inside(self, frame: Frame, function: Function) -> bool:
        """True for a function that calls itself."""
        return frame.call is not None and function.encloses(self.facts.tree.function_of(frame.call))

    def _set_to(self, function: Function) -> list[Store]:
        """What runs the setter of a property: `t.value = x`."""
        named = (one.decorator for one in function.decorators)
        is_setter = any(isinstance(one, cst.Attribute) and one.attr.value == "setter" for one in named)
        return self.facts.objects.stores_of(function.name) if is_setter else []

    def _attribute(self, node: cst.Attribute, place: Place) -> Step:
        dotted = self.facts.names.dotted(node) or ""
        if dotted.rpartition(".")[0] in ("math", "numpy", "torch"):
            return CONSTANT if dotted.rpartition(".")[2] in traits.named("constant") else LOST
        if node.attr.value in traits.named("description"):
            return CONSTANT
        computed = self._property(node, place)
        if computed is not None:
            return computed
        values = self.facts.objects.values_of(node) + self.buffers.get(node.attr.value, [])
        given: list[tuple[cst.BaseExpression, tuple[int, ...]]] = [(value, ()) for value in values]
        given += [(value, selector) for value, selector in self.facts.objects.unpacked(node) if selector]
        if not values and self._is_weight(node):
            return Step(made=(Made(node, (models.function("torch.nn.Parameter"),), (), cast=SINGLE),))
        row = models.method(node.attr.value) if not given else None
        if row is not None and row.kind == "property":
            return Step(made=(Made(node, (row,), (Place(node.value, (), place.frames),)),))
        by_name = [] if given else self._set_by_name(node)
        if by_name:
            found = Step(tuple(self._elsewhere(one, place.keys, place.frames) for one in by_name), is_lost=True)
            return either([found, self._put(node, place)])
        parts = [(value, (*selector, *place.keys)) for value, selector in given]
        stored = [self._elsewhere(value, keys, place.frames) for value, keys in parts]
        stored += [Place(value, keys) for value, keys in parts if not self._is_set_before(value, node)]
        owners = (one.origin for one in self.facts.objects.objects(node.value))
        is_given = any(isinstance(one, Class) and node.attr.value in one.fields for one in owners)
        if is_given or all(self._reads(value, node) for value, _ in given):  # by a call, or before: `b.x = b.x.to(gpu)`
            stored.append(Place(node.value, (Field(node.attr.value), *place.keys), place.frames))
        return either([Step(tuple(dict.fromkeys(stored))), self._put(node, place)])

    def _set_by_name(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """What `setattr(self, name, value)` may set of an object: any attribute of it."""
        meant, objects = self.facts.objects.objects(node.value), self.facts.objects
        return [one.value for one in objects.stores_of("") if meant & objects.objects(one.base)]

    def _reads(self, value: cst.BaseExpression, node: cst.Attribute) -> bool:
        """True for a value that is made of what an attribute was before."""
        parts = (part for part in walk(value) if isinstance(part, cst.Attribute) and part.attr.value == node.attr.value)
        return any(self.facts.text(part) == self.facts.text(node) for part in parts)

    def _is_set_before(self, value: cst.BaseExpression, node: cst.Attribute) -> bool:
        """True where each call of the function that reads an attribute has given it a value before."""
        setter = self.facts.tree.statement_of(value)
        around = self.facts.tree.statement_of(node).path()
        return any(one.block is setter.block and one.index > setter.index for one in around)

    def _property(self, node: cst.Attribute, place: Place) -> Step | None:
        """What a property of a class of the unit returns."""
        functions = self.facts.objects.properties(node)
        return either([self.calls.returned(Frame(one, None), place) for one in functions]) if functions else None

    def _is_weight(self, node: cst.Attribute) -> bool:
        """True for the weight of a layer of torch: autocast leaves it in float32, whatever the layer returns."""
        if node.attr.value not in _WEIGHTS or not isinstance(node.value, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        made = [one.origin for one in self.facts.objects.objects(node.value)]
        return bool(made) and all(isinstance(one, cst.Call) and self._is_layer(one) for one in made)

    def _is_layer(self, maker: cst.Call) -> bool:
        return (self.facts.names.dotted(maker.func) or "").startswith("torch.nn.")

    @cached_property
    def buffers(self) -> dict[str, list[cst.BaseExpression]]:
        """What is registered as a buffer, under its name: `self.register_buffer("bank", torch.zeros(n, d))`."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) == "register_buffer" and len(call.args) > 1:
                name = literal_value(call.args[0].value)
                if isinstance(name, str):
                    found.setdefault(name, []).append(call.args[1].value)
        return found

    def _elsewhere(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> Place:
        """What may stand in another function: calls that have not led there are forgotten."""
        function = self.facts.tree.function_of(node)
        while frames and not frames[-1].function.encloses(function):
            frames = frames[:-1]
        return Place(node, keys, frames)

    # -- containers -------------------------------------------------------------------------------------

    @cached_property
    def _put_into(self) -> dict[Object, list[tuple[int, Keys, Put]]]:
        """The same by the objects that the containers may be, each with its place among all, and with the keys that
        lead to it from a container around: `log["loss"].append(loss)`.
        """
        found: dict[Object, list[tuple[int, Keys, Put]]] = {}
        for number, put in enumerate(self._containers.puts):
            base: cst.BaseExpression | None = put.base
            keys: Keys = ()
            while base is not None:
                for one in self.facts.objects.objects(base):
                    found.setdefault(one, []).append((number, keys, put))
                base, keys = _around(base, keys)
        return found

    def _put(self, node: cst.BaseExpression, place: Place) -> Step:
        """What other statements put into the container that an expression means."""
        keys = place.keys
        if not keys or isinstance(keys[0], Field):
            return Step()
        found, holds_containers = [], False
        into = {put for one in self.facts.objects.objects(node) for put in self._put_into.get(one, ())}
        for _, around, put in sorted(into, key=lambda one: (one[0], len(one[1]))):
            rest = keys[len(around) :]
            is_there = all(map(may_be_same, around, keys))
            holds_containers |= is_there and not rest
            if put.base is node or not is_there or not rest or not (put.merges or self._may_be_at(put, rest[0])):
                continue
            inside = of_any(rest) if isinstance(rest[0], int) else rest
            part = inside if put.merges else (*put.selector, *rest[1:])
            found.append(self._elsewhere(put.value, part, place.frames))
        if found and self._is_tensor(node):
            return Step(written=tuple(found))
        return Step(tuple(found), is_container=holds_containers)

    def _may_be_at(self, put: Put, key: Key) -> bool:
        """False for `log[name] = value` and another key, where all that the name may be are constants."""
        around = self.facts.tree.parents.get(put.base)
        index = around.slice[0].slice if isinstance(around, cst.Subscript) and around.value is put.base else None
        names = self._constants(index.value) if put.key is ANY and isinstance(index, cst.Index) else (put.key,)
        return any(may_be_same(one, key) for one in names)

    def _constants(self, node: cst.BaseExpression) -> Sequence[Key]:
        """The strings that an expression may be; ANY where it may be anything else."""
        if node not in self._strings:
            self._strings[node] = (ANY,)  # for who asks on the way
            places, found = [Place(node)], []
            for place in places:
                step = self.of(place)
                if isinstance(place.node, cst.SimpleString) and not place.keys:
                    found.append(constant_key(place.node))
                elif not step.same or step != Step(step.same) or len(places) > _MOST_PLACES:
                    return (ANY,)
                places += [one for one in step.same if one not in places]
            self._strings[node] = tuple(found)
        return self._strings[node]

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        """True for results of operations: what is put under their keys is written into them."""
        if isinstance(node, cst.Attribute) and node.attr.value in self.buffers:
            return True
        made = [one.origin for one in self.facts.objects.objects(node)]
        return bool(made) and all(isinstance(one, cst.Call) and self.calls.is_operation(one) for one in made)


def _around(node: cst.BaseExpression, keys: Keys) -> tuple[cst.BaseExpression | None, Keys]:
    """X and the keys that lead on from it, of `X["loss"]` and `X.setdefault("loss", [])`."""
    if isinstance(node, cst.Subscript):
        return node.value, (key_of(node), *keys)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) == "setdefault":
        return node.func.value, (constant_key(node.args[0].value), *keys)
    return None, ()


_IN_PLACE: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "__iadd__",
    cst.SubtractAssign: "__isub__",
    cst.MultiplyAssign: "__imul__",
    cst.DivideAssign: "__itruediv__",
    cst.PowerAssign: "__ipow__",
    cst.BitAndAssign: "__iand__",
    cst.BitOrAssign: "__ior__",
}


def _same(nodes: list[cst.BaseExpression], place: Place) -> Step:
    return Step(tuple(Place(node, place.keys, place.frames) for node in nodes))


def _made(node: cst.BaseExpression, name: str, operands: tuple[cst.BaseExpression, ...], frames: Frames) -> Step:
    places = tuple(Place(one, (), frames) for one in operands)
    return Step(made=(Made(node, (models.method(name),), places),))


def _joined(front: Place, back: Place) -> Step:
    """An element of `front + back`, of which nobody knows where the second begins, but for what has a negative key."""
    key = front.keys[0]
    if not isinstance(key, int):
        return Step((front, back))
    if key < 0:
        return Step((dataclasses.replace(front, keys=of_any(front.keys)), back))
    return Step((front, dataclasses.replace(back, keys=of_any(back.keys))))


def _elements(node: cst.Tuple | cst.List | cst.Set, keys: Keys, frames: Frames) -> list[Place]:
    """The elements that the first key may mean; without a key, all of them."""
    found = []
    is_exact = True
    for index, element in enumerate(node.elements):
        if isinstance(element, cst.StarredElement):
            is_exact = False  # what follows a star has no fixed position
            found.append(Place(element.value, of_any(keys), frames))
        elif not keys or not is_exact or _is_at(index, keys[0], len(node.elements)):
            found.append(Place(element.value, keys[1:], frames))
    return found


def _items(node: cst.Dict, keys: Keys, frames: Frames) -> list[Place]:
    found = []
    for item in node.elements:
        if isinstance(item, cst.StarredDictElement):
            found.append(Place(item.value, keys, frames))
        elif isinstance(item, cst.DictElement) and (not keys or may_be_same(constant_key(item.key), keys[0])):
            found.append(Place(item.value, keys[1:], frames))
    return found


def _is_at(index: int, key: Key, length: int) -> bool:
    return not isinstance(key, int) or key in (index, index - length)
