"""Which parameters does an optimizer hold? (rule D5)

`amp.master_params(optimizer)` are the optimizer's own parameters. They may be written `model.parameters()`
only where the optimizer is proven to be built from exactly those, up to parameters that never get a
gradient:

    SGD(model.parameters())        Adam(filter(lambda p: p.requires_grad, model.parameters()))
    AdamW([{"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], ...},
           {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], ...}])
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Function, argument_value, names_in
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.files.returned import hands_back

Models = frozenset[Object]


class Parameters:
    """Proofs about the parameters of optimizers."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._grown = self._optimizers_that_grow()

    def models_of_optimizer(self, optimizer: cst.BaseExpression) -> Models | None:
        """The models whose parameters, all of them and nothing else, the optimizer holds; None if unproven."""
        objects = self.facts.objects.objects(optimizer)
        if not objects or objects & self._grown:
            return None
        proven = {self._models_of_origin(one.origin) for one in objects}
        return proven.pop() if len(proven) == 1 else None

    def _models_of_origin(self, origin: object) -> Models | None:
        """What an optimizer's constructor call is given."""
        if not isinstance(origin, cst.Call) or not self._is_constructor(origin):
            return None
        given = next((arg for arg in origin.args if arg.keyword is None or arg.keyword.value == "params"), None)
        return self.models_of_parameters(given.value) if given is not None and not given.star else None

    def models_of_parameters(self, node: cst.BaseExpression) -> Models | None:
        """The models whose parameters an expression lists completely; None if that cannot be shown."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value == "parameters" and not node.args:
                return self._single(node.func.value)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self._comprehension_source(node)
        parts = self._joined_in(node)
        known = [self.models_of_parameters(part) if part is not None else None for part in parts]
        if known and None not in known:
            return frozenset().union(*(models for models in known if models is not None))
        return self._of_split(*parts) if len(parts) == 2 and isinstance(node, cst.List) else None

    def _joined_in(self, node: cst.BaseExpression) -> list[cst.BaseExpression | None]:
        """What a list, an iterator or a list of parameter groups is made of; None for a group that is not in sight."""
        if isinstance(node, cst.Call):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else source_key(node.func)
            plain = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
            if name == "filter" and len(plain) == 2 and "requires_grad" in self.facts.text(plain[0]):
                return [plain[1]]
            return [*plain] if name == "chain" or (name in ("list", "tuple", "iter") and len(plain) == 1) else []
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return [node.left, node.right]
        if isinstance(node, cst.List):
            return [self._group_parameters(element.value) for element in node.elements]
        return [self._only_value(node)] if isinstance(node, cst.Name) else []

    def _only_value(self, node: cst.Name) -> cst.BaseExpression | None:
        """What a name was bound to, once and for all: None for lists that grow (`group += [p]`)."""
        variable = self.facts.names.variable_at(node)
        if variable is None or len(variable.bindings) != 1:
            return None
        values = self.facts.objects.values_of(node)
        if len(values) != 1 or any(_is_changed(self.facts, load) for load in variable.loads):
            return None
        return values[0]

    def visible_expression(self, models: Models, function: Function) -> str | None:
        """A way to write the parameters of one model in a function: `model.parameters()`."""
        if len(models) != 1:
            return None
        names = sorted(
            variable.name
            for variable in self._visible_variables(function)
            if self.facts.names.visible(variable.name, function) is variable
            and (
                self._as_given(self.facts.objects.variable_objects(variable)) == models
                or self.facts.objects.object_of("parameter", variable) in models
            )
        )
        names += self._attributes_named(models, function)
        best = next((name for name in ("model", "net") if name in names), names[0] if names else None)
        return f"{best}.parameters()" if best is not None else None

    def _visible_variables(self, function: Function) -> Iterator[Variable]:
        for current in function.around:
            for variable in self.facts.names.scope_of(current).variables.values():
                if current is function or not current.is_module or self._is_certain(variable, function):
                    yield variable

    def _is_certain(self, variable: Variable, function: Function) -> bool:
        """False for what a module binds in a block such as `if __name__ == "__main__":`, unless read there anyway."""
        return _is_always_bound(variable) or any(
            self.facts.tree.function_of(load) is function for load in variable.loads
        )

    def _attributes_named(self, models: Models, function: Function) -> list[str]:
        """Attributes that the function itself reads: `self.model` in a method."""
        return sorted(
            {
                self.facts.text(part)
                for inner in function.descendants()
                for part in self.facts.tree.expressions(inner)
                if isinstance(part, cst.Attribute) and self._as_given(self.facts.objects.objects(part)) == models
            },
            key=len,
        )

    def _is_constructor(self, call: cst.Call) -> bool:
        """An optimizer class: its name starts with a capital, as every optimizer's does."""
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else source_key(call.func)
        return name[:1].isupper()

    def _single(self, node: cst.BaseExpression) -> Models | None:
        """The one model that an expression means; a parameter means one in each call, whatever callers give."""
        objects = self._as_given(self.facts.objects.objects(node))
        if len(objects) == 1:
            return objects
        variable = self.facts.names.variable_at(node)
        if variable is None or not self._is_one_in_each_call(variable):
            return None
        return frozenset({self.facts.objects.object_of("parameter", variable)})

    def _as_given(self, objects: ObjectSet) -> ObjectSet:
        """The same without what functions in other files hand back with the parameters it had: `model = spread(model)`.

        For anything but the parameters, what such a function does to a model has to be read.
        """
        found: set[Object] = set()
        seen: set[Object] = set()
        waiting = set(objects)
        while waiting:
            one = waiting.pop()
            seen.add(one)
            given = self._handed_back(one.origin) if isinstance(one.origin, cst.Call) else None
            if given is None:
                found.add(one)
            else:
                waiting |= self.facts.objects.objects(given) - seen
        return frozenset(found)

    def _handed_back(self, call: cst.Call) -> cst.BaseExpression | None:
        paths = self.facts.objects.import_paths(call.func)
        given = call.args[0].value if call.args and not call.args[0].star else None
        return given if any(map(hands_back, paths)) else None

    def _is_one_in_each_call(self, variable: Variable) -> bool:
        """True for a parameter that is bound to nothing else but itself in a wrapper."""
        function = variable.scope.owner
        params = [binding.node for binding in variable.bindings if binding.kind == "param"]
        if not isinstance(function, Function) or len(params) != 1 or not isinstance(params[0], cst.Param):
            return False
        given: set[Object] = set()
        for site in self.facts.calls.callers(function):
            arg = self.facts.objects.argument(site.call, function, params[0])
            given |= self.facts.objects.objects(arg.value) if arg is not None else set()
        rebound = [binding.value for binding in variable.bindings if binding.kind != "param"]
        if any(value is None or variable.name not in names_in(value) for value in rebound):
            return False
        return self.facts.objects.variable_objects(variable) == given

    def _comprehension_source(self, node: cst.ListComp | cst.GeneratorExp) -> Models | None:
        """The model in `[p for p in model.parameters() if p.requires_grad]`."""
        clause = node.for_in
        if clause.inner_for_in is not None or not all(_wants_gradient(c.test) for c in clause.ifs):
            return None
        return self._named_source(clause, node.elt)

    def _named_source(self, clause: cst.CompFor, element: cst.BaseExpression) -> Models | None:
        """The model behind `for p in model.parameters()` or `for n, p in model.named_parameters()`."""
        source = self._resolved(clause.iter)
        if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Attribute) or source.args:
            return None
        method = source.func.attr.value
        target: cst.BaseExpression = clause.target
        if method == "named_parameters" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
            target = target.elements[1].value
        elif method != "parameters":
            return None
        if not isinstance(target, cst.Name) or not isinstance(element, cst.Name) or target.value != element.value:
            return None
        return self._single(source.func.value)

    def _resolved(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Through names bound once and `list(...)`: `named = list(model.named_parameters())`."""
        while True:
            if isinstance(node, cst.Call) and source_key(node.func) == "list" and len(node.args) == 1:
                node = node.args[0].value
                continue
            values = self.facts.objects.values_of(node) if isinstance(node, cst.Name) else []
            if len(values) != 1 or values[0] is node:
                return node
            node = values[0]

    def _group_parameters(self, element: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(element, cst.Dict):
            for item in element.elements:
                if isinstance(item, cst.DictElement) and literal_value(item.key) == "params":
                    return item.value
            return None
        if isinstance(element, cst.Call) and source_key(element.func) == "dict":
            return argument_value(element, "params")
        return None

    def _of_split(self, one: cst.BaseExpression | None, other: cst.BaseExpression | None) -> Models | None:
        """The model whose parameters two groups share by a test of their names, without a rest."""
        if not isinstance(one, cst.ListComp) or not isinstance(other, cst.ListComp):
            return None
        first = self._named_source(one.for_in, one.elt)
        second = self._named_source(other.for_in, other.elt)
        tests = [[c.test for c in comp.for_in.ifs if not _wants_gradient(c.test)] for comp in (one, other)]
        if first is None or first != second or any(len(found) != 1 for found in tests):
            return None
        return first if _are_opposites(tests[0][0], tests[1][0]) else None

    def _optimizers_that_grow(self) -> ObjectSet:
        """Optimizers that get parameter groups added somewhere."""
        grown: set[Object] = set()
        for call, _ in self.facts.tree.every(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_param_group":
                grown |= self.facts.objects.objects(call.func.value)
        return frozenset(grown)


def _is_always_bound(variable: Variable) -> bool:
    return all(binding.statement is None or binding.statement.block.owner is None for binding in variable.bindings)


def _wants_gradient(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Attribute) and test.attr.value == "requires_grad"


def _are_opposites(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """`X` and `not X`, or `a in b` and `a not in b`."""
    for first, second in ((one, other), (other, one)):
        if isinstance(second, cst.UnaryOperation) and isinstance(second.operator, cst.Not):
            if source_key(second.expression) == source_key(first):
                return True
    if isinstance(one, cst.Comparison) and isinstance(other, cst.Comparison):
        if len(one.comparisons) == 1 and len(other.comparisons) == 1:
            left, right = one.comparisons[0], other.comparisons[0]
            operators = {type(left.operator), type(right.operator)}
            same = source_key(one.left) == source_key(other.left)
            same = same and source_key(left.comparator) == source_key(right.comparator)
            return same and operators in ({cst.In, cst.NotIn}, {cst.Equal, cst.NotEqual}, {cst.Is, cst.IsNot})
    return False


def _is_changed(facts: Facts, load: cst.Name) -> bool:
    """True for `params.append(p)` and the like."""
    parent = facts.tree.parents.get(load)
    return (
        isinstance(parent, cst.Attribute)
        and parent.value is load
        and parent.attr.value in ("append", "extend", "insert", "remove", "pop", "clear")
    )
