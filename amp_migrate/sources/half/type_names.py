"""The types of half precision by every name that a script gives them, and the casts to one of them."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.models import names
from amp_migrate.models.queries import takes_dtype
from amp_migrate.vocabulary import HALF_TYPES


class TypeNames:
    """Answers about the names of half types in a unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def half_name(self, node: cst.CSTNode) -> str | None:
        """`torch.half` and the like, by its full name; a string that names a type, too."""
        if isinstance(node, cst.SimpleString):
            value = literal_value(node)
            return value if isinstance(value, str) and value in HALF_TYPES else None
        if not isinstance(node, (cst.Name, cst.Attribute)) or self.facts.tree.is_label(node):
            return None
        dotted = self.facts.names.dotted(node)
        return dotted if dotted in HALF_TYPES else None

    def meanings(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """An expression that says a type, with what it may have been given as."""
        values = self.facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else []
        return [node, *(value for value in values if isinstance(value, (cst.Name, cst.Attribute, cst.IfExp)))]

    def may_be_half(self, node: cst.BaseExpression) -> bool:
        """True for `torch.half`, and for a name that may mean it (`torch.half if args.fp16 else torch.float`)."""
        return any(self.half_name(part) for value in self.meanings(node) for part in walk(value))

    def is_cast(self, call: cst.Call) -> bool:
        """True for `x.half()`, and for `x.to(...)` and `x.type(...)` of what may be a half type."""
        name = called_name(call)
        if not isinstance(call.func, cst.Attribute):
            return False
        if name == "half" and not call.args:
            return True
        return name in names(takes_dtype) and any(self.may_be_half(arg.value) for arg in call.args)
