"""Classes of the script's own that step as optimizers do: which of them a GradScaler can be given.

    class Noam(torch.optim.Optimizer):                 class Noam:
        def __init__(self, optimizer):                     def __init__(self, optimizer):
            self.optimizer = optimizer                         self.optimizer = optimizer
        def __getattr__(self, name):                       def step(self):
            return getattr(self.optimizer, name)               self.optimizer.step()

`unscale_` goes through the `param_groups` of what it is given. The first has those of the optimizer in it, the second,
and the first without its `__getattr__`, raise AttributeError ([run]): their own step is where the scaler belongs.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, walk

_GIVEN_BY = ("__getattr__", "__getattribute__", "param_groups")


def has_param_groups(facts: Facts, owner: Class) -> bool:
    """False where the code shows that instances have no `param_groups`."""
    family = facts.objects.ancestors(owner)
    if any(name in one.methods for one in family for name in _GIVEN_BY):
        return True
    if any(_mentions(part) for one in family for part in walk(one.node)):
        return True
    bases = {facts.text(base.value) for one in family for base in one.node.bases}
    if bases <= {"object", "ABC", *(one.name for one in family)}:
        return False
    # What a base out of sight sets, it sets in its `__init__`.
    return "__init__" not in owner.methods or any(_calls_init(part) for one in family for part in walk(one.node))


def _mentions(part: cst.CSTNode) -> bool:
    """True for `self.param_groups`, which is set somewhere if it is read, and for `__dict__`."""
    if not isinstance(part, cst.Attribute) or not isinstance(part.value, cst.Name) or part.value.value != "self":
        return False
    return part.attr.value in ("param_groups", "__dict__")


def _calls_init(part: cst.CSTNode) -> bool:
    """True for `super().__init__(...)` and `Optimizer.__init__(self, ...)`."""
    return isinstance(part, cst.Attribute) and part.attr.value == "__init__"
