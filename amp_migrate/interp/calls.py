"""One step back from the result of a call: a function that is entered, a container that is read, an operation of torch.

A call that is none of these is out of sight, and so is what it returns.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Iterable, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY, constant_key, may_be_same
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.facts.queues import are_queues
from amp_migrate.facts.tree import Class, Function, argument_value, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.interp.containers import Containers, run_by
from amp_migrate.interp.dtype_asked import dtype_asked
from amp_migrate.interp.layers import Layers
from amp_migrate.interp.place import Field, Frame, Frames, Keys, Place, of_any
from amp_migrate.interp.step import CONSTANT, LOST, Made, Step, either
from amp_migrate.models import Dtype, Operation, is_distribution, traits

SINGLE = frozenset((Dtype.SINGLE,))  # what parameters are
MOST_FRAMES = 4  # calls that are told apart; what called the outermost of them may then be any
_SAME_ELEMENTS = frozenset("list tuple sorted reversed iter dict OrderedDict set deque copy deepcopy tqdm".split())
_OF_MODULES = frozenset("OrderedDict deque copy deepcopy tqdm".split())
_DEEPEST = 6  # assignments of replicas


class Calls:
    """Steps through the calls of a unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.layers = Layers(facts)
        self._containers = facts.analysis(Containers)

    def of(self, node: cst.Call, place: Place) -> Step:
        """What a call may return."""
        entered = self.entered(node) or self._at_the_end(node)
        if entered:
            is_mapped = _is_map(node)  # `map(shrink, images)` has what the function returns for its elements
            part = Place(node, place.keys[1:], place.frames) if is_mapped else place
            step = either([self.returned(frame, part) for frame in entered])
            step = either([step, _joined(node, place.keys, place.frames)]) if self._is_reduce(node) else step
            return dataclasses.replace(step, is_container=True) if is_mapped and not place.keys else step
        return (
            self._of_map(node, place)
            or self._of_numbers(node, place)
            or self._of_containers(node, place)
            or self._of_layers(node, place)
            or self._of_torch(node, place)
            or self._of_own_part(node, place)
            or self._of_some(node, place)
        )

    # -- functions --------------------------------------------------------------------------------------

    def entered(self, node: cst.Call) -> list[Frame]:
        """The functions that a call runs, and the forwards of the modules that it calls."""
        objects = self.facts.objects
        functions = [one for one in objects.candidates(node) if one.name != "__init__"]
        if functions:
            return [Frame(one, node) for one in functions]
        if called_name(node) == "data_parallel" and node.args:
            return [Frame(one, node, skipped=1) for one in self.forwards_of(node.args[0].value)]
        if self._runs_first(node):
            return self._handed_over(node)
        if called_name(node) == "apply" and isinstance(node.func, cst.Attribute):
            return [Frame(one, node, added=1) for one in self._autograd_forwards(node.func.value)]
        return [Frame(one, node) for one in self.forwards_of(_module_of(node))]

    def _of_some(self, node: cst.Call, place: Place) -> Step:
        """What may be out of sight, and what those return of the modules in sight that a call may mean beside that."""
        is_instance = is_distribution(self.facts.names.dotted(node.func)) or self.facts.objects.classes_made(node)
        lost = Step(is_lost=True, is_instance=bool(is_instance))
        layers = self.layers.possible(_module_of(node))
        made = self._made_by([one for one in layers if one is not None], node, place)
        return either([lost, made, *(self.returned(Frame(one, node), place) for one in self.possibly_entered(node))])

    def possibly_entered(self, node: cst.Call) -> list[Function]:
        """The forwards of the modules in sight that a call may mean, whatever it may mean out of sight."""
        return list(dict.fromkeys(one for run in self._forwards_of_each(_module_of(node)) for one in run))

    def handed(self, node: cst.Call) -> list[Frame]:
        """The functions that a call is given and runs: those of `map`, `checkpoint` and `sorted(outputs, key=mean)`."""
        if self._runs_first(node):
            return self._handed_over(node)
        return [Frame(one, node) for one in self._keys_of(node)]

    def _keys_of(self, node: cst.Call) -> list[Function]:
        """`mean` of `sorted(outputs, key=mean)`."""
        key = argument_value(node, "key")
        return self.facts.objects.functions_given(key) if key is not None else []

    def _at_the_end(self, node: cst.Call) -> list[Frame]:
        """The forwards of the modules that end the containers which a call may mean, where all are of the unit."""
        meant = taken_out(self.facts.names, self.facts.objects, node.func)
        found = [self.forwards_of(maker) for maker in self._containers.lasts(one.origin for one in meant)]
        return [Frame(one, None) for forwards in found for one in forwards] if all(found) else []

    def _handed_over(self, node: cst.Call) -> list[Frame]:
        """`checkpoint(run, x)` returns what `run(x)` does."""
        run = node.args[0].value
        function = self.facts.tree.function_at.get(run) or self.facts.objects.function_handed_over(run)
        functions = [function] if function is not None else self.forwards_of(run)
        return [Frame(one, node, skipped=1) for one in functions]

    def _runs_first(self, call: cst.Call) -> bool:
        return bool(call.args) and (called_name(call) == "checkpoint" or _is_map(call) or self._is_reduce(call))

    def _is_reduce(self, node: cst.Call) -> bool:
        return self.facts.names.dotted(node.func) == "functools.reduce" and len(node.args) > 1

    def _autograd_forwards(self, node: cst.BaseExpression) -> list[Function]:
        origins = self.facts.objects.origins(node)
        owners = [self.facts.tree.class_at[one] if isinstance(one, cst.ClassDef) else None for one in origins]
        found = [one.methods["forward"] for one in owners if one is not None and "forward" in one.methods]
        return found if len(found) == len(owners) else []

    def forwards_of(self, module: cst.BaseExpression) -> list[Function]:
        """The forwards that a call of a module may run; none where it may be something else."""
        if not isinstance(module, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
            return []
        exact = self._exact_classes(module)
        if exact:
            run = [self.facts.objects.method_of(owner, "forward") for owner in exact]
            return [one for one in dict.fromkeys(run) if one is not None] if None not in run else []
        found = self._forwards_of_each(module)
        return list(dict.fromkeys(one for forwards in found for one in forwards)) if all(found) else []

    def _forwards_of_each(self, module: cst.BaseExpression) -> list[list[Function]]:
        """The forwards of each module that an expression may mean, none for what may be something else."""
        meant = taken_out(self.facts.names, self.facts.objects, module)
        return [self._of_class(one.origin) if isinstance(one.origin, Class) else [] for one in meant]

    def _exact_classes(self, module: cst.BaseExpression) -> list[Class]:
        """The classes of what an expression is given, where calls of them are all that it is given."""
        objects = self.facts.objects
        values = [module] if isinstance(module, cst.Call) else objects.values_of(module)
        made = [objects.classes_made(one) if isinstance(one, cst.Call) else [] for one in values]
        return [owner for owners in made for owner in owners] if all(made) else []

    def _of_class(self, root: Class) -> list[Function]:
        """The forwards of the classes that an instance known by its root class may be of."""
        objects = self.facts.objects
        family = [one for one in objects.makers if objects.root_class(one) is root] or objects.derived(root)
        found: dict[Function, None] = {}
        for owner in family:
            forward = objects.method_of(owner, "forward")
            if forward is None:
                return []
            found[forward] = None
        return [*found]

    def returned(self, frame: Frame, place: Place) -> Step:
        """What a function returns; where it calls itself, after the call that came from elsewhere."""
        values = self.facts.objects.returned_by(frame.function)
        yielded = self._yielded.get(frame.function)
        if not values and not yielded:
            return LOST
        before = [number for number, one in enumerate(place.frames) if one.function is frame.function]
        around = place.frames[: before[0] + 1] if before else place.frames
        frames = (*around, frame)
        if len(frames) > MOST_FRAMES:  # where it began says whether it runs under autocast
            frames = (frames[0], *frames[1 - MOST_FRAMES :])
        if yielded:
            keys = place.keys
            found = tuple(Place(value, keys if is_all else keys[1:], frames) for value, is_all in yielded)
            return Step(found, is_container=not keys)
        return Step(tuple(Place(value, place.keys, frames) for value in values))

    @cached_property
    def _yielded(self) -> dict[Function, list[tuple[cst.BaseExpression, bool]]]:
        """What generators give for their elements, with true for `yield from images`, which is all of them."""
        found: dict[Function, list[tuple[cst.BaseExpression, bool]]] = {}
        for part, at in self.facts.tree.every(cst.Yield):
            if part.value is not None:
                is_all = isinstance(part.value, cst.From)
                value = part.value.item if isinstance(part.value, cst.From) else part.value
                found.setdefault(at.function, []).append((value, is_all))
        return found

    def runs_of(self, function: Function) -> list[Frame]:
        """The calls of a function; of a forward, those of its module."""
        calls = dict.fromkeys(call for call, _ in self.facts.objects.possible_callers(function))
        if function.name == "forward" and function.owner is not None:
            root = self.facts.objects.root_class(function.owner)
            for call in self._calls_of_instances.get(root, ()):
                forwards = self.forwards_of(call.func)
                if not forwards or function in forwards:
                    calls[call] = None
        return [*(Frame(function, call) for call in calls), *self._runs_by_others.get(function, ())]

    @cached_property
    def _runs_by_others(self) -> dict[Function, list[Frame]]:
        """The calls that are handed a function and run it."""
        found: dict[Function, list[Frame]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            for frame in self.handed(call):
                found.setdefault(frame.function, []).append(frame)
        return found

    @cached_property
    def _calls_of_instances(self) -> dict[object, list[cst.Call]]:
        """The calls of what may be an instance, by the class that it is known by."""
        found: dict[object, list[cst.Call]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if isinstance(call.func, (cst.Name, cst.Attribute, cst.Subscript)):
                for owner in self.facts.objects.origins(call.func):
                    if isinstance(owner, Class):
                        found.setdefault(owner, []).append(call)
        return found

    def given(self, frame: Frame, param: cst.Param, keys: Keys, frames: Frames) -> Step:
        """What a call gives for a parameter, its default if it gives nothing."""
        call = frame.call
        has_star = bool(param.star) or (call is not None and any(arg.star == "*" for arg in call.args))
        if call is None or (has_star and (frame.skipped or frame.added)):
            return LOST
        if frame.skipped or frame.added:
            places = [one for one in frame.function.parameters if one.name.value != frame.function.receiver]
            place = places.index(param) - frame.added + frame.skipped if param in places else -1
            given = call.args[place] if 0 <= place < len(call.args) else None
        else:
            given = self.facts.objects.argument(call, frame.function, param)
        if self._is_reduce(call):
            return either([self.returned(frame, Place(call, keys, frames)), _joined(call, keys, frames)])
        if given is not None:
            of_elements = _is_map(call) or frame.function in self._keys_of(call)
            return Step((Place(given.value, (ANY, *keys) if of_elements else keys, frames),))
        if has_star and param.star != "**":
            return self._given_by_star(call, frame.function, param, keys, frames)
        if any(arg.star == "**" for arg in call.args) or param.star == "**":
            return _given_by_names(call, frame.function, param, keys, frames)
        if param.default is None:
            return LOST
        return Step((Place(param.default, keys, ()),))

    def _given_by_star(self, call: cst.Call, function: Function, param: cst.Param, keys: Keys, frames: Frames) -> Step:
        """The same for `def forward(self, *inputs)` and for `self.loss(*inputs)`."""
        only_named = function.signature.kwonly_params
        taken = [one for one in self.facts.objects.given_in(call, function) if one not in only_named]
        args = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
        if not param.star:
            return _at(args, taken.index(param), keys, frames) if param in taken else LOST
        if keys and isinstance(keys[0], int) and keys[0] >= 0:
            return _at(args, len(taken) + keys[0], keys[1:], frames)
        rest = [_given_by(arg, keys, frames) for arg in args[len(taken) :]]
        return dataclasses.replace(either(rest), is_container=not keys)

    # -- operations of torch ----------------------------------------------------------------------------

    def _of_torch(self, node: cst.Call, place: Place) -> Step | None:
        """The result of a function of torch, or of a method that tensors have."""
        names = self._torch_names(node.func)
        if names:
            rows = [models.function(name) for name in names]
            operands = self._operands(node, rows[0], place.frames)
        elif isinstance(node.func, cst.Attribute) and self._may_be_method(node.func):
            rows = [models.method(node.func.attr.value)]
            operands = (Place(node.func.value, (), place.frames), *self._operands(node, None, place.frames))
        else:
            return None
        if any(row is None or row.kind == "layer" for row in rows):
            return None
        cast = dtype_asked(self.facts, node, place.frames)
        output = place.keys[0] if place.keys else None
        inputs = len(node.args) + (0 if names else 1)
        known = [row for row in rows if row is not None]
        made = tuple(Made(node, (row,), operands, output, cast, inputs <= max(row.inputs, 1)) for row in known)
        return Step(made=made, is_container=not place.keys and any(map(_makes_list, known)))

    def _of_map(self, node: cst.Call, place: Place) -> Step | None:
        """The elements of `map(torch.detach, outputs)`, and what `reduce(operator.add, outputs)` makes of them."""
        is_reduce = self._is_reduce(node)
        names = self._torch_names(node.args[0].value) if node.args and (is_reduce or _is_map(node)) else []
        if is_reduce and not names:
            names = [(self.facts.names.dotted(node.args[0].value) or "").rpartition("operator.")[2]]
        rows = [row for name in names if (row := models.function(name) or models.method(name)) is not None]
        operands = tuple(Place(arg.value, (ANY,), place.frames) for arg in node.args[1:])
        made = tuple(Made(node, (row,), operands[:1] * 2 if is_reduce else operands) for row in rows)
        return Step(made=made, is_container=not is_reduce and not place.keys) if rows else None

    def is_operation(self, node: cst.Call) -> bool:
        """True for a call of a function, method or layer of torch that makes tensors."""
        place = Place(node)
        step = self._of_layers(node, place) or self._of_torch(node, place)
        return step is not None and bool(step.made)

    def _may_be_method(self, func: cst.Attribute) -> bool:
        """False for `pkg.norm` of a package, and for `self.norm`, which the class has stored under that name."""
        if self.facts.names.dotted(func) is not None:
            return False
        receiver = self.facts.tree.function_of(func).receiver
        if isinstance(func.value, cst.Name) and func.value.value == receiver:
            return False
        return all(one.kind in ("field", "name") for one in self.facts.objects.objects(func))

    def _torch_names(self, func: cst.BaseExpression) -> list[str]:
        """`torch.relu` of `torch.relu`, and of `self.act` after `self.act = torch.relu`."""
        dotted = self.facts.names.dotted(func)
        if dotted is not None:
            return [dotted] if dotted.startswith("torch.") or models.function(dotted) is not None else []
        if self._is_probably_torchs(func):
            return self._of_unknown_origin(func)
        held = self.facts.objects.objects(func)
        names = sorted(str(one.origin) for one in held if one.kind == "import")
        return names if len(names) == len(held) and all(one.startswith("torch.") for one in names) else []

    def _is_probably_torchs(self, func: cst.BaseExpression) -> bool:
        """True for `torch.exp` and `F.relu` of names that nothing in sight binds: `from common import *`."""
        return isinstance(func, cst.Attribute) and self.facts.text(func.value) in ("torch", "F")

    def _of_unknown_origin(self, func: cst.BaseExpression) -> list[str]:
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        names = [f"{front}.{name}" for front in ("torch", "torch.nn.functional") if models.function(f"{front}.{name}")]
        return names[:1]

    def _operands(self, node: cst.Call, row: Operation | None, frames: Frames) -> tuple[Place, ...]:
        """What is computed with; of a list of tensors each."""
        given = [arg.value for arg in node.args if not arg.star and _is_operand(arg) and not _is_text(arg.value)]
        if row is None or row.bare not in traits.named("list") or not given:
            return tuple(Place(one, (), frames) for one in given)
        listed = given[0]
        if not isinstance(listed, (cst.List, cst.Tuple)):
            return (Place(listed, (ANY,), frames),)
        return tuple(
            Place(one.value, (ANY,) if isinstance(one, cst.StarredElement) else (), frames) for one in listed.elements
        )

    def _of_layers(self, node: cst.Call, place: Place) -> Step | None:
        """The result of layers of torch that are called."""
        layers = self.layers.called(run_by(node))
        return self._made_by(layers, node, place) if layers else None

    def _made_by(self, layers: list[tuple[Operation | None, ...]], node: cst.Call, place: Place) -> Step:
        operands = self._operands(node, None, place.frames)
        operands = operands if run_by(node) is node.func else operands[1:2]
        output = place.keys[0] if place.keys else None
        same = () if all(layers) else operands[:1]
        return Step(same, tuple(Made(node, one, operands, output, is_plain=True) for one in layers if one))

    def _of_own_part(self, node: cst.Call, place: Place) -> Step | None:
        """What a module returns that a network takes out of its own: numbers of floating point, computed by a layer."""
        if not node.args or not self.layers.is_own_part(node.func):
            return None
        return Step(made=(Made(node, (None,), self._operands(node, None, place.frames)),))

    # -- Python and NumPy -------------------------------------------------------------------------------

    def _of_numbers(self, node: cst.Call, place: Place) -> Step | None:
        """`len(x)`, `math.exp(x)` and `np.float64(x)` are numbers, and `np.exp(x)` is one where x is."""
        if isinstance(node.func, cst.Name) and self.facts.names.variable_at(node.func) is None:
            if node.func.value in traits.named("function of Python"):
                given = [arg.value for arg in node.args if arg.keyword is None]
                keys = (ANY, *place.keys) if len(given) == 1 and node.func.value != "abs" else place.keys
                return Step(tuple(Place(one, keys, place.frames) for one in given))
            return CONSTANT if node.func.value in traits.named("number of Python") else None
        if isinstance(node.func, cst.Attribute) and called_name(node) in traits.named("parameters"):
            return Step(made=(Made(node, (models.function("torch.nn.Parameter"),), (), cast=SINGLE),))
        package, _, name = (self.facts.names.dotted(node.func) or "").rpartition(".")
        if package == "math" or (package == "numpy" and name in traits.named("number of NumPy")):
            return CONSTANT
        if package != "numpy" or name not in traits.named("function of NumPy"):
            return None
        return Step(tuple(Place(arg.value, (), place.frames) for arg in node.args))

    # -- containers -------------------------------------------------------------------------------------

    def _of_containers(self, node: cst.Call, place: Place) -> Step | None:
        """What is read of a container by a call: `outputs.get("mask")`, `zip(masks, depths)`."""
        name, dotted = called_name(node), self.facts.names.dotted(node.func) or ""
        args = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        read = None
        if isinstance(node.func, cst.Attribute) and not dotted.startswith("torch."):
            read = _read_by_method(node.func.value, name, args, place)
        if read is None and dotted.startswith("torch.nn.parallel.") and args:
            return self._in_parallel(name, args, place)
        if read is None and name in _SAME_ELEMENTS and (isinstance(node.func, cst.Name) or name in _OF_MODULES):
            read = self._same_elements(node, place)
        read = read or _read_in_turn(name, args, place) or self._read_of_fields(node, place)
        if read is None and are_queues({node}):
            return Step(is_container=not place.keys)
        if not place.keys and (self._makes_container(node) or (read and name in _SAME_ELEMENTS - _OF_MODULES)):
            return dataclasses.replace(read or LOST, is_container=True)
        return read

    def _same_elements(self, node: cst.Call, place: Place) -> Step:
        """`list(masks)`, `dict(mask=mask)`, and `dict(zip(names, masks))`."""
        keys, found = place.keys, []
        is_dict = called_name(node) in ("dict", "OrderedDict")
        for given in node.args:
            if given.keyword is None:
                values = self.facts.objects.values_of(given.value) or [given.value]
                of_pairs = (ANY, 1, *keys[1:]) if is_dict and keys and any(map(_gives_pairs, values)) else of_any(keys)
                found.append(_part(given.value, of_pairs, place))
            elif is_dict and keys and may_be_same(given.keyword.value, keys[0]):
                found.append(_part(given.value, keys[1:], place))
        return either(found)

    def _read_of_fields(self, node: cst.Call, place: Place) -> Step | None:
        """X of `Output(mask=X).mask`, and of `Output(X).mask` where a class without `__init__` names its fields."""
        key = place.keys[0] if place.keys else None
        name = key.name if isinstance(key, Field) else None
        names = self._fields_of(node)
        if name is None and isinstance(key, int) and names and 0 <= key < len(names):
            name = names[key]
        if name is None:
            return None
        found = [arg.value for arg in node.args if _is_named(arg, name)]
        is_known = name in names and not any(arg.star for arg in node.args)
        if is_known:
            at = names.index(name)
            found += [arg.value for arg in node.args[at : at + 1] if arg.keyword is None]
        return Step(tuple(Place(one, place.keys[1:], place.frames) for one in found)) if found or is_known else None

    def _fields_of(self, node: cst.Call) -> Sequence[str]:
        """What a class is given in this order: `namedtuple("Output", "mask depth")`, and see `Class.fields`."""
        for maker in self.facts.objects.calls_behind(node.func):
            if self.facts.names.dotted(maker.func) == "collections.namedtuple" and len(maker.args) > 1:
                given = literal_value(maker.args[1].value)
                names = given.replace(",", " ").split() if isinstance(given, str) else given
                return [str(one) for one in names] if isinstance(names, (list, tuple)) else []
        return [one for owner in self.facts.objects.classes_made(node) for one in owner.fields]

    def _makes_container(self, node: cst.Call) -> bool:
        dotted = self.facts.names.dotted(node.func) or ""
        is_own = isinstance(node.func, cst.Name) and self.facts.names.variable_at(node.func) is not None
        kind = getattr(builtins, called_name(node), None) if not dotted and not is_own else None
        return dotted.startswith("collections.") or (isinstance(kind, type) and issubclass(kind, Iterable))

    def _in_parallel(self, name: str, args: list[cst.BaseExpression], place: Place) -> Step | None:
        if name == "gather":
            return Step((Place(args[0], (ANY, *place.keys), place.frames),))
        if name != "parallel_apply":
            return None
        forwards = self.forwards_of(self._replicated(args[0]))
        part = Place(place.node, place.keys[1:], place.frames)
        return either([self.returned(Frame(one, None), part) for one in forwards]) if forwards else None

    def _replicated(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """X of `replicas = replicate(X, devices)`, also where `replicas[:n]` is left of them."""
        for _ in range(_DEEPEST):
            if isinstance(node, cst.Subscript):
                node = node.value
            elif isinstance(node, cst.Call) and called_name(node) == "replicate" and node.args:
                return node.args[0].value
            elif isinstance(node, cst.Name):
                values = self.facts.objects.values_of(node)
                node = next((one for one in values if isinstance(one, cst.Call)), node)
        return node


def _given_by(arg: cst.Arg, keys: Keys, frames: Frames) -> Step:
    """An argument among several, or any of those that a star puts there."""
    return Step((Place(arg.value, of_any(keys) if arg.star else keys[1:], frames),))


def _given_by_names(call: cst.Call, function: Function, param: cst.Param, keys: Keys, frames: Frames) -> Step:
    """What `**given` gives for a parameter, and what is given for `**kwargs`."""
    if param.star != "**":
        found = [Place(arg.value, (param.name.value, *keys), frames) for arg in call.args if arg.star == "**"]
        return Step((*found, *(() if param.default is None else (Place(param.default, keys, ()),))))
    own = {one.name.value for one in function.parameters}
    given = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value not in own]
    named = [arg for arg in given if keys and arg.keyword is not None and may_be_same(arg.keyword.value, keys[0])]
    found = [Place(arg.value, keys[1:], frames) for arg in named]
    found += [Place(arg.value, keys, frames) for arg in call.args if arg.star == "**"]
    return Step(tuple(found), is_container=not keys)


def _at(args: list[cst.Arg], place: int, keys: Keys, frames: Frames) -> Step:
    """The argument at a place, or what a star before it puts there."""
    star = next((index for index, arg in enumerate(args) if arg.star), len(args))
    if place < star < len(args) or place < len(args) == star:
        return Step((Place(args[place].value, keys, frames),))
    is_last = star == len(args) - 1
    return Step((Place(args[star].value, (place - star, *keys), frames),)) if is_last else LOST


def _joined(call: cst.Call, keys: Keys, frames: Frames) -> Step:
    """What `reduce(join, outputs, first)` joins."""
    _, elements, *first = call.args
    return Step((Place(elements.value, (ANY, *keys), frames), *(Place(one.value, keys, frames) for one in first)))


def _part(value: cst.BaseExpression, keys: Keys, place: Place) -> Step:
    return Step((Place(value, keys, place.frames),))


def _read_by_method(
    receiver: cst.BaseExpression, name: str, args: list[cst.BaseExpression], place: Place
) -> Step | None:
    """`outputs.get("mask")`, `outputs.values()`."""
    keys = place.keys
    if name in ("get", "setdefault", "pop"):
        key = constant_key(args[0]) if args and name != "pop" else ANY
        return either([_part(receiver, (key, *keys), place), *(_part(one, keys, place) for one in args[1:])])
    if name in ("values", "copy"):
        return _part(receiver, of_any(keys) if name == "values" else keys, place)
    if name == "items":
        is_value = len(keys) > 1 and may_be_same(keys[1], 1)
        return _part(receiver, (ANY, *keys[2:]), place) if is_value else CONSTANT
    return None


def _gives_pairs(node: cst.BaseExpression) -> bool:
    """True for what a dict of pairs is made of, and not of another dict."""
    is_call = isinstance(node, cst.Call) and called_name(node) in ("zip", "enumerate", "items")
    return is_call or isinstance(node, (cst.List, cst.Tuple, cst.ListComp, cst.GeneratorExp))


def _read_in_turn(name: str, args: list[cst.BaseExpression], place: Place) -> Step | None:
    """`next(masks)`, and the elements that `enumerate(masks)` and `zip(masks, depths)` give."""
    keys = place.keys
    if name == "next" and args:
        return _part(args[0], (ANY, *keys), place)
    if name == "enumerate" and args and len(keys) > 1:
        return _part(args[0], (ANY, *keys[2:]), place) if may_be_same(keys[1], 1) else CONSTANT
    if name in ("zip", "enumerate") and len(keys) == 1:
        return Step(is_container=True)  # a tuple
    if name == "zip" and args and len(keys) > 1:
        chosen = [arg for index, arg in enumerate(args) if may_be_same(keys[1], index)]
        return either([_part(arg, (ANY, *keys[2:]), place) for arg in chosen])
    return None


def _module_of(call: cst.Call) -> cst.BaseExpression:
    """What runs its forward where a call calls a module: `net` of `net(x)` and of `net.forward(x)`."""
    is_forward = isinstance(call.func, cst.Attribute) and called_name(call) in ("forward", "__call__")
    return call.func.value if is_forward and isinstance(call.func, cst.Attribute) else call.func


def _makes_list(row: Operation) -> bool:
    """True for `x.chunk(2)`: the results are of one kind, and as many as there are."""
    return row.shape_only and len(row.outputs) > 1


def _is_map(call: cst.Call | None) -> bool:
    return call is not None and isinstance(call.func, cst.Name) and call.func.value == "map"


def _is_text(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.BaseString)  # the equation of an einsum


def _is_named(arg: cst.Arg, name: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == name


def _is_operand(arg: cst.Arg) -> bool:
    return arg.keyword is None or arg.keyword.value in ("input", "other", "tensors")
