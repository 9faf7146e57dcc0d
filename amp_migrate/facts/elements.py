"""Elements of one container that have different keys: `optims["net"]` and `optims["head"]`, also as `optims.net`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.objects import Objects
from amp_migrate.facts.stores import ANY, subscript_key


def are_different_elements(objects: Objects, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """True for `optimizers["encoder"]` and `optimizers["decoder"]`, also where one call has made both."""
    keys = _keys(objects, one, other)
    return len(keys) == 2 and ANY not in keys


def is_other_element(objects: Objects, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """True for those, and for one of them beside `optimizers[name]`, which may mean either."""
    return len(_keys(objects, one, other)) == 2


def _keys(objects: Objects, one: cst.BaseExpression, other: cst.BaseExpression) -> set[str]:
    """The keys of two elements of one container; none for other expressions."""
    if not isinstance(one, (cst.Subscript, cst.Attribute)) or not isinstance(other, (cst.Subscript, cst.Attribute)):
        return set()
    keys = [key for node in (one, other) if (key := _key(objects, node)) is not None]
    return set(keys) if len(keys) == 2 and one.value.deep_equals(other.value) else set()


def _key(objects: Objects, node: cst.Subscript | cst.Attribute) -> str | None:
    if isinstance(node, cst.Subscript):
        return subscript_key(node)
    held = objects.objects(node.value)
    return f"[{node.attr.value!r}]" if held and all(map(objects.has_keys_as_attributes, held)) else None
