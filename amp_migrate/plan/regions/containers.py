"""The last module of a container, and whether the container can be run without it.

nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())          nn.Sequential(OrderedDict([..., ("out", nn.Sigmoid())]))
layers += [nn.Sigmoid()]; nn.Sequential(*layers)      head = nn.Sequential(fc); head.add_module("out", nn.Sigmoid())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import constant_key, puts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.interp.layers import Layers
from amp_migrate.models import traits


class Containers:
    """Answers for the containers of torch.nn that the unit makes."""

    def __init__(self, facts: Facts, layers: Layers) -> None:
        self.facts = facts
        self._layers = layers

    def lasts(self, call: cst.Call) -> list[str]:
        """The classes of torch.nn that the last module of a called container may be of; nothing where it is no such
        container, or something is around it.
        """
        if not isinstance(call.func, (cst.Name, cst.Attribute)) or len(call.args) != 1 or call.args[0].star:
            return []
        containers = self._meant(call.func, set()) or []
        lasts = [last for one in containers for last in self._lasts(one)]
        return lasts if all(lasts) else []

    def _meant(self, node: cst.BaseExpression, seen: set[cst.BaseExpression]) -> list[cst.Call] | None:
        """The `nn.Sequential(...)` that an expression may mean; None where it may mean anything else, or a wrapper."""
        if node in seen:
            return []
        seen.add(node)
        values: list[cst.BaseExpression] = []
        if isinstance(node, cst.Call):
            if self.facts.names.dotted(node.func) == "torch.nn.Sequential":
                return [node]
            function = self.facts.objects.called_function(node)
            if function is not None:
                values = self.facts.objects.returned_by(function)
            elif isinstance(node.func, cst.Attribute) and called_name(node) in traits.named("moved module"):
                values = [node.func.value]
        elif isinstance(node, (cst.Name, cst.Attribute)):
            values = self.facts.objects.values_of(node)
        found: list[cst.Call] = []
        for value in values:
            inner = self._meant(value, seen)
            if inner is None:
                return None
            found += inner
        return found if values else None

    def _lasts(self, container: cst.Call) -> Iterator[str]:
        """The class of the last module; of a list that is filled under conditions, those that may be last."""
        at = self.facts.tree.statement_of(container)
        added = {
            self.facts.tree.statement_of(call): self._added(call) for call in self._layers.added_to.get(container, ())
        }
        yield from ("" for one in added if one.function is not at.function)
        for statement in sorted(added, key=lambda one: one.order, reverse=True):
            yield added[statement]
            if statement.block is at.block:
                return
        if not container.args:
            yield ""
            return
        arg = container.args[-1]
        if arg.star:
            yield from self._ends_of_list(arg.value, self.facts.tree.statement_of(container))
        elif len(container.args) > 1:
            yield self._class(arg.value)
        else:
            yield self._of_dict(arg.value)

    def _added(self, call: cst.Call) -> str:
        """The class of what is put behind all others: `append(module)`, and `add_module` under a name of its own."""
        if called_name(call) == "append" and len(call.args) == 1:
            return self._class(call.args[0].value)
        name = constant_key(call.args[0].value) if len(call.args) == 2 else None
        is_new = isinstance(name, str) and name.isidentifier()
        return (
            self._class(call.args[1].value) if is_new and called_name(call) in ("add_module", "register_module") else ""
        )

    def _of_dict(self, node: cst.BaseExpression) -> str:
        if isinstance(node, cst.Call) and called_name(node) == "OrderedDict" and len(node.args) == 1:
            items = node.args[0].value
            last = items.elements[-1].value if isinstance(items, (cst.List, cst.Tuple)) and items.elements else None
            if isinstance(last, cst.Tuple) and len(last.elements) == 2:
                return self._class(last.elements[1].value)
        return ""

    def _ends_of_list(self, node: cst.BaseExpression, at: Statement) -> Iterator[str]:
        """From the last statement back that puts something into the list, to one that certainly does."""
        variable = self.facts.names.variable_at(node) if isinstance(node, cst.Name) else None
        filled: dict[Statement, cst.BaseExpression] = {}
        for binding in variable.bindings if variable is not None else []:
            if binding.statement is not None and binding.value is not None and not binding.selector:
                filled[binding.statement] = binding.value
        for put in puts(self.facts.tree) if variable is not None else []:
            if isinstance(put.base, cst.Name) and self.facts.names.variable_at(put.base) is variable:
                filled[self.facts.tree.statement_of(put.base)] = put.value
        before = [one for one in filled if one.function is at.function and one.order < at.order]
        if len(before) != len(filled):
            yield ""
            return
        for statement in sorted(before, key=lambda one: one.order, reverse=True):
            value = filled[statement]
            if isinstance(value, cst.List) and not value.elements:
                continue
            yield self._class(value.elements[-1].value if isinstance(value, cst.List) else value)
            if statement.block is at.block:
                return

    def _class(self, module: cst.BaseExpression) -> str:
        dotted = self.facts.names.dotted(module.func) or "" if isinstance(module, cst.Call) else ""
        return dotted.removeprefix("torch.nn.") if dotted.startswith("torch.nn.") else ""
