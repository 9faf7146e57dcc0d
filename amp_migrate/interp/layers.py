"""The operations that a module of torch runs when it is called: one of a layer, several of a container of layers."""

from __future__ import annotations

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.contents import key_of
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.facts.tree import Class, is_super
from amp_migrate.interp.containers import Containers
from amp_migrate.models import Operation, traits

_CALLABLE = (cst.Name, cst.Attribute, cst.Subscript)
_DEEPEST = 4  # names that are bound from each other


class Layers:
    """Answers for the modules that constructors of torch make in the unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._containers = facts.analysis(Containers)

    def called(self, func: cst.BaseExpression) -> list[tuple[Operation | None, ...]]:
        """The operations of each module that a called expression may mean; none where it may mean something else. An
        empty container has none: it returns what it is given.
        """
        if isinstance(func, cst.Call):
            classes = self.facts.objects.classes_made(func)
            layers = [self._of_class(one) for one in classes] or [self._of_maker(func)]
            return [one for one in layers if one is not None] if None not in layers else []
        if isinstance(func, cst.Attribute) and func.attr.value in ("forward", "__call__"):
            return self._inherited(func.value) if is_super(func.value) else self.called(func.value)
        found = self.possible(func)
        return [one for one in found if one is not None] if None not in found else []

    def possible(self, func: cst.BaseExpression) -> list[tuple[Operation | None, ...] | None]:
        """The same for each thing that a name or an attribute may mean; None for what is no layer of torch."""
        if isinstance(func, cst.Subscript) and key_of(func) == -1:
            lasts = self._containers.lasts(self.facts.objects.origins(func.value))
            if lasts:
                return [self._of_maker(one) for one in lasts]
        meant = taken_out(self.facts.names, self.facts.objects, func) if isinstance(func, _CALLABLE) else ()
        return [self._of_origin(one.origin) for one in meant]

    def is_own_part(self, func: cst.BaseExpression) -> bool:
        """True for what a network takes out of itself to call it, whatever that is: `layer` of `for layer in
        self.children()`, `self.convs[i]`, `getattr(self, name)`; and for `self.act` after `self.act = lambda x: ...`.
        """
        function = self.facts.tree.function_of(func)
        if not function.is_of_network:
            return False
        if isinstance(func, cst.Attribute):  # a method of a part may return anything
            values = self.facts.objects.values_of(func)
            return bool(values) and all(isinstance(one, cst.Lambda) for one in values)
        return self._comes_from(func, function.receiver or "", _DEEPEST)

    def _comes_from(self, node: cst.BaseExpression, receiver: str, most: int) -> bool:
        """True where a part of `self` may be meant: names are followed to what they are bound to."""
        match node:
            case cst.Name() if node.value == receiver:
                return True
            case cst.Name() if most:
                variable = self.facts.names.visible(node.value, self.facts.tree.function_of(node))
                values = [one.value for one in variable.bindings if one.value] if variable is not None else []
                return any(self._comes_from(one, receiver, most - 1) for one in values)
            case cst.Attribute() | cst.Subscript():
                return self._comes_from(node.value, receiver, most)
            case cst.Call():
                within = [node.func.value] if isinstance(node.func, cst.Attribute) else [arg.value for arg in node.args]
                return any(self._comes_from(one, receiver, most) for one in within)
        return False

    def _of_origin(self, origin: object) -> tuple[Operation | None, ...] | None:
        if isinstance(origin, Class):
            return self._of_class(origin)
        return self._of_maker(origin) if isinstance(origin, cst.Call) else None

    def _of_class(self, owner: Class) -> tuple[Operation | None, ...] | None:
        """What an instance of a class does that has its forward from a layer of torch."""
        if self.facts.objects.method_of(owner, "forward") is not None:
            return None
        lines = self.facts.objects.line(owner)
        return next(((row,) for one in lines for row in self._bases(one)), None)

    def _inherited(self, node: cst.BaseExpression) -> list[tuple[Operation | None, ...]]:
        """What `super().forward(x)` runs, where that is a layer of torch."""
        owner = self.facts.tree.function_of(node).owner
        return [(row,) for row in self._bases(owner)] if owner is not None else []

    def _bases(self, owner: Class) -> list[Operation]:
        rows = (models.layer(self.facts.names.dotted(base.value) or "") for base in owner.node.bases)
        return [row for row in rows if row is not None]

    def _of_maker(self, maker: cst.Call) -> tuple[Operation | None, ...] | None:
        """What a module does that a call has made; None where that is no module of torch."""
        maker = self._bare(maker)
        of_unit = {self._of_class(one) for one in self.facts.objects.classes_made(maker)}
        if of_unit:
            return of_unit.pop() if len(of_unit) == 1 else None
        dotted = self.facts.names.dotted(maker.func) or ""
        if not dotted.startswith("torch.nn."):
            configured = models.function(dotted)  # by the project, for functions and layers alike
            return (configured,) if configured is not None and configured.source == "configured" else None
        if self._containers.is_container(maker):
            return self._of_container(maker)
        return (models.layer(dotted),)

    def _of_container(self, maker: cst.Call) -> tuple[Operation | None, ...]:
        found: list[Operation | None] = []
        for arg in maker.args:
            inner = self._of_maker(arg.value) if not arg.star and isinstance(arg.value, cst.Call) else None
            found += inner if inner is not None else (None,)
        return (*found, None) if maker in self._containers.added_to else tuple(found)

    def _bare(self, maker: cst.Call) -> cst.Call:
        """The layer of `weight_norm(nn.Conv1d(...))`, which returns what the layer does."""
        inner = maker.args[0].value if maker.args else None
        return self._bare(inner) if isinstance(inner, cst.Call) and self._only_reparameterizes(maker.func) else maker

    def _only_reparameterizes(self, func: cst.BaseExpression) -> bool:
        """True for `weight_norm`, and for `norm` after `norm = spectral_norm if spectral else weight_norm`."""
        meant = self.facts.objects.values_of(func) if isinstance(func, cst.Name) else []
        chosen = [(one.body, one.orelse) if isinstance(one, cst.IfExp) else (one,) for one in meant or [func]]
        names = [self.facts.names.dotted(one) or "" for ones in chosen for one in ones]
        return all(_is_reparameterization(name) for name in names)


def _is_reparameterization(name: str) -> bool:
    return name.startswith("torch.nn.utils.") and name.rpartition(".")[2] in traits.named("reparameterization")
