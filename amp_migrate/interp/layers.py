"""The operations that a module of torch runs when it is called: one of a layer, several of a container of layers."""

from __future__ import annotations

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.models import Operation, traits

_CALLABLE = (cst.Name, cst.Attribute, cst.Subscript)


class Layers:
    """Answers for the modules that constructors of torch make in the unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def called(self, func: cst.BaseExpression) -> list[tuple[Operation | None, ...]]:
        """The operations of each module that a called expression may mean; none where it may mean something else."""
        if isinstance(func, cst.Call):
            made = self._of_maker(func)
            return [made] if made is not None else []
        if not isinstance(func, _CALLABLE):
            return []
        objects = taken_out(self.facts.names, self.facts.objects, func)
        makers = [one.origin for one in objects if one.kind == "call" and isinstance(one.origin, cst.Call)]
        found = [self._of_maker(one) for one in makers] if len(makers) == len(objects) else []
        return [one for one in found if one is not None] if None not in found else []

    def _of_maker(self, maker: cst.Call) -> tuple[Operation | None, ...] | None:
        """What a module does that a call has made; None where that is no module of torch."""
        maker = self._bare(maker)
        dotted = self.facts.names.dotted(maker.func) or ""
        if not dotted.startswith("torch.nn."):
            configured = models.function(dotted)  # by the project, for functions and layers alike
            return (configured,) if configured is not None and configured.source == "configured" else None
        if dotted == "torch.nn.Sequential":
            return self._of_container(maker)
        return (models.layer(dotted),)

    def _of_container(self, maker: cst.Call) -> tuple[Operation | None, ...]:
        found: list[Operation | None] = []
        for arg in maker.args:
            inner = self._of_maker(arg.value) if not arg.star and isinstance(arg.value, cst.Call) else None
            found += inner if inner is not None else (None,)
        return tuple(found)

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
