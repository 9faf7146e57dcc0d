"""The types of half precision as values, and what stands in their place in the plain program (rule G3).

torch.half, torch.cuda.HalfTensor                    torch.float, torch.cuda.FloatTensor
torch.half if args.fp16 else torch.float             torch.float
if fp16: kind = torch.half                           kind = torch.float
else: kind = torch.float
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.models import Dtype, names
from amp_migrate.models.dtype_names import dtype_named
from amp_migrate.models.queries import takes_dtype
from amp_migrate.vocabulary import HALF_TYPES

_COUNTING = (Dtype.INTEGER, Dtype.BOOLEAN)
_TESTS = frozenset("isinstance issubclass".split())
_ASKING = (cst.Comparison, cst.ComparisonTarget)


class HalfTypes:
    """Answers about the names of half types in a unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def is_one(self, node: cst.CSTNode) -> bool:
        """True for an expression that names a half type."""
        return self.facts.names.dotted(node) in HALF_TYPES

    def half_name(self, node: cst.CSTNode) -> str | None:
        """`torch.half` and the like, by its full name; a string that names a type, too."""
        if isinstance(node, cst.SimpleString):
            value = literal_value(node)
            return value if isinstance(value, str) and value in HALF_TYPES else None
        return self.facts.names.dotted(node) if self.is_one(node) and not self.facts.tree.is_label(node) else None

    def meanings(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """An expression that says a type, with what it may have been given as."""
        values = self.facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else []
        return [node, *(value for value in values if isinstance(value, (cst.Name, cst.Attribute, cst.IfExp)))]

    def may_be_half(self, node: cst.BaseExpression) -> bool:
        """True for `torch.half`, and for a name that may mean it (`torch.half if args.fp16 else torch.float`)."""
        return any(self.half_name(part) for value in self.meanings(node) for part in walk(value))

    def makes_nothing_half(self, node: cst.CSTNode) -> bool:
        """True for a type that is asked for, is a part of a longer name, or stands in a table of all types, by the type
        that data has: `{"float16": torch.HalfTensor, "int64": torch.LongTensor}`.
        """
        parent = self.facts.tree.parents.get(node)
        table = self.facts.tree.parents.get(parent) if isinstance(parent, cst.DictElement) else None
        values = [one.value for one in table.elements] if isinstance(table, cst.Dict) else []
        is_of_all = any(dtype_named(self.facts.names.dotted(one) or "") in _COUNTING for one in values)
        return is_of_all or isinstance(parent, cst.Attribute) or is_asked_for(self.facts, node)

    def is_cast(self, node: cst.CSTNode) -> bool:
        """True for `x.half()`, `x.to(torch.half)` and `x.type(torch.cuda.HalfTensor)`."""
        return is_half_call(node) or any(map(self.is_one, _asked_of(node)))

    def may_be_cast(self, node: cst.CSTNode) -> bool:
        """The same, also for `x.to(...)` and `x.type(...)` of what may be a half type."""
        return is_half_call(node) or any(map(self.may_be_half, _asked_of(node)))

    def is_only_cast(self, call: cst.Call) -> bool:
        """True for `x.to(torch.half)`, which does nothing else; HalfTensor is the name of a device as well."""
        named = self.facts.names.dotted(call.args[0].value) if len(call.args) == 1 else None
        return named is not None and self.is_one(call.args[0].value) and not named.endswith("Tensor")

    def names_in(self, node: cst.BaseExpression) -> list[cst.CSTNode]:
        """The names of half types in an expression."""
        return [part for part in walk(node) if self.is_one(part)]

    def of_float32(self, node: cst.BaseExpression) -> str:
        """The name of the type that float32 has where half has this one."""
        text = self.facts.text(node).replace("Half", "Float").replace("half", "float")
        return text.replace("float16", "float32")

    def plain_side(self, choice: cst.IfExp) -> cst.BaseExpression | None:
        """The other type of `torch.half if args.fp16 else torch.float`."""
        for one, other in ((choice.body, choice.orelse), (choice.orelse, choice.body)):
            if self.is_one(one) and not self.names_in(other):
                return other
        return None

    def plain_arm(self, statement: Statement) -> tuple[Statement, str] | None:
        """The `if` around `kind = torch.half` that sets nothing else, and the arm of it that sets another type."""
        outer, node = statement.block.owner, statement.node
        if outer is None or not isinstance(outer.node, cst.If) or not isinstance(node, cst.Assign):
            return None
        arms = {block.arm: block.statements for block in outer.blocks}
        if len(arms) != 2 or any(len(statements) != 1 for statements in arms.values()):
            return None
        ((arm, (other,)),) = ((arm, one) for arm, one in arms.items() if one[0] is not statement)
        if not isinstance(other.node, cst.Assign) or self.names_in(other.node.value):
            return None
        targets = [[self.facts.text(target.target) for target in one.targets] for one in (node, other.node)]
        return (outer, arm) if targets[0] == targets[1] and self.names_in(node.value) else None


def is_asked_for(facts: Facts, node: cst.CSTNode) -> bool:
    """True for `torch.half` of `x.dtype == torch.half`, of `x.dtype in (torch.half, torch.float)` and of
    `isinstance(x, HALVES)`, and for a key of `types = {torch.half: float}` where it is looked up there.
    """
    above = facts.tree.parents.get(node)
    if isinstance(above, cst.Element):
        shown = facts.tree.parents.get(above)
        return shown is not None and _is_asked(facts, shown, _ASKING)
    if isinstance(above, cst.DictElement) and above.key is node:
        table = facts.tree.parents.get(above)
        return table is not None and _is_asked(facts, table, (*_ASKING, cst.Subscript))
    return _is_in(facts, node, _ASKING)


def _is_asked(facts: Facts, value: cst.CSTNode, asking: tuple[type[cst.CSTNode], ...]) -> bool:
    """True where a value is in such a place, or has a name that is in such places alone."""
    above = facts.tree.parents.get(value)
    if not isinstance(above, cst.Assign):
        return _is_in(facts, value, asking)
    target = above.targets[0].target
    uses = [*facts.tree.every(cst.Name), *facts.tree.every(cst.Attribute)]
    is_named = len(above.targets) == 1 and isinstance(target, (cst.Name, cst.Attribute))
    return is_named and all(
        one is target or facts.tree.is_label(one) or _is_in(facts, one, asking)
        for one, _ in uses
        if _last_name(one) == _last_name(target)
    )


def _is_in(facts: Facts, value: cst.CSTNode, asking: tuple[type[cst.CSTNode], ...]) -> bool:
    above = facts.tree.parents.get(value)
    if isinstance(above, cst.Arg):
        call = facts.tree.parents.get(above)
        return isinstance(call, cst.Call) and called_name(call) in _TESTS
    return isinstance(above, asking) and (not isinstance(above, cst.Subscript) or above.value is value)


def _last_name(node: cst.CSTNode) -> str | None:
    named = node.attr if isinstance(node, cst.Attribute) else node
    return named.value if isinstance(named, cst.Name) else None


def _asked_of(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What `x.to(...)` and `x.type(...)` are given."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return []
    return [arg.value for arg in node.args] if called_name(node) in names(takes_dtype) else []


def is_half_call(node: cst.CSTNode) -> bool:
    """True for `x.half()`."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and called_name(node) == "half"
        and not node.args
    )
