"""What the code puts into lists, dicts and tensors, with the keys that it puts it under.

    outputs["disp", scale] = disp         stops.extend([stop] * r)         losses.update(model(x))

Unlike `stores`, keys that are tuples are told apart as far as they are constant, and what is added as a whole counts.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.targets import targets_given
from amp_migrate.facts.tree import Tree, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value

# The key of an element: a constant, ANY, or a tuple of such.
Key = object
ANY = "*"

_ADDING_ONE = {"append": 0, "add": 0, "appendleft": 0, "insert": 1, "put": 0, "put_nowait": 0}
_ADDING_ALL = frozenset(("extend", "update"))


@dataclasses.dataclass(frozen=True)
class Put:
    """`base[key] = value`, of which `selector` says the part; with `merges` the elements of the value are put."""

    base: cst.BaseExpression
    key: Key
    value: cst.BaseExpression
    selector: tuple[int, ...] = ()
    merges: bool = False


def puts(tree: Tree) -> list[Put]:
    """Everything that is put into a container by a statement or a method."""
    found: list[Put] = []
    for statement in tree.all_statements():
        node = statement.node
        if isinstance(node, cst.Assign):
            for target in node.targets:
                for one, given, selector in targets_given(target.target, node.value):
                    if isinstance(one, cst.Subscript):
                        found.append(Put(one.value, key_of(one), given or node.value, selector))
        elif isinstance(node, cst.AugAssign):
            if isinstance(node.target, cst.Subscript):
                found.append(Put(node.target.value, key_of(node.target), node.value))
            if isinstance(node.operator, (cst.AddAssign, cst.BitOrAssign)):
                found.append(Put(node.target, ANY, node.value, merges=True))
    for call, _ in tree.every(cst.Call):
        found += _by_method(call)
        found += [
            Put(arg.value, ANY, call) for arg in call.args if arg.keyword is not None and arg.keyword.value == "out"
        ]
    return found


def _by_method(call: cst.Call) -> list[Put]:
    if not isinstance(call.func, cst.Attribute) or any(arg.star for arg in call.args):
        return []
    name, base = called_name(call), call.func.value
    values = [arg.value for arg in call.args]
    if name in _ADDING_ALL:
        named = [Put(base, arg.keyword.value, arg.value) for arg in call.args if arg.keyword is not None]
        return named or [Put(base, ANY, value, merges=True) for value in values]
    if name == "setdefault" and len(values) == 2:
        return [Put(base, constant_key(values[0]), values[1])]
    if name.endswith("_") and not name.startswith("_"):  # into the tensor itself: `p.mul_(gate)`
        return [Put(base, ANY, value) for value in values]
    index = _ADDING_ONE.get(name, len(values))
    return [Put(base, ANY, values[index])] if index < len(values) else []


def key_of(node: cst.Subscript) -> Key:
    """The key of a subscript; ANY for a slice, too."""
    parts = [item.slice.value if isinstance(item.slice, cst.Index) else None for item in node.slice]
    keys = tuple(ANY if part is None else constant_key(part) for part in parts)
    return keys if len(keys) > 1 else keys[0]


def constant_key(node: cst.BaseExpression) -> Key:
    """A constant, or a tuple with as much of it as is constant."""
    if isinstance(node, cst.Tuple):
        return tuple(constant_key(element.value) for element in node.elements)
    value = literal_value(node)
    return ANY if value is UNKNOWN or value == ANY or isinstance(value, tuple) else value


def may_be_same(one: Key, other: Key) -> bool:
    """False for keys of which some constant part differs."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(may_be_same(a, b) for a, b in zip(one, other, strict=True))
    if ANY in (one, other):
        return True
    if isinstance(one, int) and isinstance(other, int) and (one < 0) != (other < 0):
        return True  # counted from the other end
    return type(one) is type(other) and one == other
