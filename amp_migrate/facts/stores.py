"""What the code keeps where: stores to attributes and elements, and what functions return."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import libcst as cst

from amp_migrate.facts.queues import put_into
from amp_migrate.facts.targets import targets_given
from amp_migrate.facts.tree import Function, Statement, Tree

ANY = "[*]"


@dataclasses.dataclass(frozen=True)
class Store:
    """`base.field = value`, `base[key] = value` or `base.append(value)`, `base.put(value)`."""

    base: cst.BaseExpression
    value: cst.BaseExpression
    selector: tuple[int, ...]
    statement: Statement


class Stores:
    """Stores by the name of the attribute or the key of the element, collected in one pass."""

    def __init__(self, tree: Tree) -> None:
        self._stores: dict[str, list[Store]] = {}
        self._given: dict[str, list[Store]] = {}  # by keyword of a call that makes an object
        self._readers: dict[str, list[cst.BaseExpression]] = {}  # by attribute, what it is read from
        self._returns: dict[Function, list[cst.BaseExpression]] = {}
        for statement in tree.all_statements():
            self._collect(statement)
        for part in tree.parents:
            if type(part) is cst.Attribute:
                self._readers.setdefault(part.attr.value, []).append(part.value)
            elif type(part) is cst.Call and (put := put_into(part)) is not None:
                self._add(ANY, Store(*put, (), tree.statement_of(part)))
            elif type(part) is cst.Call and (name := _named_by(part)) is not None:
                self._add(name, Store(part.args[0].value, part.args[2].value, (), tree.statement_of(part)))

    def at(self, field: str) -> list[Store]:
        """The stores to a field, those by the keywords of a call among them."""
        return [*self.to(field), *self._given.get(field, [])]

    def to(self, field: str) -> list[Store]:
        """The stores to an attribute or element of that name, whatever the object."""
        return self._stores.get(field, [])

    def elements(self) -> list[str]:
        """The keys of all elements that are stored to."""
        return [field for field in self._stores if field.startswith("[")]

    def all(self) -> Iterable[tuple[str, list[Store]]]:
        """Every attribute name and element key that is stored to, with the stores."""
        return self._stores.items()

    def readers(self, field: str) -> list[cst.BaseExpression]:
        """What an attribute of that name is read from."""
        return self._readers.get(field, [])

    def returned(self, function: Function) -> list[cst.BaseExpression]:
        """What a function returns."""
        return self._returns.get(function, [])

    def keep_arguments(self, call: cst.Call, statement: Statement) -> None:
        """`State(model=model)` of a class without `__init__` (a dataclass, attrs), or of whatever another file
        defines (`Munch`, `SimpleNamespace`), sets the field, as far as somebody reads it.
        """
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value in self._readers:
                self._given.setdefault(arg.keyword.value, []).append(Store(call, arg.value, (), statement))

    def _collect(self, statement: Statement) -> None:
        node = statement.node
        if isinstance(node, cst.Assign):
            for assign_target in node.targets:
                self._collect_targets(assign_target.target, node.value, statement)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self._collect_targets(node.target, node.value, statement)
        elif isinstance(node, cst.Return) and node.value is not None:
            self._returns.setdefault(statement.function, []).append(node.value)

    def _collect_targets(self, target: cst.BaseExpression, value: cst.BaseExpression, at: Statement) -> None:
        for one, given, selector in targets_given(target, value):
            if isinstance(one, cst.Attribute) and given is not None:
                self._add(one.attr.value, Store(one.value, given, selector, at))
            elif isinstance(one, cst.Subscript) and given is not None:
                self._add(subscript_key(one), Store(one.value, given, selector, at))

    def _add(self, field: str, store: Store) -> None:
        self._stores.setdefault(field, []).append(store)


def _named_by(call: cst.Call) -> str | None:
    """The attribute that `setattr(net, "head", head)` sets; no text for a name that only run time knows."""
    is_setting = isinstance(call.func, cst.Name) and call.func.value == "setattr" and len(call.args) == 3
    name = call.args[1].value if is_setting else None
    return str(name.evaluated_value) if isinstance(name, cst.SimpleString) else "" if is_setting else None


def subscript_key(node: cst.Subscript) -> str:
    """A constant subscript names an element of its own, every other one any element."""
    if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        index = node.slice[0].slice.value
        if isinstance(index, cst.Integer):
            return f"[{index.evaluated_value}]"
        if isinstance(index, cst.SimpleString):
            return string_key(index)
    return ANY


def string_key(node: cst.SimpleString) -> str:
    """The element that a string names."""
    return f"[{node.evaluated_value!r}]"
