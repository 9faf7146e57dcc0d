"""Which classes and functions a function is given as their decorator, as registries are filled:

MODELS = {}

def register(name):
    def keep(model):            is given Net
        MODELS[name] = model
        return model
    return keep

@register("net")
class Net(nn.Module): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts.callables import Callables
from amp_migrate.facts.stores import Stores
from amp_migrate.facts.tree import Class, Function


class Decorations:
    """Questions about decorators; `objects` knows what names mean."""

    def __init__(self, objects: Callables, stores: Stores) -> None:
        self._objects = objects
        self._stores = stores

    def given(self, function: Function, param: cst.Param) -> list[cst.ClassDef | cst.FunctionDef]:
        """What a function is given for a parameter as a decorator: classes, and functions where it hands them back."""
        params = function.parameters[1:] if function.is_method else function.parameters
        if not self._decorated or params[:1] != (param,):
            return []
        hands_back = self._is_returned(param.name.value, function)
        return [
            node
            for node, decorator in self._decorated
            if (hands_back or isinstance(node, cst.ClassDef)) and function in self._called(decorator)
        ]

    @cached_property
    def _decorated(self) -> list[tuple[cst.ClassDef | cst.FunctionDef, cst.BaseExpression]]:
        tree = self._objects.tree
        nodes: list[cst.CSTNode] = [owner.node for owner in tree.classes]
        nodes += [function.node for function in tree.functions if function.owner is None]
        return [
            (node, one.decorator)
            for node in nodes
            if isinstance(node, (cst.ClassDef, cst.FunctionDef))
            for one in node.decorators
        ]

    @cached_property
    def _nested(self) -> dict[Function, list[Function]]:
        found: dict[Function, list[Function]] = {}
        for one in self._objects.tree.functions:
            if one.parent is not None:
                found.setdefault(one.parent, []).append(one)
        return found

    def _called(self, decorator: cst.BaseExpression) -> Iterator[Function]:
        """`register`, and what `register("name")` returns."""
        if isinstance(decorator, cst.Call):
            made = self._objects.called_function(decorator)
            if made is not None:
                yield from (one for one in self._nested.get(made, ()) if self._is_returned(one.name, made))
            return
        named = self._objects.function_named(decorator)
        if named is not None:
            yield named
        elif isinstance(decorator, cst.Attribute):
            for owner in self._objects.origins(decorator.value):
                if isinstance(owner, Class) and decorator.attr.value in owner.methods:
                    yield owner.methods[decorator.attr.value]

    def _is_returned(self, name: str, function: Function) -> bool:
        returned = self._stores.returned(function)
        return any(isinstance(value, cst.Name) and value.value == name for value in returned)
