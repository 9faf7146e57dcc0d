"""What an object is, to the points-to analysis: something that comes from one place in the code."""

from __future__ import annotations

import dataclasses

from amp_migrate.facts.stores import ANY


@dataclasses.dataclass(frozen=True, eq=False)
class Object:
    """An object by its origin: the points-to analysis of a unit makes one for each.

    `kind` is one of import, call, parameter, instance, definition, display, field, name, value; `origin` the
    node, variable, class or dotted name behind it. A field has the object that holds it in `holder`. What a function
    makes and hands to several callers is another object for each: `calls` are the calls that it came through.

    `number` is its place among the objects of the unit. Sets of objects are hashed by it, so that they have one order
    in all runs: an answer on a circle of questions depends on what is asked first.
    """

    number: int
    kind: str
    origin: object
    holder: Object | None = None
    calls: tuple[object, ...] = ()

    def __hash__(self) -> int:
        return self.number

    @property
    def source(self) -> Object:
        """The object itself; for a field, what holds it, and what holds that."""
        return self if self.holder is None else self.holder.source

    @property
    def depth(self) -> int:
        return 0 if self.holder is None else self.holder.depth + 1


ObjectSet = frozenset[Object]


def is_field_of(part: Object, wholes: ObjectSet) -> bool:
    """True for a field of one of some objects, however deep."""
    holder = part.holder
    while holder is not None and holder not in wholes:
        holder = holder.holder
    return holder is not None


def overlap(one: Object, other: Object) -> bool:
    """True where two objects may be the same: an unknown element may be any known one, and what a function makes for
    a call that is known no further is what it makes for each call that leads to that one.
    """
    if one == other:
        return True
    if one.kind != other.kind:
        return False
    if one.holder is None or other.holder is None:
        leads_on = all(a is b for a, b in zip(one.calls, other.calls, strict=False))
        return one.origin == other.origin and one.holder is other.holder and leads_on
    either_any = ANY in (one.origin, other.origin)
    both_elements = str(one.origin).startswith("[") and str(other.origin).startswith("[")
    same_field = one.origin == other.origin or (either_any and both_elements)
    return same_field and overlap(one.holder, other.holder)
