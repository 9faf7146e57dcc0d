"""Code that a program does not run, since nobody in sight switches it on: for a reason that stands in such code alone.

    class Net(nn.Module):
        def __init__(self, watch=False):     nobody gives `watch`, or all give False
            self.watch = watch
            if self.watch:
                self.add_hooks()             so what this method does is not done

Only arguments and defaults count. A constant with a name is a switch that somebody may turn by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from amp_migrate.facts.constant_tests import value_of_test
from amp_migrate.facts.implied import tested
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.facts.values import UNKNOWN, literal_value

if TYPE_CHECKING:
    from amp_migrate.facts import Facts

_Seen = frozenset[object]


class Running:
    """Asked for one place after the other. Constructors that other files call are theirs: they make other objects.

    Where nothing in sight makes what trains, nothing runs: so a place that does is asked for beside another.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._sets_by_name = any(map(self._is_of_any_name, facts.tree.parents))

    def may_run(self, node: cst.CSTNode, seen: _Seen = frozenset()) -> bool:
        """False where a test on every way to a node is settled against it, or no way is left."""
        statement = self.facts.tree.statement_of(node)
        if any(self._truth(test) is (not value) for test, value in (*self._asked(node), *tested(statement))):
            return False
        function = statement.function
        if function.is_module or function in seen:
            return function not in seen
        if function.parent is not None and not function.parent.is_module:
            return self.may_run(self.facts.tree.statement_of(function.node).node, seen | {function})
        owner = function.owner if not function.decorators else None
        if owner is not None and not self._is_made(owner, seen | {function}):
            return False
        callers = self.facts.objects.possible_callers(function)
        return not self._are_all(callers, function) or any(self.may_run(call, seen | {function}) for call, _ in callers)

    def _asked(self, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """The tests within the expression around a node: `watch and self.add_hooks()`."""
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.BaseExpression, cst.Arg)):
            if isinstance(parent, cst.BooleanOperation) and parent.right is node:
                yield parent.left, isinstance(parent.operator, cst.And)
            elif isinstance(parent, cst.IfExp) and parent.test is not node:
                yield parent.test, parent.body is node
            node, parent = parent, self.facts.tree.parents.get(parent)

    def _are_all(self, callers: Sequence[tuple[cst.Call, Statement]], function: Function) -> bool:
        """True where nobody else calls a function, or makes what it initialises in this program."""
        owner, calls = function.owner, {call for call, _ in callers}
        if self._sets_by_name or function.decorators or self.facts.calls.value_uses(function):
            return False
        if owner is not None and function.name == "__init__":
            family = self.facts.objects.derived(owner)
            return bool(callers) and not any(self._is_handed_on(one) for one in family)
        called = {call.func for call in calls}
        named = [one for one, _ in self.facts.tree.every(cst.Attribute) if one.attr.value == function.name]
        is_implicit = function.name == "forward" or function.name.startswith("__")
        is_outside = is_implicit or self.facts.is_used_outside(function)
        return bool(calls) and not is_outside and (owner is None or all(one in called for one in named))

    def _is_made(self, owner: Class, seen: _Seen) -> bool:
        """True for a class of which there may be an instance, whose methods may run then."""
        path, family = self.facts.file_of(owner.node).path, self.facts.objects.derived(owner)
        is_outside = any(self.facts.elsewhere.use_function(path, one.name) for one in family)
        makers = [call for one in family for call in self.facts.objects.makers.get(one, ())]
        is_open = self._sets_by_name or is_outside or any(map(self._is_handed_on, family))
        return is_open or any(self.may_run(call, seen) for call in makers)

    def _is_handed_on(self, owner: Class) -> bool:
        """True for a class that something else is done with than to make instances of it, and to derive others."""
        ancestors = self.facts.objects.ancestors(owner)
        if owner.node.decorators or any("__init_subclass__" in one.methods for one in ancestors):
            return True  # a registry
        makers = {call.func for call in self.facts.objects.makers.get(owner, ())}
        for part, statement in (*self.facts.tree.every(cst.Name), *self.facts.tree.every(cst.Attribute)):
            if part in makers or owner.node not in self.facts.objects.origins(part):
                continue
            parent = self.facts.tree.parents.get(part)
            call = self.facts.tree.taker(part)
            is_asked = call is not None and called_name(call) in ("super", "isinstance")
            is_named = isinstance(statement.node, (cst.ClassDef, cst.Import, cst.ImportFrom))
            if not is_asked and not is_named and not isinstance(parent, (cst.Attribute, cst.Annotation)):
                return True
        return False

    def _is_of_any_name(self, node: cst.CSTNode) -> bool:
        """True for what may set or call an attribute of an object without its name being written there."""
        if isinstance(node, cst.Attribute):
            is_open = node.attr.value == "__dict__" and not self._is_of_others(node.value)
            return is_open or node.attr.value == "__subclasses__"
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name) or not node.args:
            return isinstance(node, cst.Name) and node.value == "globals"
        name, first = node.func.value, node.args[0].value
        if name == "vars":
            is_object = any(isinstance(one, Class) for one in self.facts.objects.origins(first))
            return is_object or self.facts.names.module(first) is not None
        is_written = len(node.args) > 1 and isinstance(node.args[1].value, cst.SimpleString)
        is_harmless = is_written or (name == "getattr" and self._is_of_others(first))
        return name in ("exec", "eval") or (name in ("getattr", "setattr") and not is_harmless)

    def _is_of_others(self, node: cst.BaseExpression) -> bool:
        """True for a module of another package, or one that is not looked at."""
        return self.facts.names.dotted(node) is not None and self.facts.names.module(node) is None

    def _truth(self, test: cst.BaseExpression) -> bool | None:
        """What a test comes to with every value that is given in sight; None where that is not known."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self._truth(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            deciding = isinstance(test.operator, cst.Or)
            sides = {self._truth(test.left), self._truth(test.right)}
            return deciding if deciding in sides else None if None in sides else not deciding
        read = [part for part in walk(test) if isinstance(part, (cst.Name, cst.Attribute))]
        outer = [one for one in read if literal_value(one) is UNKNOWN][:1]
        values = self._constants(outer[0], frozenset()) if outer else None
        text = self.facts.text
        found = {value_of_test(text(test), text(outer[0]), value) for value in values or ()}
        return found.pop() if len(found) == 1 else None

    def _constants(self, node: cst.BaseExpression, seen: _Seen) -> list[object] | None:
        """The constants that callers in sight give to what is read; None where there may be other values."""
        literal = literal_value(node)
        if literal is not UNKNOWN:
            return [literal]
        values = self._stored(node) if isinstance(node, cst.Attribute) else self._given(node)
        if not values or node in seen:
            return None
        found = [self._constants(value, seen | {node}) for value in values]
        return None if None in found else [one for constants in found for one in constants or ()]

    def _given(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What all callers of a function give for a parameter, the default where one gives nothing."""
        variable = self.facts.names.definition(node)
        function = variable.scope.owner if variable is not None else None
        param = variable.bindings[0].node if variable is not None and len(variable.bindings) == 1 else None
        if not isinstance(function, Function) or param not in function.parameters:
            return []
        assert isinstance(param, cst.Param)
        callers = self.facts.objects.possible_callers(function)
        if not self._are_all(callers, function) or any(arg.star for call, _ in callers for arg in call.args):
            return []
        args = [self.facts.objects.argument(call, function, param) for call, _ in callers]
        values = [param.default if arg is None else arg.value for arg in args]
        if function.owner is not None and self._is_spoken_of(function.owner, param.name.value):
            return []
        return [] if None in values else [one for one in values if one is not None]

    def _stored(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """What is assigned to an attribute of instances of the unit; nothing where that is not all."""
        field, classes = node.attr.value, self.facts.objects.origins(node.value)
        stores = self.facts.objects.stores_of(field)
        targets = [one for one, _ in self.facts.tree.every(cst.Attribute) if one.attr.value == field]
        is_known = not self._sets_by_name and all(isinstance(one, Class) for one in classes)
        is_assigned = len(stores) == len([one for one in targets if self._is_target(one)])
        if not classes or not is_known or not is_assigned or any(store.selector for store in stores):
            return []
        owners = {one.scope.owner for one in self.facts.names.all_variables() if one.name == field}
        is_outside = any(self._is_spoken_of(one, field) for one in classes if isinstance(one, Class))
        return [] if is_outside or any(isinstance(one, Class) for one in owners) else [one.value for one in stores]

    def _is_target(self, node: cst.CSTNode) -> bool:
        """True for what is bound, be it as a part of a tuple, added to or deleted."""
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
            node, parent = parent, self.facts.tree.parents.get(parent)
        is_named = isinstance(parent, (cst.AsName, cst.Del)) or getattr(parent, "target", None) is node
        return is_named and not isinstance(parent, cst.Attribute)

    def _is_spoken_of(self, owner: Class, field: str) -> bool:
        """True where other files may set an attribute of a class."""
        path = self.facts.file_of(owner.node).path
        return self.facts.elsewhere.use_function(path, f"{owner.name}.{field}")
