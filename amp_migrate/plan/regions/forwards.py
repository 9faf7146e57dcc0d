"""Which calls run a model's forward."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Function, Statement, called_name, walk
from amp_migrate.files.only_reading import only_reads
from amp_migrate.models import Operation, names, traits
from amp_migrate.models.queries import is_exact, keeps_numbers_or_floats, makes_leaf
from amp_migrate.plan.roles import Roles

_OF_PYTHON = frozenset(
    "tuple list dict set str len zip range enumerate next iter items keys values get append extend update pop copy "
    "index count format join print isinstance hasattr getattr min max sorted".split()
)


def _is_data(row: Operation) -> bool:
    """It only moves, shapes or counts what it is given, or makes a new tensor."""
    return row.kind != "property" and (keeps_numbers_or_floats(row) or is_exact(row) or makes_leaf(row))


# Calls that only move, shape or count data.
DATA_CALLS = _OF_PYTHON | names(_is_data) | traits.named("leaves torch") | {"zero_grad", "train", "eval"}

# Functions that are given a model and do something else with it than run it.
_PREPARING = (
    "load save resume restore init build freeze count wrap convert summary print register optimizer scheduler "
    "param unwrap update_ema watch set_ replace copy log histogram add_graph"
).split()


class Forwards:
    """Answers whether a call, a statement or a function runs a model in mixed precision."""

    def __init__(self, facts: Facts, roles: Roles) -> None:
        self.facts = facts
        self.roles = roles
        self._functions: dict[Function, bool] = {}

    def runs_model(self, statement: Statement) -> bool:
        """True where the statement itself runs a model that is known by name."""
        if isinstance(statement.node, cst.Assign):
            targets = [target.target for target in statement.node.targets]
            if any(isinstance(target, (cst.Name, cst.Attribute)) and self.roles.is_model(target) for target in targets):
                return False  # `model = load(model)` prepares it
        return any(self.is_forward(call) for call in self.facts.tree.calls(statement))

    def runs_model_here(self, statement: Statement) -> bool:
        """As `runs_model`, functions of this file left out: their forwards are statements of their own."""
        if not self.runs_model(statement):
            return False
        return any(
            self.is_forward(call) and self.facts.objects.called_function(call) is None
            for call in self.facts.tree.calls(statement)
        )

    def in_expression(self, node: cst.BaseExpression) -> bool:
        return any(isinstance(part, cst.Call) and self.is_forward(part) for part in walk(node))

    def is_forward(self, call: cst.Call) -> bool:
        """A call of a model, of a function of this file that runs one, or of one that is given a model."""
        if self.roles.is_forward(call):
            return True
        name = called_name(call)
        function = self.facts.objects.called_function(call)
        if self.facts.objects.is_partial(call) or (function is None and name in DATA_CALLS):
            return False
        bound = self.facts.objects.partial_behind(call.func) if isinstance(call.func, cst.Name) else None
        if bound is not None and any(self.is_whole_model(arg.value) for arg in bound.args[1:]):
            return True
        if function is not None:
            return self.function_runs_model(function)
        if name[:1].isupper() or any(word in name.lower() for word in _PREPARING):
            return False
        return any(self.is_whole_model(arg.value) and not self._is_only_read(call, arg) for arg in call.args)

    def _is_only_read(self, call: cst.Call, arg: cst.Arg) -> bool:
        """True for a model that is kept, or given to functions of other files that only ask it something."""
        if self.facts.objects.is_kept(call, arg):
            return True
        place = arg.keyword.value if arg.keyword is not None else call.args.index(arg)
        paths = self.facts.objects.import_paths(call.func)
        has_star = any(one.star for one in call.args)
        return bool(paths) and not has_star and all(only_reads(path, place) for path in paths)

    def is_whole_model(self, node: cst.BaseExpression) -> bool:
        """True for a variable or attribute that holds a model."""
        return isinstance(node, (cst.Name, cst.Attribute)) and self.roles.is_whole_model(node)

    def calls_an_object(self, statement: Statement) -> bool:
        """True for a statement that calls an object, and for `render(rays, net)`, where a function of the unit calls
        what it is given.
        """
        return any(self.is_of_object(call) or self._hands_object(call) for call in self.facts.tree.calls(statement))

    def is_of_object(self, call: cst.Call) -> bool:
        """True for `net(x)`, `self.encoder(x)` and `self.encoders[0](x)`: a variable or an attribute is called, no
        function or method; but `forward` of anything, and a method of what was made with a model: `wrapper =
        Wrapper(net)`.
        """
        called = call.func
        while isinstance(called, cst.Subscript):
            called = called.value
        if called_name(call) in DATA_CALLS:
            return False
        if isinstance(called, cst.Attribute) and (
            called_name(call) == "forward" or self._was_given_model(called.value)
        ):
            return True
        if isinstance(called, cst.Name):
            return self._is_held(called, ("param", "assign", "for"))
        return isinstance(called, cst.Attribute) and self._is_attribute_of_self(called)

    def _was_given_model(self, node: cst.BaseExpression) -> bool:
        makers = self.facts.objects.calls_behind(node) if isinstance(node, (cst.Name, cst.Attribute)) else ()
        return any(self.is_whole_model(arg.value) for maker in makers for arg in maker.args)

    def _hands_object(self, call: cst.Call) -> bool:
        function = self.facts.objects.called_function(call) if called_name(call) not in DATA_CALLS else None
        return function is not None and self.facts.calls.reaches(function, self._calls_parameter)

    def _calls_parameter(self, function: Function) -> bool:
        statements = function.descendants()
        calls = (call for statement in statements for call in self.facts.tree.calls(statement))
        return any(isinstance(call.func, cst.Name) and self._is_held(call.func, ("param",)) for call in calls)

    def _is_held(self, name: cst.Name, kinds: tuple[str, ...]) -> bool:
        """True for a variable that may hold a model; what holds a function of the unit only does not."""
        variable = self.facts.names.variable_at(name)
        if variable is None or name.value in DATA_CALLS or self._is_function(name):
            return False
        return all(binding.kind in kinds for binding in variable.bindings)

    def _is_function(self, name: cst.Name) -> bool:
        origins = self.facts.objects.origins(name)
        return bool(origins) and all(one in self.facts.tree.function_at for one in origins)

    def models_run(self, statements: list[Statement]) -> ObjectSet:
        """The models that statements run, or hand to a function that does."""
        return frozenset(one for node in self.named_in(statements) for one in self.facts.objects.objects(node))

    def named_in(self, statements: list[Statement]) -> Iterator[cst.BaseExpression]:
        """The expressions by which they do."""
        for statement in statements:
            for call in self.facts.tree.calls(statement):
                run = call.func
                if isinstance(run, cst.Attribute) and self.facts.objects.candidates(call):
                    run = run.value  # `net.generate(x)`
                for node in (run, *(arg.value for arg in call.args)):
                    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) and self.roles.is_model(node):
                        yield node

    def function_runs_model(self, function: Function) -> bool:
        """True where a function of this file runs a model, itself or through others."""
        if function not in self._functions:
            self._functions[function] = False
            self._functions[function] = any(self.runs_model(inner) for inner in function.descendants())
        return self._functions[function]

    def gives_gradients(self, statement: Statement) -> bool:
        """True where a statement runs a model outside of any `torch.no_grad()`, itself or by the functions it calls."""
        return self._gives_gradients(statement, set())

    def _gives_gradients(self, statement: Statement, seen: set[Function]) -> bool:
        if runs_without_gradients(self.facts, statement) or not self.runs_model(statement):
            return False
        calls = (call for call in self.facts.tree.calls(statement) if self.is_forward(call))
        return any(self._call_gives_gradients(call, seen) for call in calls)

    def _call_gives_gradients(self, call: cst.Call, seen: set[Function]) -> bool:
        function = None if self.roles.is_forward(call) else self.facts.objects.called_function(call)
        if function is None:
            return True
        if function in seen:
            return False
        seen.add(function)
        return any(self._gives_gradients(inner, seen) for inner in function.descendants())

    def _is_attribute_of_self(self, func: cst.Attribute) -> bool:
        function = self.facts.tree.function_of(func)
        if not isinstance(func.value, cst.Name) or not function.is_method or not function.parameters:
            return False
        if func.value.value != function.parameters[0].name.value:
            return False
        return self.facts.objects.stores_of(func.attr.value) != []

    def computes(self, statement: Statement) -> bool:
        """True for any call that does not just move data."""
        return any(called_name(call) not in DATA_CALLS for call in self.facts.tree.calls(statement))


def runs_without_gradients(facts: Facts, statement: Statement) -> bool:
    """True inside of `with torch.no_grad():`, and in a function that is decorated with it."""
    inside = any(is_no_grad(facts, outer) for outer in statement.path()[:-1])
    return inside or has_no_gradients(facts, statement.function)


def is_no_grad(facts: Facts, statement: Statement) -> bool:
    """True for `with torch.no_grad():` and its like."""
    node = statement.node
    return isinstance(node, cst.With) and any(is_no_grad_call(facts, item.item) for item in node.items)


def has_no_gradients(facts: Facts, function: Function) -> bool:
    """True for a function that is decorated with `torch.no_grad()`."""
    return any(is_no_grad_call(facts, one.decorator) for one in function.decorators)


def is_no_grad_call(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for `torch.no_grad()`, `torch.inference_mode()` and `torch.set_grad_enabled(False)`."""
    if not isinstance(node, cst.Call):
        return False
    name = called_name(node)
    if name == "set_grad_enabled":
        return bool(node.args) and facts.text(node.args[0].value) == "False"
    return name in ("no_grad", "inference_mode")
