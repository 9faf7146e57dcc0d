"""The last module of a container, and whether the container can be run without it.

nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())          nn.Sequential(OrderedDict([..., ("out", nn.Sigmoid())]))
layers += [nn.Sigmoid()]; nn.Sequential(*layers)      layers["out"] = nn.Sigmoid(); nn.Sequential(layers)
                                                      head = nn.Sequential(fc); head.add_module("out", nn.Sigmoid())
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import TypeGuard

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY, Key, Put, constant_key, may_be_same, puts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.models import traits

_ADDING = traits.named("adding a module")


def run_by(call: cst.Call) -> cst.BaseExpression:
    """`net` of `net(x)` and of `data_parallel(net, x)`."""
    return call.args[0].value if called_name(call) == "data_parallel" and call.args else call.func


class Containers:
    """Answers for the containers that the unit makes."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def called(self, call: cst.Call) -> list[cst.Call]:
        """The containers of torch.nn that a call may run with one argument, itself or by `data_parallel(container, x)`;
        none where it may run anything else, or something is around them.
        """
        run = run_by(call)
        if not isinstance(run, (cst.Name, cst.Attribute)) or any(arg.star for arg in call.args):
            return []
        return self._meant(run, set()) or [] if run is not call.func or len(call.args) == 1 else []

    def is_container(self, maker: object) -> TypeGuard[cst.Call]:
        """True for the call that makes an `nn.Sequential`."""
        return isinstance(maker, cst.Call) and self.facts.names.dotted(maker.func) == "torch.nn.Sequential"

    def lasts(self, containers: Iterable[object]) -> list[cst.Call]:
        """What makes the modules that may be the last of containers; nothing where some of it is not in sight."""
        lasts = [last for one in containers for last in (self._lasts(one) if self.is_container(one) else (None,))]
        return [one for one in lasts if one is not None] if None not in lasts else []

    def _meant(self, node: cst.BaseExpression, seen: set[cst.BaseExpression]) -> list[cst.Call] | None:
        """The `nn.Sequential(...)` that an expression may mean; None where it may mean anything else, or a wrapper."""
        if node in seen:
            return []
        seen.add(node)
        values: list[cst.BaseExpression] = []
        if isinstance(node, cst.Call):
            if self.is_container(node):
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

    @cached_property
    def puts(self) -> list[Put]:
        """Everything that is put into a list, a dict or a tensor."""
        return puts(self.facts.tree)

    @cached_property
    def added_to(self) -> dict[object, list[cst.Call]]:
        """The later calls that put layers into a container, by what makes that: `head.add_module("fc", layer)`."""
        found: dict[object, list[cst.Call]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if isinstance(call.func, cst.Attribute) and called_name(call) in _ADDING:
                for one in self.facts.objects.objects(call.func.value):
                    found.setdefault(one.origin, []).append(call)
        return found

    def _lasts(self, container: cst.Call) -> Iterator[cst.Call | None]:
        """What makes the last module; of what is filled under conditions, those that may be last."""
        at = self.facts.tree.statement_of(container)
        added = {self.facts.tree.statement_of(one): self._added(one) for one in self.added_to.get(container, ())}
        yield from (None for one in added if one.function is not at.function)
        for statement in sorted(added, key=lambda one: one.order, reverse=True):
            yield from self._makers(added[statement])
            if statement.block is at.block:
                return
        yield from self._ends(container.args[-1].value, at) if container.args else (None,)

    def _added(self, call: cst.Call) -> cst.BaseExpression | None:
        """What is put behind all others: `append(module)`, and `add_module` under a name of its own."""
        if called_name(call) == "append" and len(call.args) == 1:
            return call.args[0].value
        name = constant_key(call.args[0].value) if len(call.args) == 2 else None
        is_new = isinstance(name, str) and name.isidentifier()
        return call.args[1].value if is_new and called_name(call) in ("add_module", "register_module") else None

    def _ends(self, node: cst.BaseExpression, at: Statement) -> Iterator[cst.Call | None]:
        """From the last statement back that puts something into what a name means, to one that certainly does."""
        variable = self.facts.names.variable_at(node)
        if variable is None:
            yield from self._makers(_last(node))
            return
        filled: dict[Statement, cst.BaseExpression] = {}
        for binding in variable.bindings:
            if binding.statement is None or binding.value is None or binding.selector:
                yield None
                return
            filled[binding.statement] = binding.value
        keys = [key for value in filled.values() for key in _keys(value)]
        for put in self.puts:
            if isinstance(put.base, cst.Name) and self.facts.names.variable_at(put.base) is variable:
                filled[self.facts.tree.statement_of(put.base)] = put.value
                keys += [put.key] if put.key is not ANY else []
        before = [one for one in filled if one.function is at.function and one.order < at.order]
        stays = any(isinstance(key, int) for key in keys) or any(may_be_same(*pair) for pair in combinations(keys, 2))
        if len(before) != len(filled) or stays:  # what is put over something else stays in its place
            yield None
            return
        for statement in sorted(before, key=lambda one: one.order, reverse=True):
            last = _last(filled[statement])
            if last is None:
                continue
            yield from self._makers(last)
            if statement.block is at.block:
                return

    def _makers(self, module: cst.BaseExpression | None) -> Iterator[cst.Call | None]:
        named = self.facts.objects.values_of(module) if isinstance(module, (cst.Name, cst.Attribute)) else []
        for one in named or (module,):
            yield one if isinstance(one, cst.Call) else None


def _items(node: cst.BaseExpression) -> Sequence[cst.BaseElement | cst.BaseDictElement] | None:
    """Those of a display, and of one that OrderedDict is given; None for a module."""
    if isinstance(node, cst.Call) and called_name(node) in ("OrderedDict", "dict") and len(node.args) < 2:
        return _items(node.args[0].value) if node.args else ()
    return node.elements if isinstance(node, (cst.List, cst.Tuple, cst.Dict)) else None


def _last(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The last module of a display, None of an empty one; a module itself."""
    items = _items(node)
    if items is None:
        return node
    return _last(items[-1].value) if items else None


def _keys(node: cst.BaseExpression) -> list[Key]:
    """Those of a dict display, and of pairs."""
    found: list[Key] = []
    for item in _items(node) or ():
        if isinstance(item, cst.DictElement):
            found.append(constant_key(item.key))
        elif isinstance(item.value, cst.Tuple) and item.value.elements:
            found.append(constant_key(item.value.elements[0].value))
    return found
