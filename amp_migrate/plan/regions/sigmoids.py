"""The sigmoids that make probabilities, followed back from a binary cross entropy (rule E4).

    loss = bce(recon, x)   <-   recon, mu = model(x)   <-   return self.decode(z), mu   <-   torch.sigmoid(self.fc(h))

What a sigmoid takes is what has to be in float32. One that ends a container can take it, too:

    return self.main(x)        =>    return self.main[-1](self.main[:-1](x).float())
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.regions.containers import Containers
from amp_migrate.plan.regions.operations import IN_FLOAT32
from amp_migrate.plan.regions.trail import Frames, Keys, Lost, Trail
from amp_migrate.plan.safety.products import factors

_SIGMOIDS = frozenset(("sigmoid", "softmax"))
_MODULES = frozenset(("Sigmoid", "Softmax"))
_BOUNDED = frozenset(("tanh", "hardsigmoid"))  # (tanh(x) + 1) / 2
_BOUNDED_MODULES = frozenset(("Tanh", "Hardsigmoid"))
_ENDINGS = _MODULES | _BOUNDED_MODULES


@dataclasses.dataclass
class Made:
    """What makes probabilities: the `arguments` of sigmoids, and the calls of containers that end in one (`endings`).

    `products` are those of matrices on the way, which autocast would run in half. `others` says whether something makes
    them that autocast runs in float32 anyway.
    """

    arguments: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    endings: list[cst.Call] = dataclasses.field(default_factory=list)
    products: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    others: bool = False

    def __bool__(self) -> bool:
        return bool(self.arguments or self.endings or self.others)


class Sigmoids(Trail):
    """Finds what the sigmoids take that make a value."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._containers = Containers(facts)
        self._found = Made()

    def behind(self, value: cst.BaseExpression) -> Made | None:
        """What makes a value; None where some of it is not seen, or is no probability of float32."""
        self._found = Made()
        try:
            self.walk(value)
        except Lost:
            return None
        return self._found or None

    def _follow(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        """A product of probabilities leads to both."""
        pair = factors(self.facts, node)
        if not pair:
            super()._follow(node, keys, frames)
        elif node not in self._found.products:
            self._found.products.append(node)
        for factor in pair:
            self._go(factor, (), frames)

    def is_source(self, node: cst.BaseExpression) -> bool:
        """True for a sigmoid, for a container that ends in one, and for what runs in float32. The rest goes on."""
        if not isinstance(node, cst.Call):
            return False
        argument = self._argument(node, _SIGMOIDS | _BOUNDED, _ENDINGS)
        if argument is not None:
            if argument not in self._found.arguments:
                self._found.arguments.append(argument)
        elif _ENDINGS.intersection(self._containers.lasts(node)):
            if node not in self._found.endings:
                self._found.endings.append(node)
        elif called_name(node) in IN_FLOAT32 and not self.facts.objects.candidates(node):
            self._found.others = True
        else:
            return False
        return True

    def origin(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """X in `torch.sigmoid(x)`, `F.softmax(x, dim=1)`, `x.sigmoid()`, and of a module that is a sigmoid."""
        while isinstance(node, cst.Subscript):
            node = node.value
        return self._argument(node, _SIGMOIDS, _MODULES) if isinstance(node, cst.Call) else None

    def _argument(self, node: cst.Call, names: frozenset[str], modules: frozenset[str]) -> cst.BaseExpression | None:
        first = node.args[0].value if node.args and node.args[0].keyword is None else None
        if self._is_module(node, modules):
            return first
        if called_name(node) not in names:
            return None
        if not isinstance(node.func, cst.Attribute):
            return first  # `from torch import sigmoid`
        root = node.func.value
        is_torch = isinstance(root, cst.Name) and root.value in ("torch", "F", "nn")
        return first if first is not None and (is_torch or isinstance(root, cst.Attribute)) else root

    def is_softmax(self, call: cst.Call) -> bool:
        """True for a softmax as a function, a method or a module."""
        return called_name(call) == "softmax" or self._is_module(call, frozenset(("Softmax",)))

    def _is_module(self, call: cst.Call, modules: frozenset[str]) -> bool:
        """True for `self.sigmoid(x)` with `self.sigmoid = nn.Sigmoid()`, and for `nn.Sigmoid()(x)`."""
        if isinstance(call.func, cst.Call):
            return called_name(call.func) in modules
        if not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        origins = [one.origin for one in self.facts.objects.objects(call.func)]
        return bool(origins) and all(isinstance(one, cst.Call) and called_name(one) in modules for one in origins)
