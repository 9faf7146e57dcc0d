"""Classes that are autograd functions: `class Scale(torch.autograd.Function)`."""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class

_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")


def is_autograd_function(facts: Facts, owner: Class) -> bool:
    """True for a class with torch.autograd.Function among its bases."""
    return any((facts.names.dotted(base.value) or "") in _FUNCTIONS for base in owner.node.bases)
