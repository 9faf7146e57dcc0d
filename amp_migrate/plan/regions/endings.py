"""The sigmoids that end the containers which make a value, where nothing but its shape changes on the way (rule E4).

Narrower than `trail`: a value that goes on as a logit must be nothing else on any way.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.tree import Class, Function, Statement, called_name

_SHAPES = frozenset("squeeze view float reshape flatten contiguous unsqueeze".split())

Arguments = list[cst.BaseExpression]


class Endings:
    """Finds the sigmoids at the end of the containers that make a value."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._open: set[cst.BaseExpression] = set()

    def origin(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """`nn.Sigmoid()` in the container that a call runs, itself or by `data_parallel(container, ...)`."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, (cst.Name, cst.Attribute)):
            return None
        run = node.args[0].value if called_name(node) == "data_parallel" and node.args else node.func
        return _ending(self.facts, run)

    def behind(self, value: cst.BaseExpression, at: Statement) -> Arguments | None:
        """What made a value read in a statement; None where some of it comes from elsewhere."""
        value = inside_methods(value)
        if value in self._open:
            return None
        self._open.add(value)
        try:
            return self._follow(value, at)
        finally:
            self._open.discard(value)

    def _follow(self, value: cst.BaseExpression, at: Statement) -> Arguments | None:
        direct = self.origin(value)
        if direct is not None:
            return [direct]
        if isinstance(value, cst.Name):
            return self._of_name(value, at)
        return self._of_call(value, ()) if isinstance(value, cst.Call) else None

    def _of_name(self, name: cst.Name, at: Statement) -> Arguments | None:
        """Its last assignment before the statement; for a parameter, what every call gives."""
        for place in reversed(at.path()):
            for earlier in reversed(place.block.statements[: place.index]):
                if (name.value,) in writes(earlier) and isinstance(earlier.node, cst.Assign):
                    return self._assigned(name.value, earlier)
                arms = self._set_in_arms(name.value, earlier)
                if arms:
                    return _all([self._assigned(name.value, one) for one in arms])
        param = next((one for one in at.function.parameters if one.name.value == name.value), None)
        if param is None:
            return None
        found: list[Arguments | None] = []
        for call, statement in self.facts.objects.callers(at.function):
            arg = self.facts.objects.argument(call, at.function, param)
            found.append(self.behind(arg.value, statement) if arg is not None else None)
        return _all(found)

    def _set_in_arms(self, name: str, statement: Statement) -> list[Statement]:
        """The last assignments of a name in the arms of an `if` and its `else`, where all of them have one."""
        if not isinstance(statement.node, cst.If) or len(statement.blocks) < 2:
            return []
        arms = []
        for block in statement.blocks:
            last = [one for one in block.statements if (name,) in writes(one) and isinstance(one.node, cst.Assign)]
            arms += last[-1:]
        return arms if len(arms) == len(statement.blocks) else []

    def _assigned(self, name: str, statement: Statement) -> Arguments | None:
        assert isinstance(statement.node, cst.Assign)
        target, value = statement.node.targets[0].target, statement.node.value
        if isinstance(target, cst.Name):
            return self.behind(value, statement)
        if not isinstance(target, (cst.Tuple, cst.List)):
            return None
        names = [element.value.value if isinstance(element.value, cst.Name) else "" for element in target.elements]
        if name not in names or any(isinstance(element, cst.StarredElement) for element in target.elements):
            return None
        value = inside_methods(value)
        return self._of_call(value, (names.index(name),)) if isinstance(value, cst.Call) else None

    def _of_call(self, call: cst.Call, selector: tuple[int, ...]) -> Arguments | None:
        """What the functions return that a call may run."""
        functions = list(self._run_by(call))
        found: list[Arguments | None] = []
        for function in functions:
            for statement in function.body.statements:
                for inner in statement.descendants():
                    if isinstance(inner.node, cst.Return) and inner.node.value is not None:
                        found.append(self._returned(inner.node.value, inner, selector))
        return _all(found)

    def _returned(self, value: cst.BaseExpression, at: Statement, selector: tuple[int, ...]) -> Arguments | None:
        if not selector:
            return self.behind(value, at)
        if not isinstance(value, cst.Tuple) or len(value.elements) <= selector[0]:
            return None
        return self.behind(value.elements[selector[0]].value, at)

    def _run_by(self, call: cst.Call) -> Iterator[Function]:
        functions = self.facts.objects.candidates(call)
        if functions:
            yield from functions
        elif isinstance(call.func, (cst.Name, cst.Attribute, cst.Subscript)):
            for one in self.facts.objects.objects(call.func):
                forward = one.origin.methods.get("forward") if isinstance(one.origin, Class) else None
                if forward is not None:
                    yield forward


def _all(found: list[Arguments | None]) -> Arguments | None:
    """Everything together, None where there is nothing or something is missing."""
    if not found or any(one is None for one in found):
        return None
    return list(dict.fromkeys(argument for one in found for argument in one or ()))


def inside_methods(node: cst.BaseExpression) -> cst.BaseExpression:
    """X in `X.squeeze(1).float()`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPES:
        node = node.func.value
    return node


def _ending(facts: Facts, container: cst.BaseExpression) -> cst.Call | None:
    """The `nn.Sigmoid()` that ends the one `nn.Sequential(...)` that an expression means."""
    origins = [one.origin for one in facts.objects.objects(container) if not isinstance(one.origin, Class)]
    if len(origins) != 1 or not isinstance(origins[0], cst.Call) or called_name(origins[0]) != "Sequential":
        return None
    last = origins[0].args[-1] if origins[0].args else None
    if last is None or last.star or not isinstance(last.value, cst.Call) or called_name(last.value) != "Sigmoid":
        return None
    return last.value if len(origins[0].args) > 1 else None
