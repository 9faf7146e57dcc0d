"""Who calls whom inside one unit, and where a function is used as a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.tree import Function, Statement, Tree
from amp_migrate.facts.uses import Uses


@dataclasses.dataclass(frozen=True)
class CallSite:
    """A call of a function of the unit."""

    call: cst.Call
    statement: Statement
    callee: Function

    @property
    def caller(self) -> Function:
        return self.statement.function


class Calls:
    """The call graph of a unit, and the places where a function is used as a value instead."""

    def __init__(self, tree: Tree, names: Names, objects: Objects) -> None:
        self.tree = tree
        self.objects = objects
        self._by_callee: dict[Function, list[CallSite]] = {}
        self._by_statement: dict[Statement, list[CallSite]] = {}
        self._callees: dict[Function, list[Function]] = {}
        self._values: dict[Function, list[cst.BaseExpression]] = {}
        for statement in tree.all_statements():
            for call in self._in_order_of_execution(tree.calls(statement)):
                for callee in objects.alternatives(call):
                    self._add(CallSite(call, statement, callee))
        for function, use in Uses(tree, names, objects).values():
            self._values.setdefault(function, []).append(use)

    def callers(self, function: Function) -> list[CallSite]:
        return self._by_callee.get(function, [])

    def callees(self, function: Function) -> list[Function]:
        """The functions that it calls itself, each once, in the order of their first calls."""
        return self._callees.get(function, [])

    def in_statement(self, statement: Statement) -> list[CallSite]:
        return self._by_statement.get(statement, [])

    def value_uses(self, function: Function) -> list[cst.BaseExpression]:
        """Where a function is passed on, stored or looked up by its name, and not all calls are known that come of it.

        A call or a subscript is a lookup: `getattr(module, name)`, `globals()[name]`.
        """
        return self._values.get(function, [])

    def reaches(self, function: Function, holds: Callable[[Function], bool]) -> bool:
        """True where `holds` is true of the function or of one it calls, at any depth."""
        return any(holds(reached) for reached in self.reachable(function))

    def reachable(self, function: Function) -> Iterator[Function]:
        """The function and everything it calls, at any depth."""
        seen = {function}
        stack = [function]
        while stack:
            current = stack.pop()
            yield current
            for callee in self.callees(current):
                if callee not in seen:
                    seen.add(callee)
                    stack.append(callee)

    def leads_to(self, function: Function, target: Function) -> bool:
        """True where a function runs another one, or what that is defined in: a closure is handed on, and run later."""
        return any(one is target or (one.encloses(target) and not one.is_module) for one in self.reachable(function))

    def of_other_programs(self, homes: Collection[Function]) -> set[Function]:
        """The functions that only scripts run which neither hold nor may lead to any of some others."""
        leading = self.leading_to(homes)
        own: set[Function] = set()
        other: set[Function] = set()
        for root in self.tree.roots:
            run = set(self.reachable(root))
            leads = not run.isdisjoint(leading) or any(root.encloses(home) for home in homes)
            (own if leads else other).update(run)
        return other - own

    def leading_to(self, homes: Collection[Function]) -> set[Function]:
        """Some functions, those that may call them, and those that they are closures of, at any depth."""
        found: set[Function] = set()
        waiting = list(homes)
        while waiting:
            function = waiting.pop()
            if function not in found:
                found.add(function)
                waiting += [statement.function for _, statement in self.objects.possible_callers(function)]
                if function.parent is not None and not function.parent.is_module:
                    waiting.append(function.parent)
        return found

    def _in_order_of_execution(self, calls: Iterable[cst.Call]) -> list[cst.Call]:
        """Inner calls first: `Trainer(model).fit(load())` constructs, loads, then fits."""
        done: list[cst.Call] = []
        running: list[cst.Call] = []
        for call in calls:
            while running and not self._is_around(running[-1], call):
                done.append(running.pop())
            running.append(call)
        return [*done, *reversed(running)]

    def _is_around(self, outer: cst.Call, inner: cst.Call) -> bool:
        node: cst.CSTNode | None = inner
        while node is not None and node is not outer and not isinstance(node, cst.BaseSmallStatement):
            node = self.tree.parents.get(node)
        return node is outer

    def _add(self, site: CallSite) -> None:
        self._by_callee.setdefault(site.callee, []).append(site)
        self._by_statement.setdefault(site.statement, []).append(site)
        callees = self._callees.setdefault(site.caller, [])
        if site.callee not in callees:
            callees.append(site.callee)
