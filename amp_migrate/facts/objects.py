"""Which objects an expression may mean: a points-to analysis of one module, answered on demand.

Objects are named by where they come from: a call, an import, a parameter that nothing in the file calls, an
instance of a class of the file, a field of another object. The order of statements and the calling context
are ignored, so the answer holds every object that the expression can mean, and perhaps some more: good for
"is this never the optimizer?", not for "are these two always equal?" (that is `identity`).

    model = Net().cuda()          objects(model) == objects(net) == {Call(Net())}
    train(model)                  with  def train(net): ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import libcst as cst

from amp_migrate.facts.names import Binding, Names, Variable
from amp_migrate.facts.tree import Class, Function, Statement, Tree, called_name, walk

ANY = "[*]"
_DEEPEST = 5

# Calls that return the module that they are given, wrapped or moved, or an optimizer around an optimizer.
WRAPPERS = frozenset(
    "DataParallel DistributedDataParallel DDP ApexDDP FullyShardedDataParallel convert_syncbn_model "
    "convert_sync_batchnorm compile LARC DistributedOptimizer list tuple sorted reversed iter".split()
)
_SAME_RECEIVER = frozenset(
    "cuda cpu to train eval half float double apply share_memory requires_grad_ values items".split()
)


@dataclasses.dataclass(frozen=True)
class Object:
    """An object by its origin.

    `kind` is one of import, call, parameter, instance, definition, display, field, name, value; `origin` the
    node, variable, class or dotted name behind it. A field has the object that holds it in `holder`.
    """

    kind: str
    origin: object
    holder: Object | None = None

    @property
    def depth(self) -> int:
        return 0 if self.holder is None else self.holder.depth + 1


ObjectSet = frozenset[Object]
Question = cst.CSTNode | Variable | tuple[Object, str]
_NOTHING: ObjectSet = frozenset()


@dataclasses.dataclass(frozen=True)
class Store:
    """`base.field = value`, `base[key] = value` or `base.append(value)`."""

    base: cst.BaseExpression
    value: cst.BaseExpression
    selector: tuple[int, ...]
    statement: Statement


class Objects:
    """Points-to questions about one module."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names
        self._stores: dict[str, list[Store]] = {}
        self._readers: dict[str, list[cst.BaseExpression]] = {}  # by attribute, what it is read from
        for part in walk(tree.module):
            if isinstance(part, cst.Attribute):
                self._readers.setdefault(part.attr.value, []).append(part.value)
        self._given: dict[str, list[Store]] = {}  # by keyword of a call that makes an object
        self._calls: list[tuple[cst.Call, Statement]] = []
        self._returns: dict[Function, list[cst.BaseExpression]] = {}
        self._memo: dict[Question, ObjectSet] = {}
        self._draft: dict[Question, ObjectSet] = {}
        self._open: set[Question] = set()
        self._cut = False
        for statement in tree.all_statements():
            self._collect(statement)
        self._callers: dict[Function, list[tuple[cst.Call, Statement]]] = {}
        self._collect_fields()
        self._link_calls()

    # -- what an expression may mean ------------------------------------------------------------------

    def objects(self, node: cst.BaseExpression) -> ObjectSet:
        """Every object that `node` may mean; constants mean none."""
        return self._remember(node, partial(self._of_expression, node))

    def variable_objects(self, variable: Variable) -> ObjectSet:
        """Every object that a variable may mean."""
        return self._of_variable(variable)

    def may_be(self, node: cst.BaseExpression, candidates: Iterable[Object]) -> bool:
        """True where `node` may mean one of the objects; an unknown element may be any known one."""
        mine = self.objects(node)
        return any(_overlap(one, other) for one in mine for other in candidates)

    def import_paths(self, node: cst.BaseExpression) -> list[str]:
        """The dotted names of the imported things that `node` may mean."""
        return [str(found.origin) for found in self.objects(node) if found.kind == "import"]

    def elements(self, node: cst.BaseExpression) -> ObjectSet:
        """What the elements of a container may mean."""
        return self._select(self.objects(node), ANY)

    def values_of(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The expressions that may have been assigned to a name, an attribute or an element as a whole."""
        if isinstance(node, cst.Name):
            variable = self.names.variable_at(node)
            return self._values_of_variable(variable) if variable is not None else []
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            field = node.attr.value if isinstance(node, cst.Attribute) else subscript_key(node)
            bases = self.objects(node.value)
            return [
                store.value
                for store in self._stores_at(field)
                if not store.selector and bases & self.objects(store.base)
            ]
        return []

    def stores_of(self, field: str) -> list[Store]:
        """Every store to an attribute of that name, whatever the object."""
        return self._stores.get(field, [])

    def is_kept(self, call: cst.Call, arg: cst.Arg) -> bool:
        """True for the model in `objs = Munch(model=model)`, read back as `objs.model`."""
        readers = self._readers.get(arg.keyword.value, []) if arg.keyword is not None else []
        return any(one.origin is call for base in readers for one in self.objects(base))

    def all_stores(self) -> Iterable[tuple[str, list[Store]]]:
        """Every attribute name and element key that is stored to, with the stores."""
        return self._stores.items()

    # -- functions and classes ------------------------------------------------------------------------

    def called_function(self, call: cst.Call) -> Function | None:
        """The function, method or `__init__` of this module that a call runs, where that is certain."""
        func = call.func
        if isinstance(func, cst.Name):
            bound = self.partial_behind(func)
            return self.function_named(bound.args[0].value if bound is not None else func)
        if isinstance(func, cst.Attribute):
            if _is_super(func.value):
                return self._inherited(call, func.attr.value)
            owners = [found.origin for found in self.objects(func.value) if found.kind == "instance"]
            methods = {self._method(owner, func.attr.value) for owner in owners if isinstance(owner, Class)}
            return methods.pop() if len(methods) == 1 else None
        return None

    def _inherited(self, call: cst.Call, name: str) -> Function | None:
        """The method that `super().name(...)` runs, where it is defined in this module."""
        owner = self.tree.function_of(call).owner
        if owner is None:
            return None
        return next((found for base in self.bases(owner) if (found := self._own_method(base, name))), None)

    def _own_method(self, owner: Class, name: str) -> Function | None:
        if name in owner.methods:
            return owner.methods[name]
        return next((found for base in self.bases(owner) if (found := self._own_method(base, name))), None)

    def function_named(self, node: cst.BaseExpression) -> Function | None:
        """The function of this module that a plain name means (for a class, its `__init__`)."""
        variable = self.names.variable_at(node) if isinstance(node, cst.Name) else None
        if variable is None or len(variable.bindings) != 1:
            return None
        binding = variable.bindings[0]
        if binding.node in self.tree.function_at:
            return self.tree.function_at[binding.node]
        owner = self.tree.class_at.get(binding.node)
        return self._method(owner, "__init__") if owner is not None else None

    def partial_behind(self, name: cst.Name) -> cst.Call | None:
        """The `functools.partial(f, ...)` that a name is bound to, where it is bound once."""
        variable = self.names.variable_at(name)
        if variable is None or len(variable.bindings) != 1:
            return None
        value = variable.bindings[0].value
        if not isinstance(value, cst.Call) or not value.args:
            return None
        return value if self.names.dotted(value.func) == "functools.partial" else None

    def dict_behind(self, arg: cst.Arg) -> cst.Call | None:
        """The `dict(key=value, ...)` of a `**name` that is bound once and not changed by item."""
        variable = self.names.variable_at(arg.value) if arg.star == "**" and isinstance(arg.value, cst.Name) else None
        if variable is None or len(variable.bindings) != 1:
            return None
        value = variable.bindings[0].value
        is_dict = isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict"
        only_given = all(isinstance(self.tree.parents.get(load), cst.Arg) for load in variable.loads)
        return value if isinstance(value, cst.Call) and is_dict and only_given else None

    def called_class(self, call: cst.Call) -> Class | None:
        """The class of this module that a call instantiates."""
        variable = self.names.variable_at(call.func) if isinstance(call.func, cst.Name) else None
        if variable is None or len(variable.bindings) != 1:
            return None
        return self.tree.class_at.get(variable.bindings[0].node)

    def bases(self, owner: Class) -> list[Class]:
        """The base classes of `owner` that are defined in this module."""
        found = []
        for base in owner.node.bases:
            variable = self.names.variable_at(base.value) if isinstance(base.value, cst.Name) else None
            if variable is not None and len(variable.bindings) == 1:
                parent = self.tree.class_at.get(variable.bindings[0].node)
                if parent is not None and parent is not owner:
                    found.append(parent)
        return found

    def root_class(self, owner: Class) -> Class:
        """The top of the hierarchy of a class inside this module; instances are known by it."""
        seen = {owner}
        while parents := [parent for parent in self.bases(owner) if parent not in seen]:
            owner = parents[0]
            seen.add(owner)
        return owner

    def callers(self, function: Function) -> list[tuple[cst.Call, Statement]]:
        return self._callers.get(function, [])

    def argument(self, call: cst.Call, function: Function, param: cst.Param) -> cst.Arg | None:
        """The argument that a call gives for a parameter, if it gives one."""
        return next((arg for name, arg in self.arguments(call, function) if name is param), None)

    def arguments(self, call: cst.Call, function: Function) -> Iterator[tuple[cst.Param, cst.Arg]]:
        """Pairs of parameter and argument of a call; a starred argument ends the positional ones."""
        params = list(function.parameters)
        if function.is_method and (isinstance(call.func, cst.Attribute) or self.called_class(call)):
            params = params[1:]
        by_name = {param.name.value: param for param in params}
        positional = iter(params)
        bound = self.partial_behind(call.func) if isinstance(call.func, cst.Name) else None
        for arg in (*(bound.args[1:] if bound is not None else ()), *call.args):
            if arg.star:
                positional = iter(())
                kept = self.dict_behind(arg)
                for given in kept.args if kept is not None else ():
                    if given.keyword is not None and given.keyword.value in by_name:
                        yield by_name[given.keyword.value], given
            elif arg.keyword is not None:
                if arg.keyword.value in by_name:
                    yield by_name[arg.keyword.value], arg
            else:
                param = next(positional, None)
                if param is not None:
                    yield param, arg

    # -- one pass over the module ---------------------------------------------------------------------

    def _collect(self, statement: Statement) -> None:
        node = statement.node
        if isinstance(node, cst.Assign):
            for assign_target in node.targets:
                self._collect_store(assign_target.target, node.value, (), statement)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self._collect_store(node.target, node.value, (), statement)
        elif isinstance(node, cst.Return) and node.value is not None:
            self._returns.setdefault(statement.function, []).append(node.value)
        for part in self.tree.expressions(statement):
            if isinstance(part, cst.Call):
                self._calls.append((part, statement))
                func = part.func
                if isinstance(func, cst.Attribute) and func.attr.value == "append" and len(part.args) == 1:
                    store = Store(func.value, part.args[0].value, (), statement)
                    self._stores.setdefault(ANY, []).append(store)

    def _collect_fields(self) -> None:
        """`State(model=model)` of a class without `__init__` (a dataclass, attrs), or of whatever another file
        defines (`Munch`, `SimpleNamespace`), sets the field, as far as somebody reads it.
        """
        for call, statement in self._calls:
            if self.function_named(call.func) is None:
                for arg in call.args:
                    if arg.keyword is not None and arg.keyword.value in self._readers:
                        store = Store(call, arg.value, (), statement)
                        self._given.setdefault(arg.keyword.value, []).append(store)

    def _collect_store(
        self, target: cst.BaseExpression, value: cst.BaseExpression, selector: tuple[int, ...], at: Statement
    ) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                if isinstance(element, cst.StarredElement):
                    return
                self._collect_store(element.value, value, (*selector, index), at)
        elif isinstance(target, cst.Attribute):
            self._stores.setdefault(target.attr.value, []).append(Store(target.value, value, selector, at))
        elif isinstance(target, cst.Subscript):
            self._stores.setdefault(subscript_key(target), []).append(Store(target.value, value, selector, at))

    def _link_calls(self) -> None:
        """Find the callers of every function; a method call can become clear only through other calls."""
        methods = {name for owner in self.tree.classes for name in owner.methods}
        waiting = [
            (call, statement)
            for call, statement in self._calls
            if isinstance(call.func, cst.Name)
            or (isinstance(call.func, cst.Attribute) and call.func.attr.value in methods)
        ]
        while True:
            unknown = []
            for call, statement in waiting:
                function = self.called_function(call)
                if function is None:
                    unknown.append((call, statement))
                else:
                    self._callers.setdefault(function, []).append((call, statement))
            self._memo.clear()
            if len(unknown) == len(waiting):
                return
            waiting = unknown

    # -- resolution -----------------------------------------------------------------------------------

    def _remember(self, key: Question, compute: Callable[[], ObjectSet]) -> ObjectSet:
        """Memoise, and cut cycles. What was found on the way while a cycle was cut may be incomplete:
        it serves the question that is open, and is forgotten after it.
        """
        if key in self._memo:
            return self._memo[key]
        if key in self._draft:
            return self._draft[key]
        if key in self._open:
            self._cut = True
            return _NOTHING
        outermost = not self._open
        self._open.add(key)
        try:
            found = compute()
        finally:
            self._open.discard(key)
        self._draft[key] = found
        if outermost:
            self._memo.update({key: found} if self._cut else self._draft)
            self._draft.clear()
            self._cut = False
        return found

    def _of_expression(self, node: cst.BaseExpression) -> ObjectSet:
        if isinstance(node, cst.Name):
            if node.value in ("None", "True", "False"):
                return _NOTHING
            variable = self.names.variable_at(node)
            return self._of_variable(variable) if variable is not None else frozenset({Object("name", node.value)})
        if isinstance(node, cst.Attribute):
            return self._select(self.objects(node.value), node.attr.value)
        if isinstance(node, cst.Subscript):
            return self._select(self.objects(node.value), subscript_key(node))
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
            return frozenset({Object("display", node)})
        return frozenset({Object("value", node)})

    def _of_variable(self, variable: Variable) -> ObjectSet:
        return self._remember(variable, partial(self._of_bindings, variable))

    def _of_bindings(self, variable: Variable) -> ObjectSet:
        found = _NOTHING
        for binding in variable.bindings:
            found |= self._of_binding(variable, binding)
        return found

    def _of_binding(self, variable: Variable, binding: Binding) -> ObjectSet:
        if binding.kind == "import":
            return frozenset({Object("import", binding.path)})
        if binding.kind in ("def", "class"):
            return frozenset({Object("definition", binding.node)})
        if binding.kind == "param":
            return self._of_parameter(variable, binding)
        if binding.value is None or binding.kind == "augment":
            return _NOTHING
        if binding.kind == "for":
            return self._of_loop_variable(binding.value, binding.selector)
        return self._walk(self.objects(binding.value), binding.selector)

    def _of_parameter(self, variable: Variable, binding: Binding) -> ObjectSet:
        function = variable.scope.owner
        if not isinstance(function, Function) or not isinstance(binding.node, cst.Param):
            return frozenset({Object("parameter", variable)})
        params = function.parameters
        if function.owner is not None and function.is_method and params and params[0] is binding.node:
            if not function.has_decorator("classmethod"):
                return frozenset({Object("instance", self.root_class(function.owner))})
        found = self.objects(binding.value) if binding.value is not None else _NOTHING
        callers = self.callers(function)
        for call, _ in callers:
            arg = self.argument(call, function, binding.node)
            if arg is not None:
                found |= self.objects(arg.value)
        return found if callers else found | {Object("parameter", variable)}

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

    def _of_call(self, node: cst.Call) -> ObjectSet:
        func = node.func
        name = called_name(node)
        first = next((arg for arg in node.args if not arg.star), None)
        if name in _SAME_RECEIVER and isinstance(func, cst.Attribute):
            return self.objects(func.value)
        if name in WRAPPERS and first is not None:
            return self.objects(first.value)
        owner = self.called_class(node)
        if owner is not None:
            return frozenset({Object("instance", self.root_class(owner))})
        function = self.called_function(node)
        if function is not None:
            returned = _NOTHING
            for value in self._returns.get(function, []):
                returned |= self.objects(value)
            return returned
        given = self._initialized(node)
        if given is not None and given[1] is None:
            return self.objects(given[0])
        return frozenset({Object("call", node)})

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
        found = _NOTHING
        for one in objects:
            found |= self._remember((one, field), partial(self._field, one, field))
        return found

    def _field(self, one: Object, field: str) -> ObjectSet:
        if one.kind == "import":
            return frozenset({Object("import", f"{one.origin}.{field}")})
        if field == "module":
            return frozenset({one})  # DataParallel and DDP hold the model under `.module`
        if one.kind == "display" and field.startswith("["):
            return self._element(one.origin, field) | self._stored(one, field)
        if one.kind == "call" and isinstance(one.origin, cst.Call):
            given = self._initialized(one.origin)
            if given is not None and field in ("[0]", "[1]"):
                part = given[0] if field == "[0]" else given[1]
                return self.objects(part) if part is not None else _NOTHING
        stored = self._stored(one, field)
        if one.kind == "instance":
            stored |= self._class_level(one, field)
            if stored:
                return stored
        if one.depth >= _DEEPEST:
            return stored | {one}
        return stored | {Object("field", field, one)}

    def _stored(self, one: Object, field: str) -> ObjectSet:
        keys = [field, ANY] if field.startswith("[") else [field]
        if field == ANY:
            keys = [key for key in self._stores if key.startswith("[")]
        found = _NOTHING
        for key in dict.fromkeys(keys):
            for store in self._stores_at(key):
                if one in self.objects(store.base):
                    found |= self._walk(self.objects(store.value), store.selector)
        return found

    def _stores_at(self, key: str) -> list[Store]:
        return [*self._stores.get(key, []), *self._given.get(key, [])]

    def _class_level(self, one: Object, field: str) -> ObjectSet:
        """Variables in the class body are attributes of the instances too."""
        found = _NOTHING
        for owner in self.tree.classes:
            if self.root_class(owner) is one.origin:
                scope = self.names.scopes.get(owner)
                variable = scope.variables.get(field) if scope is not None else None
                if variable is not None and not any(b.kind in ("def", "class") for b in variable.bindings):
                    found |= self._of_variable(variable)
        return found

    def _element(self, node: object, field: str) -> ObjectSet:
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self.objects(node.elt)
        if isinstance(node, cst.DictComp):
            return self.objects(node.value)
        found = _NOTHING
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            for index, element in enumerate(node.elements):
                if isinstance(element, cst.StarredElement):
                    found |= self.elements(element.value)
                elif field in (ANY, f"[{index}]"):
                    found |= self.objects(element.value)
        elif isinstance(node, cst.Dict):
            for item in node.elements:
                if isinstance(item, cst.DictElement) and (
                    field == ANY or not isinstance(item.key, cst.SimpleString) or _key_of(item.key) == field
                ):
                    found |= self.objects(item.value)
        return found

    def _values_of_variable(self, variable: Variable) -> list[cst.BaseExpression]:
        values = []
        for binding in variable.bindings:
            if binding.value is not None and not binding.selector and binding.kind in ("assign", "param"):
                values.append(binding.value)
            function = variable.scope.owner
            if binding.kind == "param" and isinstance(function, Function) and isinstance(binding.node, cst.Param):
                for call, _ in self.callers(function):
                    arg = self.argument(call, function, binding.node)
                    if arg is not None:
                        values.append(arg.value)
        return values

    def _method(self, owner: Class, name: str) -> Function | None:
        """The method that an instance known by `owner` runs, if all classes below it agree on one."""
        candidates = {
            cls.methods[name]
            for cls in self.tree.classes
            if name in cls.methods and (cls is owner or self.root_class(cls) is owner)
        }
        if len(candidates) == 1:
            return candidates.pop()
        if candidates:
            return None
        return next((found for base in self.bases(owner) if (found := self._method(base, name))), None)


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def subscript_key(node: cst.Subscript) -> str:
    """A constant subscript names an element of its own, every other one any element."""
    if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        index = node.slice[0].slice.value
        if isinstance(index, cst.Integer):
            return f"[{index.evaluated_value}]"
        if isinstance(index, cst.SimpleString):
            return _key_of(index)
    return ANY


def _key_of(node: cst.SimpleString) -> str:
    return f"[{node.evaluated_value!r}]"


def _overlap(one: Object, other: Object) -> bool:
    if one == other:
        return True
    if one.kind == other.kind == "field" and one.holder is not None and other.holder is not None:
        either_any = ANY in (one.origin, other.origin)
        both_elements = str(one.origin).startswith("[") and str(other.origin).startswith("[")
        same_field = one.origin == other.origin or (either_any and both_elements)
        return same_field and _overlap(one.holder, other.holder)
    return False
