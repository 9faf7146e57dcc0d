"""Which objects an expression may mean: a points-to analysis of the files of a unit, answered on demand.

Objects are named by where they come from: a call, an import, a parameter that nothing in the unit calls, an
instance of a class of the unit, a field of another object. The order of statements and the calling context
are ignored, so the answer holds every object that the expression can mean, and perhaps some more: good for
"is this never the optimizer?", not for "are these two always equal?" (that is `identity`). Only where an own class
takes over the name of what it is given, `optimizer = Warmup(optimizer)`, the reads before and behind are told apart.

    model = Net().cuda()          objects(model) == objects(net) == {Call(Net())}
    train(model)                  with  def train(net): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial

import libcst as cst

from amp_migrate.facts.asserted import pattern_asserted
from amp_migrate.facts.callables import Callables
from amp_migrate.facts.decorations import Decorations
from amp_migrate.facts.field_stores import FieldStores
from amp_migrate.facts.lookups import looks_up_global, pattern_meant, text_looked_up
from amp_migrate.facts.names import Names
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.queues import are_queues, taken_from
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.stores import ANY, Store, Stores, string_key, subscript_key
from amp_migrate.facts.targets import shown_at
from amp_migrate.facts.tree import Class, Function, Statement, Tree, called_name, names_in, walk
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.models.traits import named

_DEEPEST = 5
_MOST_CALLERS = 6  # of a function, whose results are told apart
_MOST_CALLS = 2

# Calls that return the module that they are given, wrapped or moved, or an optimizer around an optimizer.
WRAPPERS = frozenset(
    "DataParallel DistributedDataParallel DDP ApexDDP FullyShardedDataParallel convert_syncbn_model "
    "convert_sync_batchnorm compile LARC DistributedOptimizer list tuple sorted reversed iter FP16_Optimizer "
    "__FP16_Optimizer__ wrap_optimizer network_to_half FP16Model FP16_Module BN_convert_float convert_network "
    "convert_module".split()
)
_OF_A_DICT = ("values", "items")

# Dicts of other packages whose elements are their attributes as well.
_ATTRIBUTE_DICTS = frozenset("Munch munchify EasyDict edict AttrDict DotDict DotMap Bunch".split())

_NOTHING: ObjectSet = frozenset()


class PointsTo(Callables):
    """What expressions of the files of a unit may mean."""

    def __init__(self, tree: Tree, names: Names) -> None:
        super().__init__(tree, names)
        self._stores = Stores(tree)
        self._decorations = Decorations(self, self._stores)
        self._field_stores: dict[str, FieldStores[Object]] = {}
        self._made: dict[object, Object] = {}
        calls = list(tree.every(cst.Call))
        for call, statement in calls:
            if self.function_named(call.func) is None:
                self._stores.keep_arguments(call, statement)
        self._link(calls)

    def object_of(
        self, kind: str, origin: object, holder: Object | None = None, calls: tuple[object, ...] = ()
    ) -> Object:
        """The one object of such an origin."""
        key = (kind, origin, holder, calls)
        if key not in self._made:
            self._made[key] = Object(len(self._made), kind, origin, holder, calls)
        return self._made[key]

    def objects(self, node: cst.BaseExpression) -> ObjectSet:
        """Every object that `node` may mean; constants mean none."""
        return self._answers.to(node, partial(self._of_expression, node))

    def import_paths(self, node: cst.BaseExpression) -> list[str]:
        """The dotted names of the imported things that `node` may mean, in their order."""
        return sorted(str(found.origin) for found in self.objects(node) if found.kind == "import")

    def origins(self, node: cst.BaseExpression) -> set[object]:
        return {one.origin for one in self.objects(node)}

    def elements(self, node: cst.BaseExpression) -> ObjectSet:
        """What the elements of a container may mean."""
        return self._select(self.objects(node), ANY)

    def values_of(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The expressions that may have been assigned to a name, an attribute or an element as a whole."""
        node = self.behind_property(node)
        variable = self.names.definition(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        values = self._values_of_variable(variable) if variable is not None else []
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            field = node.attr.value if isinstance(node, cst.Attribute) else subscript_key(node)
            bases = self.objects(node.value)
            values += [
                store.value
                for store in self._stores.at(field)
                if not store.selector and bases & self.objects(store.base)
            ]
            of_classes = dict.fromkeys(variable for one in bases for _, variable in self._in_class_bodies(one, field))
            values += [value for variable in of_classes for value in self._values_of_variable(variable)]
        return values

    def returned_by(self, function: Function) -> list[cst.BaseExpression]:
        """What a function returns."""
        return self._stores.returned(function)

    def looked_up_in(self, call: cst.Call) -> list[cst.BaseExpression]:
        """`torch.optim` of `make(torch.optim, "Adam", weights)`, where the function makes what it looks up in it:
        `return getattr(module, name)(*args)`.
        """
        function = self.called_function(call)
        if function is None:
            return []
        made = [value.func for value in self.returned_by(function) if isinstance(value, cst.Call)]
        tables = [one.args[0].value for one in made if isinstance(one, cst.Call) and called_name(one) == "getattr"]
        variables = [variable for one in tables if (variable := self.names.variable_at(one)) is not None]
        params = [binding.node for one in variables for binding in one.bindings if binding.kind == "param"]
        return [arg.value for param, arg in self.arguments(call, function) if param in params]

    def has_keys_as_attributes(self, one: Object) -> bool:
        """True for `Munch()`: what is put into it as `optims[name]` is read as `optims.net`."""
        return isinstance(one.origin, cst.Call) and called_name(one.origin) in _ATTRIBUTE_DICTS and one.holder is None

    # -- who calls what -------------------------------------------------------------------------------

    def _link(self, calls: list[tuple[cst.Call, Statement]]) -> None:
        """Find the callers of every function; a call can become clear only through other calls."""
        defined = {function.name for function in self.tree.functions} | {owner.name for owner in self.tree.classes}
        defined |= {
            field for field, stores in self._stores.all() if any(_may_be_function(one.value, defined) for one in stores)
        }
        linkable = [
            (call, statement)
            for call, statement in calls
            if isinstance(call.func, (cst.Name, cst.Subscript, cst.Call, cst.IfExp))
            or (isinstance(call.func, cst.Attribute) and (call.func.attr.value in defined or self._runs_instances))
        ]
        targets: dict[cst.Call, tuple[Function, ...]] = {}
        while found := self._targets(call for call, _ in linkable if call not in targets):
            targets |= found
            self._set_callers(linkable, targets)
        certain = self._targets(targets)
        if certain != targets:  # what seemed to be the only value while callers were missing is not
            self._set_callers(linkable, certain)

    def _targets(self, calls: Iterable[cst.Call]) -> dict[cst.Call, tuple[Function, ...]]:
        found = ((call, self.candidates(call)) for call in calls)
        return {call: functions for call, functions in found if functions}

    def _set_callers(
        self, calls: list[tuple[cst.Call, Statement]], targets: dict[cst.Call, tuple[Function, ...]]
    ) -> None:
        certain = {call: self.called_function(call) for call in targets}
        self._callers.clear()
        self._possible_callers.clear()
        for call, statement in calls:
            for function in targets.get(call, ()):
                kept = self._callers if certain[call] is function else self._possible_callers
                kept.setdefault(function, []).append((call, statement))
        self.forget()

    def forget(self) -> None:
        super().forget()
        self._field_stores.clear()

    # -- resolution -----------------------------------------------------------------------------------

    def _of_expression(self, node: cst.BaseExpression) -> ObjectSet:
        if isinstance(node, cst.Name):
            if node.value in ("None", "True", "False"):
                return _NOTHING
            variable = self.names.variable_at(node)
            if variable is not None:
                return self._of_read(variable, node)
            path = self.names.behind_star(node)
            return frozenset({self.object_of("name", node.value) if path is None else self.object_of("import", path)})
        if isinstance(node, cst.Attribute):
            return self._select(self.objects(node.value), node.attr.value)
        if isinstance(node, cst.Subscript):
            return self._of_subscript(node)
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.IfExp):
            return self.objects(node.body) | self.objects(node.orelse)
        if isinstance(node, cst.BooleanOperation):
            return self.objects(node.left) | self.objects(node.right)
        if isinstance(node, cst.NamedExpr):
            return self.objects(node.value)
        if isinstance(node, cst.Await):
            return self.objects(node.expression)
        if isinstance(node, (cst.BaseString, cst.BaseNumber, cst.Ellipsis)):
            return _NOTHING
        if isinstance(node, (cst.Tuple, cst.List, cst.Set, cst.Dict, cst.ListComp, cst.GeneratorExp, cst.DictComp)):
            return frozenset({self.object_of("display", node)})
        return frozenset({self.object_of("value", node)})

    def _of_subscript(self, node: cst.Subscript) -> ObjectSet:
        """An element; for a slice of a container in sight, a container of its elements."""
        if looks_up_global(node) and (meant := self._looked_up(node)):
            return meant
        held = self.objects(node.value)
        is_slice = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice)
        if is_slice and held and all(one.kind == "display" for one in held):
            return frozenset({self.object_of("display", node)})
        return self._select(held, subscript_key(node))

    def _of_variable(self, variable: Variable) -> ObjectSet:
        return self._answers.to(variable, partial(self._of_bindings, variable))

    def _of_read(self, variable: Variable, name: cst.Name) -> ObjectSet:
        """What a name may mean where it is read: behind `optimizer = Warmup(optimizer)`, what that has made."""
        if len(variable.bindings) < 2 or self.names.binds(name) or not any(map(self._takes_over, variable.bindings)):
            return self._of_variable(variable)
        bindings = reaching(variable, self.tree.statement_of(name)) or variable.bindings
        return frozenset(one for binding in bindings for one in self._of_binding(variable, binding))

    def _takes_over(self, binding: Binding) -> bool:
        """True for an object of an own class that is given what had its name before."""
        if (
            binding.kind != "assign"
            or not isinstance(binding.value, cst.Call)
            or not isinstance(binding.node, cst.Name)
        ):
            return False
        made_by = self.names.definition(binding.value.func)
        is_own = made_by is not None and any(one.kind == "class" for one in made_by.bindings)
        return is_own and binding.node.value in names_in(binding.value)

    def _of_bindings(self, variable: Variable) -> ObjectSet:
        found = _NOTHING
        for binding in variable.bindings:
            found |= self._of_binding(variable, binding)
        return found

    def _of_binding(self, variable: Variable, binding: Binding) -> ObjectSet:
        if binding.kind == "import":
            assert binding.path is not None
            return self._of_import(binding.path)
        if binding.kind in ("def", "class"):
            return frozenset({self.object_of("definition", binding.node)})
        if binding.kind == "param":
            return self._of_parameter(variable, binding)
        if binding.value is None or binding.kind == "augment":
            return _NOTHING
        if binding.kind == "with" and not binding.selector:
            return self._entered(self.objects(binding.value))
        if binding.kind == "for":
            return self._of_loop_variable(binding.value, binding.selector)
        parts = self._returned_parts(binding.value, binding.selector)
        return self._walk(self.objects(binding.value), binding.selector) if parts is None else parts

    def _entered(self, objects: ObjectSet) -> ObjectSet:
        """What `with manager as target` binds: what the `__enter__` of a class of the unit returns, or the manager."""
        found = _NOTHING
        for one in objects:
            methods = self._methods(one.origin, "__enter__") if isinstance(one.origin, Class) else ()
            given = [value for method in methods for value in self._stores.returned(method)]
            found |= frozenset(held for value in given for held in self.objects(value)) if given else {one}
        return found

    def _of_import(self, path: str) -> ObjectSet:
        found = self.names.variable_behind(path)
        return self._of_variable(found) if found is not None else frozenset({self.object_of("import", path)})

    def _of_parameter(self, variable: Variable, binding: Binding) -> ObjectSet:
        function = variable.scope.owner
        if not isinstance(function, Function) or not isinstance(binding.node, cst.Param):
            return frozenset({self.object_of("parameter", variable)})
        params = function.parameters
        if function.owner is not None and function.is_method and params and params[0] is binding.node:
            if function.has_decorator("classmethod"):
                return frozenset(self.object_of("definition", owner.node) for owner in self.derived(function.owner))
            return frozenset({self.object_of("instance", self.root_class(function.owner))})
        found = self.objects(binding.value) if binding.value is not None else _NOTHING
        callers = self.possible_callers(function)
        for call, _ in callers:
            arg = self.argument(call, function, binding.node)
            if arg is not None:
                found |= self.objects(arg.value)
            elif any(given.star for given in call.args):
                found |= self._of_starred(call, function, variable, binding.node)
        decorated = {self.object_of("definition", node) for node in self._decorations.given(function, binding.node)}
        return found | decorated if callers or decorated else found | {self.object_of("parameter", variable)}

    def _of_starred(self, call: cst.Call, function: Function, variable: Variable, param: cst.Param) -> ObjectSet:
        """What starred arguments give a parameter, as far as they are in sight."""
        values = self._starred_values(call, function, param)
        if values is None:
            return self._unpacked(call, function, param) or frozenset({self.object_of("parameter", variable)})
        return frozenset(one for value in values for one in self.objects(value))

    def _starred_values(self, call: cst.Call, function: Function, param: cst.Param) -> list[cst.BaseExpression] | None:
        """What a parameter gets by a call's stars: what the function around it was given, and hands on, or what stands
        under its name in the dicts that it is given as `**built`; None where some are not in sight.
        """
        handed = self.handed_on(call, function, param)
        if handed is not None:
            return [arg.value for arg in handed]
        held = [self.objects(arg.value) for arg in call.args if arg.star]
        dicts = [one for objects in held for one in objects if isinstance(one.origin, cst.Dict)]
        is_known = all(objects and objects <= set(dicts) for objects in held)
        if not is_known or any(arg.star == "*" for arg in call.args):
            return None
        field = f"[{param.name.value!r}]"
        stored = [store for store in self._stores.at(field) if not store.selector]
        given = [value for one in dicts for value in items_under(one.origin, field)]
        return given + [store.value for store in stored if not self.objects(store.base).isdisjoint(dicts)]

    def _unpacked(self, call: cst.Call, function: Function, param: cst.Param) -> ObjectSet:
        """What `Net(kind, *parts(kind))` gives a parameter, where that is a tuple in sight."""
        *plain, last = [arg for arg in call.args if arg.keyword is None and arg.star != "**"] or [cst.Arg(call.func)]
        params = [one for one in self.given_in(call, function) if one not in function.signature.kwonly_params]
        place = params.index(param) - len(plain) if param in params else -1
        if place < 0 or last.star != "*" or any(arg.star for arg in plain):
            return _NOTHING
        if isinstance(last.value, cst.Call):
            return self._returned_parts(last.value, (place,)) or _NOTHING
        held = [one.origin for one in self.objects(last.value)]
        shown = [shown_at(one, (place,)) for one in held if isinstance(one, cst.Tuple)]
        if len(shown) < len(held) or None in shown:
            return _NOTHING
        return frozenset(found for one in shown if one is not None for found in self.objects(one))

    def _of_loop_variable(self, source: cst.BaseExpression, selector: tuple[int, ...]) -> ObjectSet:
        """What `for target in source` binds: an element, or with zip and enumerate one of several."""
        if isinstance(source, cst.Call) and isinstance(source.func, cst.Name) and selector:
            plain = [arg.value for arg in source.args if arg.keyword is None and not arg.star]
            if source.func.value == "zip" and selector[0] < len(plain):
                return self._of_loop_variable(plain[selector[0]], selector[1:])
            if source.func.value == "enumerate" and plain:
                return self._of_loop_variable(plain[0], selector[1:]) if selector[0] == 1 else _NOTHING
        if isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute) and selector:
            if source.func.attr.value == "items" and not source.args:
                return self._walk(self.elements(source.func.value), selector[1:]) if selector[0] == 1 else _NOTHING
        return self._walk(self.elements(source), selector)

    def _walk(self, objects: ObjectSet, selector: tuple[int, ...]) -> ObjectSet:
        for index in selector:
            objects = self._select(objects, f"[{index}]")
        return objects

    def _is_wrapper(self, node: cst.BaseExpression) -> bool:
        """True for `DistributedDataParallel`, and for `Parallel`, where that is imported under that name."""
        return (self.names.dotted(node) or "").rpartition(".")[2] in WRAPPERS

    def _only_adds_to_a_wrapper(self, owner: Class) -> bool:
        """True for a class of the unit that is made and called as a wrapper of torch is: it inherits from one, and has
        neither `__init__` nor `forward` of its own.
        """
        bases = [base.value for one in self.line(owner) for base in one.node.bases]
        is_wrapper = any(self._is_wrapper(one) and (self.names.dotted(one) or "").startswith("torch.") for one in bases)
        own = ("__init__", "__new__", "__call__", "forward")
        return is_wrapper and all(self.method_of(owner, name) is None for name in own)

    def _of_call(self, node: cst.Call) -> ObjectSet:
        func = node.func
        name = called_name(node)
        first = next((arg for arg in node.args if not arg.star), None)
        if isinstance(func, cst.Attribute) and (name in named("module") or name in _OF_A_DICT):
            return self.objects(func.value)
        if first is not None and (name in WRAPPERS or self._is_wrapper(func)):
            return self.objects(first.value)
        if name in ("eval", "getattr") and (meant := self._looked_up(node)):
            return meant
        if name == "getattr" and (attribute := self._attribute_named(node)) is not None:
            otherwise = self.objects(node.args[2].value) if len(node.args) > 2 else _NOTHING
            return self._select(self.objects(node.args[0].value), attribute) | otherwise
        if name == "type" and len(node.args) == 1 and isinstance(func, cst.Name):
            return self._select(self.objects(node.args[0].value), "__class__")
        if name == "vars" and first is not None and isinstance(func, cst.Name):
            return self._select(self.objects(first.value), "__dict__")
        if made := self.classes_made(node):
            if first is not None and all(map(self._only_adds_to_a_wrapper, made)):
                return self.objects(first.value)
            return frozenset({self.object_of("instance", self.root_class(one)) for one in made})
        if self.looked_up_in(node):
            return self._made_at(node)  # what comes of it differs from call to call
        if functions := self._functions_run(node):
            returned = frozenset(self.object_of("instance", self.root_class(one)) for one in self.classes_among(node))
            for function in functions:
                for value in self._stores.returned(function):
                    returned |= self._returned(node, function, value)
            return self._made_by(node, returned)
        given = self._initialized(node)
        if given is not None and given[1] is None:
            return self.objects(given[0])
        if name == "get" and isinstance(func, cst.Attribute) and node.args:
            held = self.objects(func.value)
            if held and all(isinstance(one.origin, cst.Dict) for one in held):
                return self._select(held, ANY)
        if put := self._out_of_queue(node):
            return put
        if "apex.amp.init" in self.import_paths(func):
            return self._of_import("apex.amp")  # the old handle has the interface of the module
        if first is not None and self.names.dotted(func) == "importlib.import_module":
            if isinstance(first.value, cst.SimpleString):
                return self._of_import(self.names.imported_by(node, str(first.value.evaluated_value)))
        return self._made_at(node)

    def _made_at(self, node: cst.Call) -> ObjectSet:
        """What a call makes: another object for each call of the function around it, where several are known."""
        return frozenset(self._for_each_caller(self.object_of("call", node), node))

    def _made_by(self, node: cst.Call, returned: ObjectSet) -> ObjectSet:
        """What one call of a function returns: of what the function makes, that which it made for this call."""
        found: set[Object] = set()
        for one in returned:
            made_for = one.calls[-1] if one.calls else None
            if made_for is node:
                found.update(self._for_each_caller(one, node))
            elif made_for is None or not self._run_the_same(made_for, node):
                found.add(one)
        return frozenset(found)

    def _for_each_caller(self, one: Object, place: cst.Call) -> Iterator[Object]:
        """What is made at a place, for each call that leads there: up to where several lead to one function."""
        seen: set[Function] = set()
        calls = [place]
        while len(calls) == 1:
            function = self.tree.function_of(calls[0])
            if function in seen or function.is_module:
                break
            seen.add(function)
            calls = [call for call, _ in self.possible_callers(function)]
        if not 2 <= len(calls) <= _MOST_CALLERS or len(one.calls) >= _MOST_CALLS:
            yield one
            return
        for call in calls:
            yield self.object_of(one.kind, one.origin, one.holder, (*one.calls, call))

    def _run_the_same(self, one: object, other: cst.Call) -> bool:
        """Whether two calls run the same function."""
        return isinstance(one, cst.Call) and not set(self._functions_run(one)).isdisjoint(self._functions_run(other))

    def _out_of_queue(self, call: cst.Call) -> ObjectSet:
        """What `waiting.get()` hands out, as far as it is put in by the unit."""
        queue = taken_from(call)
        if queue is None or not are_queues(self.origins(queue)):
            return _NOTHING
        return frozenset(one for queued in self.objects(queue) for one in self._stored(queued, ANY))

    def _looked_up(self, node: cst.Call | cst.Subscript) -> ObjectSet:
        """The definitions that `eval("Net" + name)`, `globals()["Net" + name]` and `getattr(nets, "make_" + name)` may
        mean. Where it is open, those of a module that defines nothing but functions; else nothing.
        """
        text = text_looked_up(node)
        if text is None:
            return _NOTHING
        is_own = isinstance(node, cst.Subscript) or called_name(node) == "eval"
        module = self.names.module(node.args[0].value) if isinstance(node, cst.Call) else None
        module = self.tree.root_of(node) if is_own else module
        pattern = pattern_meant(self.values_of(text) if isinstance(text, cst.Name) else [text])
        pattern = pattern or pattern_asserted(self.tree, self.names, text)
        if module is None or (is_own and pattern is None):
            return _NOTHING
        variables = self.names.global_variables(module)
        if pattern is None:
            own = [one for one in variables if any(binding.kind in ("def", "class") for binding in one.bindings)]
            found = [one for variable in own for one in self._of_variable(variable)]
            return frozenset(found) if all(isinstance(one.origin, cst.FunctionDef) for one in found) else _NOTHING
        named = [
            one for variable in variables if pattern.fullmatch(variable.name) for one in self._of_variable(variable)
        ]
        return frozenset(one for one in named if isinstance(one.origin, (cst.ClassDef, cst.FunctionDef)))

    def _attribute_named(self, call: cst.Call) -> str | None:
        """`net` of `getattr(holder, "net")`."""
        named = call.args[1].value if isinstance(call.func, cst.Name) and len(call.args) > 1 else None
        value = named.evaluated_value if isinstance(named, cst.SimpleString) else None
        return value if isinstance(value, str) else None

    def _functions_run(self, call: cst.Call) -> list[Function]:
        """The function that a call runs; else all those of a table, or of the classes that its object may be of."""
        certain = self.called_function(call)
        if certain is not None:
            return [certain]
        possible = self.candidates(call)
        return [] if any(function.name == "__init__" for function in possible) else list(possible)

    def _returned_parts(self, value: cst.BaseExpression, selector: tuple[int, ...]) -> ObjectSet | None:
        """What `model, state = load(model, path)` binds, where the function returns displays: None for other values."""
        functions = self._functions_run(value) if isinstance(value, cst.Call) and selector else []
        if not functions:
            return None
        assert isinstance(value, cst.Call)
        found = _NOTHING
        for function, returned in ((one, given) for one in functions for given in self._stores.returned(one)):
            shown = shown_at(returned, selector)
            if shown is None:
                return None
            found |= self._returned(value, function, shown)
        return found

    def _returned(self, call: cst.Call, function: Function, value: cst.BaseExpression) -> ObjectSet:
        """What one call returns: for a parameter that comes back, wrapped or not, the argument of this very call."""
        found = self.objects(value)
        for param in self._params_behind(value):
            arg = self.argument(call, function, param)
            if arg is None:
                continue
            others = (self.argument(one, function, param) for one, _ in self.possible_callers(function))
            given = frozenset(one for other in others if other is not None for one in self.objects(other.value))
            if given <= found:
                found = (found - given) | self.objects(arg.value)
        return found

    def _params_behind(self, value: cst.BaseExpression) -> Iterator[cst.Param]:
        """The parameters that go into an expression, also under other names, and that nothing else is bound to."""
        waiting = [value]
        seen: set[Variable] = set()
        while waiting:
            names = [part for part in walk(waiting.pop()) if isinstance(part, cst.Name)]
            for variable in map(self.names.variable_at, names):
                if variable is None or variable in seen:
                    continue
                seen.add(variable)
                param = _only_wrapped(variable)
                if param is not None:
                    yield param
                elif isinstance(variable.scope.owner, Function) and not variable.scope.owner.is_module:
                    waiting += [
                        one.value for one in variable.bindings if one.kind == "assign" and one.value is not None
                    ]

    def _initialized(self, node: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression | None] | None:
        """Models and optimizers of an `amp.initialize`: it returns the very objects that it is given."""
        if not isinstance(node.func, (cst.Name, cst.Attribute)):
            return None
        if "apex.amp.initialize" not in self.import_paths(node.func):
            return None
        given: dict[str, cst.BaseExpression] = {}
        for name, arg in zip(("models", "optimizers"), node.args, strict=False):
            if arg.keyword is None and not arg.star:
                given[name] = arg.value
        for arg in node.args:
            if arg.keyword is not None:
                given[arg.keyword.value] = arg.value
        if "models" not in given:
            return None
        optimizers = given.get("optimizers")
        if isinstance(optimizers, cst.Name) and optimizers.value == "None":
            optimizers = None
        return given["models"], optimizers

    def _select(self, objects: ObjectSet, field: str) -> ObjectSet:
        found: set[Object] = set()
        for one in objects:
            found |= self._answers.to((one, field), partial(self._field, one, field))
        return frozenset(found)

    def _field(self, one: Object, field: str) -> ObjectSet:
        if one.kind == "import":
            return self._of_import(self.names.elsewhere.member(str(one.origin), field))
        if field == "module" and not (one.kind == "instance" and self._stored(one, field)):
            return frozenset({one})  # DataParallel and DDP hold the model under `.module`
        if field == "__class__" and isinstance(one.origin, Class):
            return frozenset(self.object_of("definition", owner.node) for owner in self.derived(one.origin))
        if one.kind == "display" and field.startswith("["):
            held = self._element(one.origin, field)
            return held if isinstance(one.origin, cst.Tuple) else held | self._stored(one, field)
        if one.kind == "call" and isinstance(one.origin, cst.Call):
            given = self._initialized(one.origin)
            if given is not None and field in ("[0]", "[1]"):
                part = given[0] if field == "[0]" else given[1]
                return self.objects(part) if part is not None else _NOTHING
        stored = self._stored(one, field)
        if self.has_keys_as_attributes(one) and not field.startswith("["):
            stored |= self._stored(one, f"[{field!r}]")
            if stored:
                return stored
        if one.kind == "instance" or isinstance(one.origin, cst.ClassDef):
            stored |= self._class_level(one, field)
            if stored:
                return stored
        if one.depth >= _DEEPEST:
            return stored | {one}
        return stored | {self.object_of("field", field, one)}

    def _stored(self, one: Object, field: str) -> ObjectSet:
        if field not in self._field_stores:
            self._field_stores[field] = FieldStores(self._stores_like(field), self.objects, self._answers.knows)
        found: set[Object] = set()
        for store in self._field_stores[field].by(one):
            found |= self._walk(self.objects(store.value), store.selector)
        return frozenset(found)

    def _stores_like(self, field: str) -> list[Store]:
        """The stores that a field may be of: any element is that of a key, and the one of a key may be any element."""
        keys = self._stores.elements() if field == ANY else [field, ANY] if field.startswith("[") else [field]
        return [store for key in keys for store in self._stores.at(key)]

    def _class_level(self, one: Object, field: str) -> ObjectSet:
        found = _NOTHING
        for owner, variable in self._in_class_bodies(one, field):
            if not any(one.kind == "def" for one in variable.bindings):
                found |= self._of_variable(variable)
            if field in owner.methods and owner.methods[field].is_property:
                for value in self._stores.returned(owner.methods[field]):
                    found |= self.objects(value)
        return found

    def _in_class_bodies(self, one: Object, field: str) -> Iterator[tuple[Class, Variable]]:
        """Variables in the class body are attributes of the class, and of the instances, too."""
        own = self.ancestors(self.tree.class_at[one.origin]) if isinstance(one.origin, cst.ClassDef) else ()
        for owner, variable in self._class_variables.get(field, ()):
            if owner in own or self.root_class(owner) is one.origin:
                yield owner, variable

    @cached_property
    def _class_variables(self) -> dict[str, list[tuple[Class, Variable]]]:
        """The variables in class bodies, by their names."""
        found: dict[str, list[tuple[Class, Variable]]] = {}
        for owner in self.tree.classes:
            scope = self.names.scopes.get(owner)
            for name, variable in scope.variables.items() if scope is not None else ():
                found.setdefault(name, []).append((owner, variable))
        return found

    def _element(self, node: object, field: str) -> ObjectSet:
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self.objects(node.elt)
        if isinstance(node, cst.DictComp):
            return self.objects(node.value)
        found = _NOTHING
        if isinstance(node, cst.Subscript):
            return self.elements(node.value)
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            for index, element in enumerate(node.elements):
                if isinstance(element, cst.StarredElement):
                    found |= self.elements(element.value)
                elif field in (ANY, f"[{index}]"):
                    found |= self.objects(element.value)
        elif isinstance(node, cst.Dict):
            for value in items_under(node, field):
                found |= self.objects(value)
        return found

    def _values_of_variable(self, variable: Variable) -> list[cst.BaseExpression]:
        values = []
        for binding in variable.bindings:
            if binding.value is not None and not binding.selector and binding.kind in ("assign", "param"):
                values.append(binding.value)
            function = variable.scope.owner
            if binding.kind == "param" and isinstance(function, Function) and isinstance(binding.node, cst.Param):
                for call, _ in self.possible_callers(function):
                    arg = self.argument(call, function, binding.node)
                    if arg is not None:
                        values.append(arg.value)
                    elif any(given.star for given in call.args):
                        values += self._starred_values(call, function, binding.node) or []
        return values


def _may_be_function(node: cst.BaseExpression, defined: set[str]) -> bool:
    """True for a lambda, the name of something defined, and a choice with such an arm."""
    if isinstance(node, cst.IfExp):
        return _may_be_function(node.body, defined) or _may_be_function(node.orelse, defined)
    name = node.value if isinstance(node, cst.Name) else node.attr.value if isinstance(node, cst.Attribute) else None
    return isinstance(node, cst.Lambda) or name in defined


def _only_wrapped(variable: Variable) -> cst.Param | None:
    """The parameter behind a name that is bound to nothing else but what is made of it: `net = DataParallel(net)`."""
    params = [binding.node for binding in variable.bindings if binding.kind == "param"]
    others = [binding for binding in variable.bindings if binding.kind != "param"]
    if len(params) != 1 or not isinstance(params[0], cst.Param):
        return None
    for binding in others:
        if binding.kind != "assign" or binding.value is None or variable.name not in names_in(binding.value):
            return None
    return params[0]


def items_under(node: object, field: str) -> Iterator[cst.BaseExpression]:
    """The values that a dict display may hold under a key."""
    for item in node.elements if isinstance(node, cst.Dict) else ():
        if isinstance(item, cst.DictElement):
            key = string_key(item.key) if isinstance(item.key, cst.SimpleString) else field
            if field in (ANY, key):
                yield item.value
