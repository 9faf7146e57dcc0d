"""What is taken out of `nn.ModuleList([...])` and `nn.ModuleDict({...})`: one of the modules that it was made of.

self.critics = nn.ModuleList([Critic() for _ in range(3)])
for pool, critic in zip(self.pools, self.critics):
    critic(pool(x))
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.objects import Objects

_CONTAINERS = ("torch.nn.ModuleList", "torch.nn.ModuleDict")


def taken_out(names: Names, objects: Objects, node: cst.BaseExpression) -> ObjectSet:
    """The objects that an expression may mean, with those that such a list was made of for its elements."""
    found: set[Object] = set()
    for one in objects.objects(node):
        made = one.holder.origin if one.kind == "field" and one.holder is not None else None
        if isinstance(made, cst.Call) and names.dotted(made.func) in _CONTAINERS:
            # Else by `append`, or by its key.
            found |= objects.elements(made.args[0].value) if made.args else frozenset()
        else:
            found.add(one)
    return frozenset(found)
