"""Where functions are used as values, so that their calls are not all in sight.

threads.start(train)          a value use of `train`
fit(model, train)             none, where `fit` does nothing with its parameter but call it
getattr(engine, name)         a value use of every function of `engine`
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.lookups import looks_up_global, pattern_meant, text_looked_up
from amp_migrate.facts.names import Names
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.tree import Function, Tree
from amp_migrate.facts.variables import Variable


class Uses:
    """The uses of the functions of a unit; methods are left out."""

    def __init__(self, tree: Tree, names: Names, objects: Objects) -> None:
        self.tree = tree
        self.names = names
        self.objects = objects
        self._reads: dict[Variable, list[cst.BaseExpression]] = {}  # of what is defined in the unit, in all files
        for variable in names.all_variables():
            self._reads.setdefault(names.source(variable), []).extend(variable.loads)
        for part in tree.parents:
            if type(part) is cst.Attribute and (definition := names.definition(part)) is not None:
                self._reads.setdefault(definition, []).append(part)

    def values(self) -> Iterator[tuple[Function, cst.BaseExpression]]:
        """Functions, with the places where they are used as values."""
        for reads in self._reads.values():
            for read in reads:
                function = self.objects.function_named(read)
                if function is not None and function.owner is None and not self._is_called(read, function, set()):
                    yield function, read
        for function in self.tree.functions:
            if isinstance(function.node, cst.Lambda) and not self._is_called(function.node, function, set()):
                yield function, function.node
        for part in self.tree.parents:
            if type(part) is cst.Call or type(part) is cst.Subscript:
                yield from ((function, part) for function in self._looked_up(part))

    def _is_called(self, value: cst.BaseExpression, function: Function, seen: set[Variable]) -> bool:
        """True where all that becomes of a value, which is `function` or a partial of it, is calls that are known."""
        parent = self.tree.parents.get(value)
        if isinstance(parent, cst.Call):
            return parent.func is value and function in self.objects.alternatives(parent)
        if isinstance(parent, (cst.DictElement, cst.Element)):
            return parent.value is value and self._is_looked_up_and_called(parent, seen)
        if isinstance(parent, cst.IfExp):
            return self._is_looked_up_and_called(value, seen)
        if isinstance(parent, cst.Attribute):
            return isinstance(self.tree.parents.get(parent), cst.AssignTarget)  # `train.args = args`
        if isinstance(parent, cst.Assign):
            target = parent.targets[0].target
            return len(parent.targets) == 1 and self._is_called_as(target, function, seen)
        call = self.tree.taker(value)
        if call is None:
            return False
        if self.objects.is_partial(call):
            return parent is call.args[0] and self._is_called(call, function, seen)
        taker = self.objects.called_function(call)
        pairs = self.objects.arguments(call, taker) if taker is not None else ()
        return any(arg is parent and self._is_called_as(param.name, function, seen) for param, arg in pairs)

    def _is_looked_up_and_called(self, table: cst.CSTNode, seen: set[Variable]) -> bool:
        """True for `{"net": (train, test)}` where all that is done with the table is `train, test = trainers[name]` and
        the like, and calls of what comes of that.
        """
        parent = self.tree.parents.get(table)
        if isinstance(parent, cst.Call):
            return parent.func is table and bool(self.objects.alternatives(parent))
        if isinstance(parent, cst.Attribute):
            call = self.tree.parents.get(parent)
            is_lookup = parent.attr.value == "get" and isinstance(call, cst.Call) and call.func is parent
            return parent.attr.value == "keys" or (
                is_lookup and call is not None and self._is_looked_up_and_called(call, seen)
            )
        if isinstance(parent, (cst.Subscript, cst.DictElement, cst.Element, cst.Dict, cst.Tuple, cst.List, cst.IfExp)):
            return getattr(parent, "value", table) is table and self._is_looked_up_and_called(parent, seen)
        if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
            return isinstance(parent, cst.ComparisonTarget)  # `name in trainers`
        target = parent.targets[0].target
        if isinstance(target, cst.Tuple):
            return all(self._is_table_of_calls(one.value, seen) for one in target.elements)
        variable = self.names.variable_at(target)
        return bool(variable and self._reads.get(variable)) and self._is_table_of_calls(target, seen)

    def _is_table_of_calls(self, name: cst.BaseExpression, seen: set[Variable]) -> bool:
        variable = self.names.variable_at(name)
        if variable is None or variable in seen or self.names.used_elsewhere(variable):
            return variable in seen
        seen.add(variable)
        return all(self._is_looked_up_and_called(read, seen) for read in self._reads.get(variable, []))

    def _is_called_as(self, name: cst.BaseExpression, function: Function, seen: set[Variable]) -> bool:
        """The same for everything that reads a variable."""
        variable = self.names.variable_at(name)
        if variable is None or variable in seen:
            return variable is not None
        seen.add(variable)
        return all(self._is_called(read, function, seen) for read in self._reads.get(variable, []))

    def _looked_up(self, node: cst.Call | cst.Subscript) -> Iterator[Function]:
        """The functions that `getattr(module, name)` or `globals()[name + "_loss"]` may mean."""
        text = text_looked_up(node)
        if isinstance(node, cst.Subscript):
            root = self.tree.root_of(node) if looks_up_global(node) else None
        else:
            root = self.names.module(node.args[0].value) if text and self._is_builtin(node.func, "getattr") else None
        if root is None:
            return
        pattern = pattern_meant([text]) if text is not None else None
        variables = self.names.global_variables(root)
        meant = [one for one in variables if pattern is not None and pattern.fullmatch(one.name)]
        for variable in meant or variables:
            for binding in self.names.source(variable).bindings:
                function = self.tree.function_at.get(binding.node)
                if function is not None:
                    yield function

    def _is_builtin(self, node: cst.BaseExpression, name: str) -> bool:
        return isinstance(node, cst.Name) and node.value == name and self.names.variable_at(node) is None
