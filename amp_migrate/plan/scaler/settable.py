"""Which classes have instances that take an attribute that the class does not know."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class
from amp_migrate.facts.values import literal_value

# Their classes have slots unless told otherwise: https://www.attrs.org/en/stable/api.html#attrs.define
_SLOTTED = frozenset(f"{package}.{name}" for package in ("attr", "attrs") for name in ("define", "mutable", "frozen"))


def takes_attributes(facts: Facts, cls: Class) -> bool:
    """False where the class or one derived from it has slots, is a named tuple or a frozen data class."""
    return not any(_is_closed(facts, other) for other in facts.objects.derived(cls))


def _is_closed(facts: Facts, cls: Class) -> bool:
    return (
        _has_slots(facts, cls)
        or any(facts.names.dotted(base.value) == "typing.NamedTuple" for base in cls.node.bases)
        or any(_closes(facts, decorator.decorator) for decorator in cls.node.decorators)
    )


def _closes(facts: Facts, decorator: cst.BaseExpression) -> bool:
    """True for `@dataclass(frozen=True)` and its like, whatever they come from."""
    function = decorator.func if isinstance(decorator, cst.Call) else decorator
    arguments = decorator.args if isinstance(decorator, cst.Call) else ()
    return facts.names.dotted(function) in _SLOTTED or any(
        argument.keyword is not None
        and argument.keyword.value in ("frozen", "slots")
        and literal_value(argument.value) is not False
        for argument in arguments
    )


def _has_slots(facts: Facts, cls: Class) -> bool:
    scope = facts.names.scopes.get(cls)
    return scope is not None and "__slots__" in scope.variables
