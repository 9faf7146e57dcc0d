"""Which class of the unit inherits from which, and which method an instance runs.

A class exists when the bases of another are looked up: whatever the names say, nothing inherits from itself. Bases that
several classes share are looked at once.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.tree import Class, Function, Tree
from amp_migrate.facts.variables import Binding


class Hierarchy:
    """The classes of a unit."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names

    def bases(self, owner: Class) -> list[Class]:
        """The base classes of `owner` that are defined in the unit."""
        return self._bases[owner]

    def ancestors(self, owner: Class) -> set[Class]:
        """The class and all that it inherits from inside the unit."""
        return self._families[owner]

    def line(self, owner: Class) -> list[Class]:
        """The same, in the order in which a method is looked for."""
        return self._lines[owner]

    def derived(self, owner: Class) -> list[Class]:
        """The class and all that inherit from it inside the unit."""
        return self._derived[owner]

    def root_class(self, owner: Class) -> Class:
        """The top of the hierarchy of a class inside the unit; instances are known by it. Where all classes derived
        from a base have another one first, the top of that: `class Trainer(Models, Steps)` makes the `self` of both.
        """
        return self._roots[owner]

    def method_of(self, owner: Class, name: str) -> Function | None:
        """The method that an instance of just this class runs, where it is defined in the unit."""
        return next((one.methods[name] for one in self._lines[owner] if name in one.methods), None)

    @cached_property
    def _bases(self) -> dict[Class, list[Class]]:
        found: dict[Class, list[Class]] = {}
        for owner in self.tree.classes:
            bindings = [self._only_binding(base.value) for base in owner.node.bases]
            parents = [self.tree.class_at.get(binding.node) for binding in bindings if binding is not None]
            found[owner] = [one for one in parents if one is not None and owner not in _line(one, found)]
        return found

    @cached_property
    def _lines(self) -> dict[Class, list[Class]]:
        return {owner: _line(owner, self._bases) for owner in self.tree.classes}

    @cached_property
    def _families(self) -> dict[Class, set[Class]]:
        return {owner: set(line) for owner, line in self._lines.items()}

    @cached_property
    def _derived(self) -> dict[Class, list[Class]]:
        found: dict[Class, list[Class]] = {}
        for cls, family in self._families.items():
            for owner in family:
                found.setdefault(owner, []).append(cls)
        return found

    @cached_property
    def _roots(self) -> dict[Class, Class]:
        above = {owner: self._root_above(owner) for owner in self.tree.classes}
        beside = {top: {above[one] for one in self.derived(top) if one is not top} for top in above.values()}
        return {owner: next(iter(beside[top])) if len(beside[top]) == 1 else top for owner, top in above.items()}

    def _root_above(self, owner: Class) -> Class:
        while parents := self.bases(owner):
            owner = parents[0]
        return owner

    def _only_binding(self, node: cst.BaseExpression) -> Binding | None:
        """What a name of the unit, or `module.name`, is bound to, where that is one thing."""
        variable = self.names.definition(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        return variable.bindings[0] if variable is not None and len(variable.bindings) == 1 else None


def _line(owner: Class, bases: dict[Class, list[Class]]) -> list[Class]:
    """The class and what it inherits from, in the order in which a method is looked for: bases from left to right, each
    with its own before the next.
    """
    found: dict[Class, None] = {}
    waiting = [owner]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = None
            waiting.extend(reversed(bases.get(current, [])))
    return list(found)
