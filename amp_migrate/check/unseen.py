"""What code that is not at hand may do to a scaler: whoever can reach it may scale, unscale, step and update."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Class, called_name, walk
from amp_migrate.models import names
from amp_migrate.models.queries import scales

# They look at what they are given, or keep it.
_HARMLESS = frozenset(
    "isinstance hasattr getattr setattr type super id bool print repr len callable deepcopy save".split()
)
# Base classes of these packages know nothing of a script's scaler.
WITHOUT_SCALERS = frozenset(("torch", "abc", "typing", "object"))


class Unseen:
    """Calls of functions whose code is not at hand."""

    def __init__(self, facts: Facts, scalers: ObjectSet) -> None:
        self.facts = facts
        self.scalers = scalers
        self.holders: ObjectSet = frozenset(self._holders())
        self._names = {
            name for name, stores in facts.objects.all_stores() for one in stores if self._is_scaler(one.value)
        }

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
                if self._is_scaler(store.value):
                    yield from self.facts.objects.objects(store.base)

    def _is_scaler(self, value: cst.BaseExpression) -> bool:
        return bool(self.facts.objects.objects(value) & self.scalers)

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
        return self.facts.objects.object_of("instance", self.facts.objects.root_class(owner)) in self.holders

    def _is_method_elsewhere(self, call: cst.Call, func: cst.Attribute) -> bool:
        """True for `self.method()` that a base class in another file defines, or that is set to a function."""
        owner = self.facts.tree.function_of(call).owner
        may_know = owner is None or self._inherits_from_elsewhere(owner)
        if not may_know and not self.facts.objects.values_of(func):
            return False
        harmless = ("call", "import", "parameter", "instance", *(() if may_know else ("field",)))
        meant = self.facts.objects.objects(func)
        return not meant or any(one.kind not in harmless for one in meant)

    def _inherits_from_elsewhere(self, owner: Class) -> bool:
        """True for a class with a base class in another file that may know of the scaler: torch's own and Python's do
        not, nor do those of a project in which nothing else uses one of its name.
        """
        return any(
            not self._is_known_base(base.value) and self._may_use_scaler_of(base.value)
            for cls in self.facts.objects.ancestors(owner)
            for base in cls.node.bases
        )

    def _may_use_scaler_of(self, base: cst.BaseExpression) -> bool:
        dotted = self.facts.names.dotted(base)
        if dotted is None or not self._names:
            return True
        return any(self.facts.elsewhere.may_use_scaler(dotted, name) for name in self._names)

    def _is_known_base(self, base: cst.BaseExpression) -> bool:
        package = (self.facts.names.dotted(base) or "object").split(".")[0]
        variable = self.facts.names.definition(base) if isinstance(base, (cst.Name, cst.Attribute)) else None
        is_here = variable is not None and any(one.node in self.facts.tree.class_at for one in variable.bindings)
        return is_here or package in WITHOUT_SCALERS

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
            return isinstance(call, cst.Call) and called_name(call) in names(scales)
        return isinstance(parent, (cst.BinaryOperation, cst.AugAssign))
