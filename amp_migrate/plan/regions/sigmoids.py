"""The sigmoids that make probabilities, followed back from a binary cross entropy (rule E4).

    loss = bce(recon, x)   <-   recon, mu = model(x)   <-   return self.decode(z), mu   <-   torch.sigmoid(self.fc(h))

What a sigmoid takes is what has to be in float32. One that ends a container can take it, too:

    return self.main(x)        =>    return self.main[-1](self.main[:-1](x).float())
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.interp.containers import Containers
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import Trace, trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.models import Dtype, Operation
from amp_migrate.models.queries import in_half

_PROBABILITIES = ("sigmoid", "softmax", "bounded")  # (tanh(x) + 1) / 2


@dataclasses.dataclass
class Probabilities:
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


class Sigmoids:
    """Finds what the sigmoids take that make a value."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._steps = facts.analysis(Steps)

    def behind(self, value: cst.BaseExpression) -> Probabilities | None:
        """What makes a value; None where some of it is not seen, or is no probability of float32."""
        ways = trace(self._steps, Place(value), _passes, _may_be_cast_to_half)
        found = Probabilities()
        if ways.open or not all(self._add(found, end) for end in ways.ends) or self._fills_half(ways):
            return None
        for made in ways.passed:
            if made.operation is not None and made.operation.product and made.node not in found.products:
                found.products.append(made.node)
        return found or None

    def may_be_behind(self, value: cst.BaseExpression) -> bool:
        """False where all that makes a value is seen, and no probability is among it."""
        ways = trace(self._steps, Place(value), _passes, _may_be_cast_to_half)
        return bool(ways.open) or any(self._add(Probabilities(), end) for end in ways.ends)

    def _fills_half(self, ways: Trace) -> bool:
        """True where probabilities are written into a tensor that has the dtype of something else."""
        is_written = any(self._steps.of(place).written for place in ways.places)
        likes = [made.operands[0].node for made in ways.passed if made.is_a("like")] if is_written else []
        return any(self.behind(one) is None for one in likes)

    def _add(self, found: Probabilities, end: Made) -> bool:
        """Note what a way ends at; False where that is no probability of float32."""
        argument = end.operands[0].node if end.operands else None
        if argument is not None and any(map(end.is_a, _PROBABILITIES)):
            if argument not in found.arguments:
                found.arguments.append(argument)
        elif isinstance(end.node, cst.Call) and ends_in_probabilities(self.facts, end.node):
            if end.node not in found.endings:
                found.endings.append(end.node)
        elif end.operation is not None and _is_exact(end.operation):
            found.others = True
        else:  # a size may be that of a mask
            return end.operation is not None and end.operation.result == "number"
        return True


def ends_in_probabilities(facts: Facts, call: cst.Call) -> bool:
    """True for the call of a container of which a layer of torch.nn that makes probabilities may be the last one."""
    containers = facts.analysis(Containers)
    names = [facts.names.dotted(maker.func) or "" for maker in containers.lasts(containers.called(call))]
    rows = [models.layer(name) for name in names if name.startswith("torch.nn.")]
    return len(rows) == len(names) and any(row is not None and any(map(row.is_a, _PROBABILITIES)) for row in rows)


def _may_be_cast_to_half(made: Made) -> bool:
    """True for `p.to(z.dtype)`; what is written in float32, or moved, stays what it is."""
    return made.cast is not None and made.cast != frozenset((Dtype.SINGLE,))


def _passes(row: Operation) -> bool:
    """What probabilities come through: shape, place and arithmetic, sums, and products of them."""
    if any(map(row.is_a, _PROBABILITIES)) or _is_exact(row) or row.result in ("half", "nothing", "number"):
        return False
    return not in_half(row) or (row.product and row.inputs == 2 and not row.parameters)


def _is_exact(row: Operation) -> bool:
    """True for nonlinear functions that autocast runs in float32: they are as exact as a sigmoid of float32."""
    return row.is_a("exponential")
