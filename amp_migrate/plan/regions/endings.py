"""The sigmoids that end the containers which make a value, where nothing but its shape changes on the way (rule E4).

Narrower than `sigmoids`: a value that goes on as a logit must be nothing else on any way.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, called_name
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.steps import Steps
from amp_migrate.models.queries import keeps_numbers_or_floats


class Endings:
    """Finds the sigmoids at the end of the containers that make a value."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._steps = facts.analysis(Steps)

    def behind(self, value: cst.BaseExpression) -> list[cst.Call] | None:
        """What made a value; None where some of it comes from elsewhere."""
        ways = trace(self._steps, Place(value), keeps_numbers_or_floats)
        if any(self._steps.of(place).is_constant for place in ways.places):
            return None
        ends = [*(made.node for made in ways.ends), *(place.node for place in ways.open)]
        found = [self._ending(end) for end in ends]
        return [one for one in dict.fromkeys(found) if one is not None] if found and None not in found else None

    def _ending(self, node: cst.BaseExpression) -> cst.Call | None:
        """`nn.Sigmoid()` at the end of the one container that a call runs, itself or by `data_parallel(container, x)`.

        None for anything else.
        """
        if not isinstance(node, cst.Call) or not isinstance(node.func, (cst.Name, cst.Attribute)):
            return None
        run = node.args[0].value if called_name(node) == "data_parallel" and node.args else node.func
        origins = [one.origin for one in self.facts.objects.objects(run) if not isinstance(one.origin, Class)]
        if len(origins) != 1 or not isinstance(origins[0], cst.Call) or called_name(origins[0]) != "Sequential":
            return None
        args = origins[0].args
        last = args[-1].value if len(args) > 1 and not args[-1].star else None
        return last if isinstance(last, cst.Call) and called_name(last) == "Sigmoid" else None
