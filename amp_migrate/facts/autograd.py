"""Classes that are autograd functions: `class Scale(torch.autograd.Function)`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class

_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")


def is_autograd_function(facts: Facts, owner: Class) -> bool:
    """True for a class with torch.autograd.Function among its bases."""
    return any((facts.names.dotted(base.value) or "") in _FUNCTIONS for base in owner.node.bases)


def applied_function(facts: Facts, node: cst.BaseExpression) -> Class | None:
    """The autograd function of the unit in `Scale.apply`."""
    if not isinstance(node, cst.Attribute) or node.attr.value != "apply":
        return None
    made_of = [one.origin for one in facts.objects.objects(node.value) if one.kind == "definition"]
    owners = [facts.tree.class_at.get(one) for one in made_of if isinstance(one, cst.ClassDef)]
    owner = owners[0] if len(owners) == 1 else None
    return owner if owner is not None and is_autograd_function(facts, owner) else None
