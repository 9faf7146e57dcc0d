"""Which function or class of the unit a call runs, and which argument each of its parameters gets.

train(model)                  the function that the name means, also through imports
run = partial(train, model)   the function that is given to `partial`, and to torch's `checkpoint`
TRAINERS[name](model)         the only function in that table
step(model, batch)            where `step` is a parameter: the function that every caller passes for it
self.process(batch)           the method that all classes of the hierarchy agree on
Trainer.process(self, batch)  the method of just this class
self.hooks[0](batch)          a method that was stored, looked up by `getattr`, or named first
TRAINERS[name](model)         the constructor of all classes in the table, if they share one
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts.answers import Answers
from amp_migrate.facts.hierarchy import Hierarchy
from amp_migrate.facts.names import Names
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.only_bases import only_bases
from amp_migrate.facts.tree import Class, Function, Statement, Tree, is_super
from amp_migrate.facts.variables import Variable

_LOOKUPS = (cst.Subscript, cst.Call)  # TABLE[name](x), getattr(module, name)(x)
# They run the function that they are given first, with the arguments that follow.
_RUN_THEIR_FIRST = frozenset(("torch.utils.checkpoint.checkpoint",))

Question = cst.CSTNode | Variable | tuple[Object, str]


class Callables(Hierarchy, ABC):
    """Questions about calls. What an expression may mean, it leaves to the points-to analysis built on it."""

    def __init__(self, tree: Tree, names: Names) -> None:
        super().__init__(tree, names)
        self._callers: dict[Function, list[tuple[cst.Call, Statement]]] = {}
        self._possible_callers: dict[Function, list[tuple[cst.Call, Statement]]] = {}
        self._answers: Answers[Question, ObjectSet] = Answers(frozenset())
        self._known_function: dict[cst.Call, Function | None] = {}
        self._known_candidates: dict[cst.Call, tuple[Function, ...]] = {}
        self._known_handers: dict[cst.Call, cst.Call | None] = {}
        self._order = {function: number for number, function in enumerate(tree.function_at.values())}

    @abstractmethod
    def objects(self, node: cst.BaseExpression) -> ObjectSet:
        """The things that `node` may mean."""

    @abstractmethod
    def origins(self, node: cst.BaseExpression) -> set[object]:
        """Where the things that `node` may mean come from: a `Class` for instances, a `def`, a call."""

    # -- calls ----------------------------------------------------------------------------------------

    def called_function(self, call: cst.Call) -> Function | None:
        """The function, method or `__init__` of the unit that a call runs, where that is certain."""
        return self._answers.beside(self._known_function, call, self._certainly_called)

    def _certainly_called(self, call: cst.Call) -> Function | None:
        return self._plainly_called(call) or _only(self._held(call))

    def _plainly_called(self, call: cst.Call) -> Function | None:
        func = self.callee(call)
        if isinstance(func, cst.Name):
            meant = self._function_meant(func)
            return meant or _only(self._called_instances(call)) or _only(self._constructors(call))
        if isinstance(func, cst.Attribute):
            if is_super(func.value):
                return self._inherited(call, func.attr.value)
            named = self.function_named(func)
            if named is not None:
                return named
            own = self.exact_class(func.value)
            if own is not None and (method := self.method_of(own, func.attr.value)) and not method.is_property:
                return method
            classes = self._classes_meant(func.value)
            if classes:
                return _only({self.method_of(one, func.attr.value) for one in classes})
            if len(mine := self._of_self(call)) == 1:
                return next(iter(mine))
            owners = [owner for owner in self.origins(func.value) if isinstance(owner, Class)]
            of_self = isinstance(func.value, cst.Name) and func.value.value == "self"
            methods = {self._method(owner, func.attr.value, of_self=of_self) for owner in owners}
            methods = {method for method in methods if method is None or self._gives_enough(call, method)}
            has_none = methods <= {None}  # `self.fit(x)` of an attribute that holds an instance
            return _only(self._called_instances(call) if has_none else methods) or _only(self._constructors(call))
        meant = self._function_meant(func) or _only(self._constructors(call))
        return meant or _only(self._called_instances(call))

    def callee(self, call: cst.Call) -> cst.BaseExpression:
        """What a call calls: `train` of `partial(train, model)(batch)` and of `checkpoint(train, model)`."""
        around = self._handing(call)
        return around.args[0].value if around is not None else call.func

    def _given(self, call: cst.Call) -> list[cst.Arg]:
        """What that is given."""
        around = self._handing(call)
        if around is None:
            return [*call.args]
        return [*around.args[1:], *(call.args if around is not call else ())]

    def _handing(self, call: cst.Call) -> cst.Call | None:
        """The call whose first argument is a function that the call runs, with the other arguments."""
        return self._answers.beside(self._known_handers, call, self._handing_anew)

    def _handing_anew(self, call: cst.Call) -> cst.Call | None:
        if call.args and not call.args[0].star and self.names.dotted(call.func) in _RUN_THEIR_FIRST:
            return call
        return self.partial_behind(call.func) if self._has_partials else None

    def candidates(self, call: cst.Call) -> tuple[Function, ...]:
        """The functions that a call may run, in their order: one where that is certain, else all that a variable or a
        table may hold, constructors among them, or the methods of all classes that its object may be of, and of what
        these inherit from.
        """
        return self._answers.beside(self._known_candidates, call, self._in_order)

    def alternatives(self, call: cst.Call) -> tuple[Function, ...]:
        """The function that a call runs, or those of a table of which it runs one: `TRAINERS[name](model)`. None where
        it may be something else.
        """
        certain = self.called_function(call)
        if certain is not None:
            return (certain,)
        held = list(self._held(call)) if self._is_of_table(self.callee(call)) else []
        functions = [one for one in self.candidates(call) if one in held and one.owner is None and not one.is_lambda]
        return tuple(functions) if len(functions) == len(held) else ()

    def _is_of_table(self, node: cst.BaseExpression) -> bool:
        """True for `TABLE[name]`, `TABLE.get(name)` and a variable that is assigned one; not for what callers give."""
        variable = self.names.definition(node) if isinstance(node, cst.Name) else None
        values = [node] if variable is None else [one.value for one in variable.bindings if one.kind == "assign"]
        return len(values) == (len(variable.bindings) if variable is not None else 1) and all(
            isinstance(one, (cst.Subscript, cst.IfExp))
            or (isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute) and one.func.attr.value == "get")
            for one in values
        )

    def _in_order(self, call: cst.Call) -> tuple[Function, ...]:
        return tuple(sorted(self._possibly_called(call), key=self._order.__getitem__))

    def forget(self) -> None:
        """Ask everything anew: the callers have changed."""
        self._answers.forget()
        self._known_function.clear()
        self._known_candidates.clear()
        self._known_handers.clear()

    def _possibly_called(self, call: cst.Call) -> set[Function]:
        certain = self.called_function(call)
        if certain is not None:
            return {certain}
        func = self.callee(call)
        if isinstance(func, (cst.Name, *_LOOKUPS)):
            functions = {function for function in self._held(call) if function is not None}
            return functions | self._constructors_among(call) | self._called_instances(call)
        if not isinstance(func, cst.Attribute) or is_super(func.value):
            return set()
        if mine := self._of_self(call):
            return mine
        owners = [owner for owner in self.origins(func.value) if isinstance(owner, Class)]
        found = {method for owner in owners for method in self._methods(owner, func.attr.value)}
        found |= {method for owner in owners for method in self._of_siblings(owner, func.attr.value)}
        found |= {one for cls in self._classes_meant(func.value) if (one := self.method_of(cls, func.attr.value))}
        found = {method for method in found if self._gives_enough(call, method)}
        found = found or {one for one in self._held(call) if one is not None}
        found = found or self._constructors_among(call)
        return found or self._called_instances(call)

    def _of_self(self, call: cst.Call) -> set[Function]:
        """What `self.name()` may run in a method: the methods of its class and of those below it, not of siblings."""
        method, func = self.tree.function_of(call).method, self.callee(call)
        if method is None or method.owner is None or not isinstance(func, cst.Attribute):
            return set()
        if not isinstance(func.value, cst.Name) or func.value.value != method.instance:
            return set()
        run = (self.method_of(one, func.attr.value) for one in self.derived(method.owner))
        found = {one for one in run if one is not None and not one.is_property and self._gives_enough(call, one)}
        return {one for one in found if not _is_abstract(one)} or found

    def _held(self, call: cst.Call) -> Iterator[Function | None]:
        """The function, or the methods, that each thing is which a call may call; None for what is none."""
        for one in self.objects(self.callee(call)):
            holder = one.holder.origin if one.kind == "field" and one.holder is not None else None
            methods: set[Function | None] = set()
            if isinstance(one.origin, (cst.FunctionDef, cst.Lambda)):
                methods = {self.tree.function_at[one.origin]}
            elif isinstance(holder, Class):
                methods = {one for one in self._methods(holder, str(one.origin)) if self._gives_enough(call, one)}
            elif isinstance(holder, cst.ClassDef):
                methods = {self.method_of(self.tree.class_at[holder], str(one.origin))}
            yield from methods or {None}

    def properties(self, node: cst.Attribute) -> list[Function]:
        """The properties that reading an attribute may run."""
        owners = [one for one in self.origins(node.value) if isinstance(one, Class)] if self._has_properties else []
        family = [cls for owner in owners for cls in self.derived(owner)]
        found = (cls.methods.get(node.attr.value) for cls in family)
        return list(dict.fromkeys(one for one in found if one is not None and one.is_property))

    def behind_property(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """`self._net` for `trainer.net`, a property that does nothing but to return it; all else is itself."""
        found = self.properties(node) if isinstance(node, cst.Attribute) else []
        is_sure = len(found) == 1 and all(isinstance(one, Class) for one in self.origins(node.value))  # type: ignore[attr-defined]
        body = [one.node for one in found[0].body.statements] if is_sure else []
        value = body[0].value if len(body) == 1 and isinstance(body[0], cst.Return) else None
        return value if isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name) else node

    @cached_property
    def _has_properties(self) -> bool:
        return any(method.is_property for owner in self.tree.classes for method in owner.methods.values())

    def _classes_meant(self, node: cst.BaseExpression) -> list[Class]:
        """The classes of the unit that an expression means, where it means nothing else."""
        meant = self.origins(node)
        classes = [self.tree.class_at[one] for one in meant if isinstance(one, cst.ClassDef)]
        return classes if len(classes) == len(meant) else []

    def _called_instances(self, call: cst.Call) -> set[Function]:
        """`trainer(loader)`: the `__call__` of the classes that a name or an attribute holds instances of, and the
        forward of a module that trains itself.
        """
        if not self._runs_instances:
            return set()
        owners = [owner for owner in self.origins(call.func) if isinstance(owner, Class)]
        methods = {method for owner in owners for method in self._methods(owner, "__call__")}
        for forwards in (self._methods(owner, "forward") for owner in owners):
            methods |= forwards if forwards & self._training else set()
        return {method for method in methods if not _is_abstract(method)}

    @cached_property
    def _runs_instances(self) -> bool:
        return "__call__" in self._defining or bool(self._training)

    @cached_property
    def _training(self) -> frozenset[Function]:
        """The forwards with a backward in them."""
        calls = (call for call, _ in self.tree.every(cst.Call) if _is_backward(call))
        return frozenset(one for one in map(self.tree.function_of, calls) if one.name == "forward" and one.is_method)

    def _of_siblings(self, owner: Class, name: str) -> Iterator[Function]:
        """Methods that a class derived from `owner` has from another base: `class Sub(Clips, Mixin)`."""
        for cls in self.derived(owner):
            named = (one.methods[name] for one in self.ancestors(cls) if name in one.methods)
            yield from (method for method in named if not method.is_property)

    def callers(self, function: Function) -> list[tuple[cst.Call, Statement]]:
        """The calls of a function, with the statements that hold them."""
        return self._callers.get(function, [])

    def possible_callers(self, function: Function) -> list[tuple[cst.Call, Statement]]:
        """These, and the calls that may run another function as well: `TRAINERS[name](model)`."""
        return [*self.callers(function), *self._possible_callers.get(function, ())]

    def argument(self, call: cst.Call, function: Function, param: cst.Param) -> cst.Arg | None:
        """The argument that a call gives for a parameter, if it gives one."""
        return next((arg for name, arg in self.arguments(call, function) if name is param), None)

    def arguments(self, call: cst.Call, function: Function) -> Iterator[tuple[cst.Param, cst.Arg]]:
        """Pairs of parameter and argument of a call; a starred argument ends the positional ones."""
        params = self.given_in(call, function)
        by_name = {param.name.value: param for param in params}
        positional = iter(params)
        for arg in self._given(call):
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

    def _gives_enough(self, call: cst.Call, function: Function) -> bool:
        """False for `self.net.train()` where `train(self, batches)` is a method of what has the net."""
        if function.decorators or any(arg.star for arg in call.args):
            return True
        given = [param for param, _ in self.arguments(call, function)]
        return all(param in given or param.default is not None for param in self.given_in(call, function))

    def given_in(self, call: cst.Call, function: Function) -> list[cst.Param]:
        """The parameters that a call can give: without the instance that a method is called on."""
        params = list(function.parameters)
        return params[1:] if function.is_method and self._has_instance(call, function) else params

    def _has_instance(self, call: cst.Call, function: Function) -> bool:
        """False for `Trainer.step(self, x)`, where the instance is an argument."""
        func = self.callee(call)
        if isinstance(func, cst.Attribute):
            return function.has_decorator("classmethod") or not self._classes_meant(func.value)
        if function.name in ("__call__", "forward") or self.classes_made(call):
            return True  # `net(x)` runs its forward
        return any(one.kind == "field" for one in self.objects(func))  # `step = self.step`, `getattr(self, "step")`

    def handed_on(self, call: cst.Call, function: Function, param: cst.Param) -> list[cst.Arg] | None:
        """What a parameter gets where the call hands on the `*args` and `**kwargs` of the function that it stands in:
        the arguments of that one's callers. None where some of them are not in sight.

            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
        """
        around = self.tree.function_of(call)
        callers = self.possible_callers(around) if self._hands_on(call, around) else []
        if not callers or any(arg.star for outer, _ in callers for arg in outer.args):
            return None
        own = [arg for arg in call.args if not arg.star and arg.keyword is None]
        places = [place for place, one in enumerate(self.given_in(call, function)) if one is param]
        place = places[0] - len(own) if places else -1
        found = (self._handed_by(outer, around, param.name.value, place) for outer, _ in callers)
        return [arg for arg in found if arg is not None]

    def _hands_on(self, call: cst.Call, around: Function) -> bool:
        """True where the stars of a call are those of the function around it, as it was given them."""
        own = {"*": around.signature.star_arg, "**": around.signature.star_kwarg}
        for arg in (given for given in call.args if given.star):
            variable = self.names.variable_at(arg.value)
            if variable is None or [binding.node for binding in variable.bindings] != [own[arg.star]]:
                return False
        return True

    def _handed_by(self, outer: cst.Call, around: Function, name: str, place: int) -> cst.Arg | None:
        """The argument that ends up in a parameter of this name, at this place among those that `*args` holds."""
        taken = self.given_in(outer, around)
        plain = [arg for arg in outer.args if arg.keyword is None]
        positional = len(taken) - len(around.signature.kwonly_params)
        rest = plain[positional:]
        if 0 <= place < len(rest):
            return rest[place]
        named = (arg for arg in outer.args if arg.keyword is not None and arg.keyword.value == name)
        return next(named, None) if name not in [param.name.value for param in taken] else None

    def partial_behind(self, node: cst.BaseExpression) -> cst.Call | None:
        """The `functools.partial(f, ...)` that an expression means, where it is the only thing it can mean."""
        meant = self._only_value(node) if isinstance(node, cst.Name) else _sole(self.origins(node))
        return meant if isinstance(meant, cst.Call) and self.is_partial(meant) else None

    def is_partial(self, call: cst.Call) -> bool:
        """True for `functools.partial(f, ...)`."""
        return bool(call.args) and self.names.dotted(call.func) == "functools.partial"

    @cached_property
    def _has_partials(self) -> bool:
        return any(self.is_partial(call) for call, _ in self.tree.every(cst.Call))

    def dict_behind(self, arg: cst.Arg) -> cst.Call | None:
        """The `dict(key=value, ...)` of a `**name` that is bound once and not changed by item."""
        variable = self.names.variable_at(arg.value) if arg.star == "**" and isinstance(arg.value, cst.Name) else None
        if variable is None or len(variable.bindings) != 1:
            return None
        value = variable.bindings[0].value
        is_dict = isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict"
        only_given = all(isinstance(self.tree.parents.get(load), cst.Arg) for load in variable.loads)
        return value if isinstance(value, cst.Call) and is_dict and only_given else None

    # -- names ----------------------------------------------------------------------------------------

    def function_named(self, node: cst.BaseExpression) -> Function | None:
        """The function of the unit that a name means, or `module.name` (for a class, its `__init__`)."""
        binding = self._only_binding(node)
        if binding is None:
            return None
        if binding.node in self.tree.function_at:
            return self.tree.function_at[binding.node]
        owner = self.tree.class_at.get(binding.node)
        return self.method_of(owner, "__init__") if owner is not None else None

    def exact_class(self, node: cst.BaseExpression) -> Class | None:
        """The class of `Trainer(settings)`, and of the variable that is bound to it and to nothing else: its siblings
        are out of question.
        """
        if isinstance(node, cst.Call):
            return self.called_class(node)
        binding = self._only_binding(node)
        is_whole = binding is not None and binding.kind == "assign" and not binding.selector
        value = binding.value if binding is not None and is_whole else None
        return self.called_class(value) if isinstance(value, cst.Call) else None

    def called_class(self, call: cst.Call) -> Class | None:
        """The class of the unit that a call instantiates."""
        binding = self._only_binding(call.func)
        return self.tree.class_at.get(binding.node) if binding is not None else None

    def classes_made(self, call: cst.Call) -> list[Class]:
        """The classes of which a call makes an instance: one, the two of `(A if fast else B)(model)`, or those of a
        table, where it holds nothing else.
        """
        made = self.called_class(call)
        if made is not None:
            return [made]
        held = self.origins(call.func)
        if not held or not all(isinstance(one, cst.ClassDef) for one in held):
            return []
        return [one for one in self.tree.classes if one.node in held]

    def classes_among(self, call: cst.Call) -> list[Class]:
        """The classes in a table of classes and functions, of which a call takes one."""
        held = self.origins(call.func) if isinstance(call.func, _LOOKUPS) else ()
        return [self.tree.class_at[one] for one in held if isinstance(one, cst.ClassDef)]

    def _constructors_among(self, call: cst.Call) -> set[Function]:
        """The `__init__` of each class that a call may make, among them classes of files outside of the unit: of a
        name that several arms import.
        """
        held = self.objects(call.func)
        classes = [self.tree.class_at[one.origin] for one in held if isinstance(one.origin, cst.ClassDef)]
        others = [str(one.origin) for one in held if one.kind == "import"]
        if len(classes) + len(others) < len(held) or not all(map(self.names.elsewhere.is_there, others)):
            return set()
        return {one for owner in classes if (one := self.method_of(owner, "__init__")) is not None}

    def _constructors(self, call: cst.Call) -> set[Function | None]:
        """The `__init__` of each class that a call may make."""
        return {self.method_of(owner, "__init__") for owner in self.classes_made(call)}

    def _function_meant(self, node: cst.BaseExpression) -> Function | None:
        """The function that a name means, or that a variable or a table holds, whoever gave it its value."""
        named = self.function_named(node)
        if named is not None or not isinstance(node, (cst.Name, *_LOOKUPS)):
            return named
        meant = self._only_value(node) if isinstance(node, cst.Name) else _sole(self.origins(node))
        return self.tree.function_at.get(meant) if isinstance(meant, (cst.FunctionDef, cst.Lambda)) else None

    def _only_value(self, name: cst.Name) -> object:
        """Where the value of a name comes from, where that is one place."""
        variable = self.names.definition(name)
        if variable is None or all(binding.kind in ("def", "class") for binding in variable.bindings):
            return None
        return _sole(self.origins(name))

    # -- classes --------------------------------------------------------------------------------------

    def _inherited(self, call: cst.Call, name: str) -> Function | None:
        """The method that `super().name(...)` runs, where it is defined in the unit."""
        owner = self.tree.function_of(call).owner
        if owner is None:
            return None
        return next((found for base in self.bases(owner) if (found := self.method_of(base, name))), None)

    def _method(self, owner: Class, name: str, *, of_self: bool) -> Function | None:
        """The method that an instance known by `owner` runs, if all classes below it agree on one. Of classes that
        nobody makes, only a method of their own runs theirs: whoever makes one later gets both as they are.
        """
        candidates = self._methods(owner, name) - (set() if of_self else self._of_bases_alone(owner, name))
        defined = {method for method in candidates if not _is_abstract(method)} or candidates
        if len(defined) == 1:
            return defined.pop()
        if candidates:
            return None
        return next((found for base in self.bases(owner) if (found := self._method(base, name, of_self=of_self))), None)

    def _of_bases_alone(self, owner: Class, name: str) -> set[Function]:
        """The methods of classes that are nothing but bases, where each class derived from them has its own."""
        family = [cls for cls in self.derived(owner) if cls not in self._bases_alone]
        run = {self.method_of(cls, name) for cls in family}
        alone = {cls.methods[name] for cls in self.derived(owner) if cls in self._bases_alone and name in cls.methods}
        return alone - run if run else set()

    @cached_property
    def _bases_alone(self) -> frozenset[Class]:
        return only_bases(self.tree, self.names)

    def _methods(self, owner: Class, name: str) -> set[Function]:
        """The methods of a name in the class that instances are known by, and in all below it."""
        return {
            cls.methods[name] for cls in self._defining.get(name, ()) if cls is owner or self.root_class(cls) is owner
        }

    @cached_property
    def _defining(self) -> dict[str, list[Class]]:
        """The classes that define a method of a name."""
        found: dict[str, list[Class]] = {}
        for owner in self.tree.classes:
            for name in (name for name, method in owner.methods.items() if not method.is_property):
                found.setdefault(name, []).append(owner)
        return found


def _only(functions: Iterable[Function | None]) -> Function | None:
    """The one function that all of them are."""
    others = iter(functions)
    first = next(others, None)
    return first if all(one is first for one in others) else None


def _sole(origins: set[object]) -> object:
    return next(iter(origins)) if len(origins) == 1 else None


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def _is_abstract(method: Function) -> bool:
    """True for a body that does nothing, or only says that a subclass has to define the method."""
    return all(_says_nothing(statement.node) for statement in method.body.statements)


def _says_nothing(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Raise):
        error = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
        return isinstance(error, cst.Name) and error.value == "NotImplementedError"
    if isinstance(node, cst.Expr):
        return isinstance(node.value, (cst.BaseString, cst.Ellipsis))
    return isinstance(node, cst.Pass)
