"""What code that is not at hand may do to a scaler: whoever can reach it may scale, unscale, step and update."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Class, called_name, walk

# They look at what they are given, or keep it.
_HARMLESS = frozenset("isinstance hasattr getattr setattr type id bool print repr len callable deepcopy save".split())


class Unseen:
    """Calls of functions whose code is not at hand."""

    def __init__(self, facts: Facts, scalers: ObjectSet) -> None:
        self.facts = facts
        self.scalers = scalers
        self.holders: ObjectSet = frozenset(self._holders())

    def may_use_scaler(self, call: cst.Call) -> bool:
        """True where such code can reach a scaler, and where the script itself divides by the scale."""
        if self._is_computed_with(call):
            return True
        func = call.func
        if isinstance(func, cst.Attribute):
            if self.facts.objects.may_be(func.value, self.scalers):
                return False
            if self._is_super(call) or self.facts.objects.may_be(func.value, self.holders):
                return self._is_method_elsewhere(call, func)
        return called_name(call) not in _HARMLESS and any(self._is_given(arg) for arg in call.args)

    def _holders(self) -> Iterator[Object]:
        """The objects that have a scaler as an attribute or an element."""
        for one in self.scalers:
            if one.holder is not None:
                yield one.holder
        for _, stores in self.facts.objects.all_stores():
            for store in stores:
                if self.facts.objects.objects(store.value) & self.scalers:
                    yield from self.facts.objects.objects(store.base)

    def _is_given(self, arg: cst.Arg) -> bool:
        """True where an argument is a scaler or what holds one, or has it inside."""
        for part in walk(arg.value):
            if isinstance(part, (cst.Name, cst.Attribute)) and not self._is_part_of_attribute(part):
                if self.facts.objects.may_be(part, self.scalers | self.holders):
                    return True
        return False

    def _is_part_of_attribute(self, node: cst.CSTNode) -> bool:
        return isinstance(self.facts.tree.parents.get(node), cst.Attribute) or self.facts.tree.is_label(node)

    def _is_super(self, call: cst.Call) -> bool:
        """True for `super().method()` in a class whose instances hold a scaler."""
        owner = self.facts.tree.function_of(call).owner
        assert isinstance(call.func, cst.Attribute)
        is_super = isinstance(call.func.value, cst.Call) and called_name(call.func.value) == "super"
        if owner is None or not is_super or called_name(call) == "__init__":
            return False
        return Object("instance", self.facts.objects.root_class(owner)) in self.holders

    def _is_method_elsewhere(self, call: cst.Call, func: cst.Attribute) -> bool:
        """True for `self.method()` that a base class in another file defines, or that is set to a function."""
        owner = self.facts.tree.function_of(call).owner
        if owner is not None and not self._inherits_from_elsewhere(owner) and not self.facts.objects.values_of(func):
            return False
        made_here = ("call", "import", "parameter", "instance")
        meant = self.facts.objects.objects(func)
        return not meant or any(one.kind not in made_here for one in meant)

    def _inherits_from_elsewhere(self, owner: Class) -> bool:
        """True for a class with a base class in another file, torch's own and Python's left out."""
        return any(
            not self._is_known_base(base.value)
            for cls in self.facts.objects.ancestors(owner)
            for base in cls.node.bases
        )

    def _is_known_base(self, base: cst.BaseExpression) -> bool:
        package = (self.facts.names.dotted(base) or "object").split(".")[0]
        variable = self.facts.names.definition(base) if isinstance(base, (cst.Name, cst.Attribute)) else None
        is_here = variable is not None and any(one.node in self.facts.tree.class_at for one in variable.bindings)
        return is_here or package in ("torch", "abc", "typing", "object")

    def _is_computed_with(self, call: cst.Call) -> bool:
        """True for `inv_scale = 1.0 / scaler.get_scale()`: gradients that are unscaled by hand."""
        func = call.func
        if called_name(call) != "get_scale" or not isinstance(func, cst.Attribute):
            return False
        if not self.facts.objects.may_be(func.value, self.scalers):
            return False
        parent = self.facts.tree.parents.get(call)
        if isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
            variable = self.facts.names.variable_at(parent.targets[0].target)
            return variable is not None and any(self._is_operand(load) for load in variable.loads)
        return self._is_operand(call)

    def _is_operand(self, node: cst.CSTNode) -> bool:
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            return isinstance(call, cst.Call) and called_name(call) in ("mul_", "div_", "mul", "div")
        return isinstance(parent, (cst.BinaryOperation, cst.AugAssign))
