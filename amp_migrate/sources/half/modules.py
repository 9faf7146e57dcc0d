"""Which expressions are modules, and which of those are trained.

A cast means two things: on a module it changes the weights, on a tensor a value. What is called on an object
tells them apart: `x.parameters()`, `x.train()`, a class of `torch.nn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet, is_field_of
from amp_migrate.facts.tree import Class, Statement, called_name
from amp_migrate.models import is_tensor_function
from amp_migrate.sources.optimizers import parameters_of

_OF_MODULES = frozenset("parameters named_parameters modules named_modules children named_children eval train".split())
_MEMBERS = frozenset("modules children named_modules named_children".split())
_NO_MODULES = ("torch.nn.functional", "torch.nn.Parameter", "torch.nn.parameter", "torch.nn.utils", "torch.nn.init")


class Modules:
    """Modules by the objects they may be; `trained` are those of which a stepped optimizer has the parameters."""

    def __init__(
        self, facts: Facts, optimizers: list[tuple[Statement, cst.Call]], models: Iterable[cst.BaseExpression] = ()
    ) -> None:
        """`models` are trained as well, whoever has their parameters."""
        self.facts = facts
        given = [
            receiver for _, call in optimizers for arg in call.args for receiver in parameters_of(facts, arg.value)
        ]
        self.trained = self._objects((*given, *models))
        self._applied = self._applied_to()
        self.modules = self.trained | self._objects(self._used_as_modules()) | self._applied.keys()

    def is_module(self, node: cst.BaseExpression) -> bool:
        """True where an expression may mean a module, or a part of one."""
        found = self.facts.objects.objects(node)
        return any(self._is_module(one) for one in found) and not self._is_tensor(found)

    def is_whole(self, node: cst.BaseExpression) -> bool:
        """True where an expression may mean a module that is known for one: no field of it, which may be a weight."""
        return any(one in self.modules or self._is_made_here(one) for one in self.facts.objects.objects(node))

    def is_trained(self, node: cst.BaseExpression) -> bool:
        """True where an expression may mean a module that is trained, a part of one, or one with such a part."""
        found = self.facts.objects.objects(node)
        if self._is_tensor(found):
            return False
        return any(self._is_part_of(one, self.trained) for one in found) or any(
            is_field_of(trained, found) for trained in self.trained
        )

    def is_member(self, node: cst.BaseExpression) -> bool:
        """True for what a walk over the modules of a model gives: the variable of a loop, the parameter of what
        `apply` runs.
        """
        return any(_walked(one) is not None or one in self._applied for one in self.facts.objects.objects(node))

    def _is_tensor(self, found: ObjectSet) -> bool:
        """True for what is a tensor in one place: `self._weights` of a model is none of its layers where it may come
        from `torch.from_numpy(...)` as well.
        """
        makers = [one.origin.func for one in found if isinstance(one.origin, cst.Call)]
        return any(is_tensor_function(self.facts.names.dotted(func)) for func in makers)

    def _is_module(self, one: Object) -> bool:
        if one in self.modules or self._is_made_here(one):
            return True
        if one.kind == "field" and one.holder is not None:
            walked = _walked(one)
            return walked is not None or self._is_module(one.holder)
        return False

    def _is_part_of(self, one: Object, wholes: ObjectSet, seen: ObjectSet = frozenset()) -> bool:
        """An attribute or element of a module, or what `modules()` of it gives."""
        if one in seen:
            return False
        current: Object | None = one
        while current is not None:
            if current in wholes:
                return True
            call = current.origin
            if isinstance(call, cst.Call) and called_name(call) in _MEMBERS and isinstance(call.func, cst.Attribute):
                owners = self.facts.objects.objects(call.func.value)
                return any(self._is_part_of(owner, wholes, seen | {one}) for owner in owners)
            current = current.holder
        return any(
            self._is_part_of(owner, wholes, seen | {one})
            or any(is_field_of(whole, frozenset({owner})) for whole in wholes)
            for model in self._applied.get(one, ())
            for owner in self.facts.objects.objects(model)
        )

    def _is_made_here(self, one: Object) -> bool:
        """True for `nn.Linear(...)`, and for instances of classes of the unit that derive from a module."""
        if one.kind == "instance" and isinstance(one.origin, Class):
            return any(
                self._is_module_class(base.value)
                for owner in self.facts.tree.classes
                if self.facts.objects.root_class(owner) is one.origin
                for base in owner.node.bases
            )
        return isinstance(one.origin, cst.Call) and self._is_module_class(one.origin.func)

    def _is_module_class(self, node: cst.BaseExpression) -> bool:
        paths = self.facts.objects.import_paths(node) or self.facts.names.imported_as(node)
        return any(
            path.startswith("torch.nn.") and not path.startswith(_NO_MODULES) and path.split(".")[-1][:1].isupper()
            for path in paths
        )

    def _used_as_modules(self) -> Iterator[cst.BaseExpression]:
        for part, _ in self.facts.tree.every(cst.Call):
            if isinstance(part.func, cst.Attribute):
                if part.func.attr.value in _OF_MODULES:
                    yield part.func.value

    def _applied_to(self) -> dict[Object, list[cst.BaseExpression]]:
        """The parameters of what `apply` of some objects runs on each of their modules, with those objects."""
        found: dict[Object, list[cst.BaseExpression]] = {}
        for part, _ in self.facts.tree.every(cst.Call):
            if called_name(part) == "apply" and len(part.args) == 1 and isinstance(part.func, cst.Attribute):
                function = self.facts.objects.function_handed_over(part.args[0].value)
                if function is not None and function.parameters:
                    variable = self.facts.names.variable_at(function.parameters[-1].name)
                    for one in self.facts.objects.variable_objects(variable) if variable is not None else ():
                        found.setdefault(one, []).append(part.func.value)
        return found

    def _objects(self, nodes: Iterable[cst.BaseExpression]) -> ObjectSet:
        return frozenset(one for node in nodes for one in self.facts.objects.objects(node) if one.kind != "display")


def _walked(one: Object) -> cst.Call | None:
    """The call of `modules()` that an object is an element of."""
    current: Object | None = one
    while current is not None:
        if isinstance(current.origin, cst.Call) and called_name(current.origin) in _MEMBERS:
            return current.origin
        current = current.holder
    return None
