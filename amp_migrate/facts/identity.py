"""Which expressions certainly have the same value: keys that are equal only where the value is.

`objects` says what may be the same; here it must be. A name that is bound once to another name, attribute
or element stands for it, and so does a parameter that every call gives the same thing:

    fp16 = args.fp16              key(fp16) == key(args.fp16) == key(self.args.fp16)
    Trainer(args)                 with  def __init__(self, args): self.args = args
"""

from __future__ import annotations

from collections.abc import Hashable

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.targets import shown_at
from amp_migrate.facts.tree import Class, Function
from amp_migrate.facts.variables import Variable

Key = tuple[Hashable, ...]


class Identity:
    """Keys of names, attributes and elements."""

    def __init__(self, names: Names, objects: Objects) -> None:
        self.names = names
        self.objects = objects
        self._open: set[Variable] = set()

    def key(self, node: cst.BaseExpression) -> Key | None:
        """A key that two expressions share only if they have the same value; None for other expressions."""
        if isinstance(node, cst.Name):
            variable = self.names.definition(node)
            return self.variable_key(variable) if variable is not None else ("name", node.value)
        node = self.objects.behind_property(node)
        if isinstance(node, cst.Attribute):
            variable = self.names.definition(node)
            if variable is not None:
                return self.variable_key(variable)
            base = self.key(node.value)
            return self._field(base, node.attr.value) if base is not None else None
        if isinstance(node, cst.Subscript):
            base = self.key(node.value)
            field = subscript_key(node)
            return self._field(base, field) if base is not None and field != "[*]" else None
        return None

    def variable_key(self, variable: Variable) -> Key:
        variable = self.names.source(variable)
        if variable.import_path is not None and all(one.kind == "import" for one in variable.bindings):
            # `import torch` and `import torch.optim` bind one thing
            return ("import", self.names.followed(variable.import_path))
        if variable in self._open or len(variable.bindings) != 1:
            return ("variable", variable)
        self._open.add(variable)
        try:
            return self._resolve(variable) or self._stored(variable) or ("variable", variable)
        finally:
            self._open.discard(variable)

    def _resolve(self, variable: Variable) -> Key | None:
        binding = variable.bindings[0]
        if binding.kind == "assign" and binding.value is not None:
            return self._bound_key(binding.value, binding.selector)
        function = variable.scope.owner
        if binding.kind != "param" or not isinstance(function, Function) or not isinstance(binding.node, cst.Param):
            return None
        if function.owner is not None and function.is_method and function.parameters[0] is binding.node:
            return ("self", self.objects.root_class(function.owner))
        return self._argument_key(function, binding.node)

    def _bound_key(self, value: cst.BaseExpression, selector: tuple[int, ...]) -> Key | None:
        """The key of what is bound: the only instance of a class, or what the only call of a function returns."""
        if not isinstance(value, cst.Call):
            return self.key(value) if not selector else None
        made = self.objects.only_instance(value) if not selector else None
        if made is not None:
            return ("self", made)
        function = self.objects.called_function(value)
        if function is None or len(self.objects.possible_callers(function)) != 1:
            return None
        last, returned = function.body.statements[-1].node, self.objects.returned_by(function)
        part = returned[0] if len(returned) == 1 and isinstance(last, cst.Return) else None
        shown = shown_at(part, selector)
        return self.key(shown) if shown is not None else None

    def _stored(self, variable: Variable) -> Key | None:
        """`self.args = args` in several methods of a class: there `args` is what the class calls `self.args`. So it is
        where a constructor hands it to that of a base which keeps it: `super().__init__(args)`.
        """
        function = variable.scope.owner
        if not isinstance(function, Function) or not function.is_method or function.owner is None:
            return None
        receiver: Key = ("self", self.objects.root_class(function.owner))
        for name, stores in self.objects.all_stores():
            for store in stores:
                if store.statement.function is function and not store.selector and name.isidentifier():
                    if isinstance(store.value, cst.Name) and self.names.variable_at(store.value) is variable:
                        if self.key(store.base) == receiver:
                            return ("field", receiver, name)
        bases = [one for one in self.objects.bases(function.owner) if function.name == "__init__"]
        inits = {init for one in bases if (init := self.objects.method_of(one, "__init__")) is not None}
        for init in inits:
            for call, statement in self.objects.callers(init):
                if statement.function is function:
                    for param, arg in self.objects.arguments(call, init):
                        if isinstance(arg.value, cst.Name) and self.names.variable_at(arg.value) is variable:
                            return self._kept(param)
        return None

    def _kept(self, param: cst.Param) -> Key | None:
        """The same for a parameter that is never bound again, of an attribute that is set once."""
        variable = self.names.variable_at(param.name)
        key = self._stored(variable) if variable is not None and len(variable.bindings) == 1 else None
        stores = self.objects.stores_of(str(key[2])) if key is not None else ()
        return key if key is not None and len([one for one in stores if self.key(one.base) == key[1]]) == 1 else None

    def _argument_key(self, function: Function, param: cst.Param) -> Key | None:
        """The key that all calls of the function agree on; one that hands the parameter on to itself says nothing."""
        keys: set[Key | None] = set()
        itself = self.names.variable_at(param.name)
        for call, _ in self.objects.possible_callers(function):
            arg = self.objects.argument(call, function, param)
            given = [arg] if arg is not None else self._handed_on(call, function, param)
            keys |= {self.key(one.value) for one in given} or {None}
        keys.discard(("variable", itself))
        return keys.pop() if len(keys) == 1 else None

    def _handed_on(self, call: cst.Call, function: Function, param: cst.Param) -> list[cst.Arg]:
        """What a parameter gets by the stars of `super().__init__(*args, **kwargs)`, where everybody gives it."""
        given = self.objects.handed_on(call, function, param) if any(one.star for one in call.args) else None
        callers = self.objects.possible_callers(self.objects.tree.function_of(call))
        return given if given is not None and len(given) == len(callers) else []

    def _field(self, base: Key, field: str) -> Key:
        if base[0] == "self" and isinstance(base[1], Class) and not field.startswith("["):
            values = [
                store.value
                for store in self.objects.stores_of(field)
                if not store.selector and self.key(store.base) == base
            ]
            if len(values) == 1:
                key = self.key(values[0])
                if key is not None:
                    return key
        return ("field", base, field)
