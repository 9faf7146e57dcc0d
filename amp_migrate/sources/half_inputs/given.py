"""What makes the values that models are given: in the functions that run them, in helpers whose results they take, and
in the callers whose arguments they take.

    batch = to_half(batch)          with      def to_half(batch):
    scores = model(batch)                         return {name: one.half() for name, one in batch.items()}

Data sets, the functions that collate their elements, and transforms are helpers that a loader calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, backward_slice, own_reads, reads
from amp_migrate.facts.tree import Function, Statement, walk
from amp_migrate.plan.roles import Roles
from amp_migrate.sources.half_inputs.integers import passed_on, passing_on

# What loaders, loops and compositions of transforms call.
_OF_ELEMENTS = ("__getitem__", "__iter__", "__next__", "__call__")


class Given:
    """`parts` are the expressions that make what some forwards are given, with their statements."""

    def __init__(self, facts: Facts, roles: Roles, forwards: Iterable[tuple[cst.Call, Statement]]) -> None:
        self.facts = facts
        self.roles = roles
        self.parts: dict[cst.CSTNode, Statement] = {}
        for call, statement in forwards:
            for arg in call.args:
                self._follow(arg.value, statement)

    def _follow(self, node: cst.BaseExpression, at: Statement, *, is_in_helper: bool = False) -> None:
        """Take in an expression, and what makes the values in it. What a helper is given has been taken in with its
        call.
        """
        if node in self.parts:
            return
        parts = list(walk(node))
        for part in passing_on(parts):
            self._take(part, at)
        made = backward_slice(at, passed_on(reads(node), parts), lambda path: path == ("self",), self._reads_of)
        for statement in made.statements:
            for part in passing_on(list(self.facts.tree.expressions(statement))):
                self._take(part, statement)
        for path in made.open_paths:
            self._follow_from_outside(path, at.function, is_in_helper=is_in_helper)

    def _reads_of(self, statement: Statement) -> list[Path]:
        return passed_on(own_reads(statement), list(self.facts.tree.expressions(statement)))

    def _take(self, part: cst.CSTNode, statement: Statement) -> None:
        """One part, with what a function of the unit gives back there; models are no helpers."""
        if part in self.parts:
            return
        self.parts[part] = statement
        if isinstance(part, cst.Attribute) and not self._is_called(part):  # `loaders.train` of another object
            for value in self.facts.objects.values_of(part):
                self._follow(value, self.facts.tree.statement_of(value))
        if not isinstance(part, cst.Call) or self.roles.is_forward(part):
            return
        for function in (*self.facts.objects.candidates(part), *self._handed_over(part)):
            for statement in _own_statements(function):
                given_back = _given_back(statement)
                if given_back is not None:
                    self._follow(given_back, statement, is_in_helper=True)

    def _is_called(self, part: cst.CSTNode) -> bool:
        parent = self.facts.tree.parents.get(part)
        return isinstance(parent, cst.Call) and parent.func is part

    def _handed_over(self, call: cst.Call) -> Iterator[Function]:
        """The functions that others run for what they are given: `collate_fn=join`, and the elements of the data set
        that a call makes.
        """
        for arg in call.args:
            function = self.facts.objects.function_handed_over(arg.value)
            if function is not None:
                yield function
        for made in self.facts.objects.classes_made(call):
            found = (self.facts.objects.method_of(made, name) for name in _OF_ELEMENTS)
            yield from (method for method in found if method is not None)

    def _follow_from_outside(self, path: Path, function: Function, *, is_in_helper: bool) -> None:
        """A parameter comes from the callers, a global name from its module, an attribute from the methods of its
        class.
        """
        if path[0] == "self" and function.owner is not None:
            for store in self.facts.objects.stores_of(path[1]):
                if store.statement.function.owner is function.owner:
                    self._follow(store.value, store.statement)
            return
        variable = self.facts.names.visible(path[0], function)
        if variable is None:
            return
        for binding in variable.bindings:
            if binding.kind == "param" and variable.scope.owner is function:
                self._follow_parameter(path[0], function, is_in_helper=is_in_helper)
            elif binding.kind == "assign" and binding.statement is not None and binding.value is not None:
                if binding.statement.function is not function:
                    self._follow(binding.value, binding.statement)

    def _follow_parameter(self, name: str, function: Function, *, is_in_helper: bool) -> None:
        for param in function.parameters:
            if param.name.value != name:
                continue
            if param.default is not None:
                self._follow(param.default, self.facts.tree.statement_of(param))
            for site in self.facts.calls.callers(function) if not is_in_helper else ():
                arg = self.facts.objects.argument(site.call, function, param)
                if arg is not None:
                    self._follow(arg.value, site.statement)


def _own_statements(function: Function) -> Iterator[Statement]:
    for statement in function.body.statements:
        yield from (inner for inner in statement.descendants() if inner.function is function)


def _given_back(statement: Statement) -> cst.BaseExpression | None:
    """What a statement returns or yields."""
    node = statement.node
    if isinstance(node, cst.Return):
        return node.value
    given = node.value.value if isinstance(node, cst.Expr) and isinstance(node.value, cst.Yield) else None
    return given if isinstance(given, cst.BaseExpression) else None
