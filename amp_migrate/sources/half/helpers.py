"""Functions and classes of the script that only serve the form: they go with their last use (rule G4).

def network_to_half(network):
    return nn.Sequential(ToHalf(), bn_to_float(network.half()))

model = network_to_half(model)                 goes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.facts.variables import Variable
from amp_migrate.plan.purity import only_looks


class Helpers:
    """Functions that give back the module that they are given, cast."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[Function, bool] = {}

    def is_cast_helper(self, function: Function) -> bool:
        """True where all that a function does is to cast a module to half, and parts of it back."""
        if function not in self._known:
            self._known[function] = True  # one that calls itself on the children
            self._known[function] = self._casts_only(function)
        return self._known[function]

    def calls(self) -> Iterator[tuple[Statement, cst.Call, cst.Arg]]:
        """The calls of such helpers that are given a module to cast to half, with the argument that is the module."""
        for function in self.facts.tree.functions:
            if function.is_module or not self.is_cast_helper(function) or not self._mentions_half(function):
                continue
            for site in self.facts.calls.callers(function):
                arg = self.facts.objects.argument(site.call, function, _module_parameter(function))
                if arg is not None and not self._is_inside_helper(site.statement.function):
                    yield site.statement, site.call, arg

    def _is_inside_helper(self, function: Function) -> bool:
        return not function.is_module and self.is_cast_helper(function)

    def _mentions_half(self, function: Function) -> bool:
        return any(isinstance(part, cst.Name) and part.value in ("half", "float16") for part in walk(function.node))

    def _casts_only(self, function: Function) -> bool:
        if not function.parameters or (function.is_method and len(function.parameters) < 2):
            return False
        name = _module_parameter(function).name.value
        statements = [one for one in function.body.statements if not _is_docstring(one)]
        returns = [one.node for one in statements if isinstance(one.node, cst.Return)]
        if not returns or any(one.value is None or not self._reduces(one.value, name) for one in returns):
            return False
        return all(isinstance(one.node, cst.Return) or self._only_casts(one) for one in statements)

    def _only_casts(self, statement: Statement) -> bool:
        if isinstance(statement.node, (cst.For, cst.If)):
            return all(self._only_casts(inner) for block in statement.blocks for inner in block.statements)
        node = statement.node
        if isinstance(node, cst.Pass):
            return True
        if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
            return False
        call = node.value
        if called_name(call) in ("half", "float") and not call.args:
            return True
        function = self.facts.objects.called_function(call)
        return function is not None and self.is_cast_helper(function)

    def _reduces(self, node: cst.BaseExpression, name: str) -> bool:
        """True where an expression is the parameter, cast and wrapped in a cast of the input."""
        if isinstance(node, cst.Name):
            return node.value == name
        if not isinstance(node, cst.Call):
            return False
        if called_name(node) in ("half", "float") and isinstance(node.func, cst.Attribute) and not node.args:
            return self._reduces(node.func.value, name)
        if called_name(node) == "Sequential" and len(node.args) == 2:
            return self._casts_input(node.args[0].value) and self._reduces(node.args[1].value, name)
        function = self.facts.objects.called_function(node)
        if function is None or not self.is_cast_helper(function):
            return False
        arg = self.facts.objects.argument(node, function, _module_parameter(function))
        return arg is not None and self._reduces(arg.value, name)

    def _casts_input(self, node: cst.BaseExpression) -> bool:
        """True for an instance of a module whose forward is `return input.half()`."""
        made = self._class_of(node)
        forward = made.methods.get("forward") if made is not None else None
        if forward is None:
            return False
        statements = [one for one in forward.body.statements if not _is_docstring(one)]
        value = (
            statements[0].node.value if len(statements) == 1 and isinstance(statements[0].node, cst.Return) else None
        )
        return isinstance(value, cst.Call) and called_name(value) == "half"

    def _class_of(self, node: cst.BaseExpression) -> Class | None:
        if not isinstance(node, cst.Call):
            return None
        made = self.facts.objects.called_class(node)
        if made is not None:
            return made
        name = called_name(node)  # `self.ToHalf()`, a class in a class
        found = [owner for owner in self.facts.tree.classes if owner.name == name]
        return found[0] if len(found) == 1 else None


def calls_of_emptied(facts: Facts, removed: list[Statement]) -> list[Statement]:
    """The statements that call a function, or have `apply` call it, of which nothing is left that does anything."""
    found: list[Statement] = []
    for function in facts.tree.functions:
        statements = [one for one in function.body.statements if not _is_docstring(one)]
        left = [one for one in statements if not _is_emptied(one, removed)]
        if function.is_module or len(left) == len(statements) or not all(map(_only_names, left)):
            continue
        uses = [facts.tree.statement_of(use) for use in _handed_over(facts, function)]
        uses += [site.statement for site in facts.calls.callers(function)]
        outside = [use for use in uses if not function.encloses(use.function)]
        if all(isinstance(use.node, cst.Expr) and isinstance(use.node.value, cst.Call) for use in outside):
            found += outside
    return found


def _handed_over(facts: Facts, function: Function) -> list[cst.BaseExpression]:
    """Where a function is used as a value; a method, where `apply` is given it."""
    if function.owner is None:
        return facts.calls.value_uses(function)
    given = (call.args[0].value for call, _ in facts.tree.every(cst.Call) if called_name(call) == "apply" and call.args)
    return [one for one in given if facts.objects.function_handed_over(one) is function]


def _only_names(statement: Statement) -> bool:
    """True for `kind = m.__class__.__name__`, which nothing reads any more."""
    node = statement.node
    return isinstance(node, cst.Assign) and all(map(_is_name, node.targets)) and only_looks(node.value)


def _is_name(target: cst.AssignTarget) -> bool:
    return isinstance(target.target, cst.Name)


def in_other_files(facts: Facts, calls: Iterable[cst.Call]) -> set[Function]:
    """Helpers that other files than their own call, with everything that only they use: it stays there as it is."""
    called = ((call, facts.objects.called_function(call)) for call in calls)
    found = {one for call, one in called if one is not None and one.root is not facts.tree.root_of(call)}
    grows = bool(found)
    while grows:
        roots = {one.root for one in found}
        more = {
            inner
            for statement in facts.tree.all_statements()
            if statement.function.root in roots and isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))
            if _is_only_used_in(facts, statement.node, found)
            for inner in _functions_of(facts, statement.node)
        }
        grows = not more <= found
        found |= more
    return found


def _is_only_used_in(facts: Facts, node: cst.FunctionDef | cst.ClassDef, users: set[Function]) -> bool:
    variable = facts.names.variable_at(node.name)
    if variable is None or not variable.loads or variable.importers:
        return False
    return all(facts.tree.function_of(load) in users or _is_below(facts, load, node) for load in variable.loads)


def _functions_of(facts: Facts, node: cst.FunctionDef | cst.ClassDef) -> list[Function]:
    if isinstance(node, cst.FunctionDef):
        return [facts.tree.function_at[node]]
    return [method for owner in facts.tree.classes if owner.node is node for method in owner.methods.values()]


def _is_emptied(statement: Statement, removed: list[Statement]) -> bool:
    """True where a statement goes, or everything in it."""
    if statement in removed:
        return True
    inner = [one for block in statement.blocks for one in block.statements]
    empties = isinstance(statement.node, (cst.For, cst.If, cst.With))
    return empties and bool(inner) and all(_is_emptied(one, removed) for one in inner)


def without_use(
    facts: Facts, gone: set[cst.CSTNode], removed: list[Statement], stays: Callable[[Statement], bool] = lambda _: False
) -> list[Statement]:
    """The functions and classes that were used, and that nothing uses any more once some statements are removed and
    some expressions are gone; but for those of which `stays` is true.
    """
    dead: list[Statement] = []
    attributes = _attributes(facts)
    while True:
        dropped = {inner for statement in [*removed, *dead] for inner in all_below(facts, statement)}
        more = [
            statement
            for statement in facts.tree.all_statements()
            if isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))
            and statement not in dropped
            and not stays(statement)
            and _lost_its_uses(facts, statement, gone, dropped, attributes)
        ]
        if not more:
            return dead
        dead += more


def _lost_its_uses(
    facts: Facts,
    statement: Statement,
    gone: set[cst.CSTNode],
    dropped: set[Statement],
    attributes: Mapping[str, list[cst.Attribute]],
) -> bool:
    node = statement.node
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    function = facts.tree.function_at.get(node)
    if node.name.value == "forward" or node.name.value.startswith("__"):
        return False  # called by other names
    if node.decorators or (function is not None and facts.is_used_outside(function)):
        return False
    variable = facts.names.variable_at(node.name)
    uses = list(_uses(variable, attributes)) if variable is not None else []
    others = [use for use in uses if not _is_below(facts, use, node)]
    return bool(others) and all(use in gone or facts.tree.statement_of(use) in dropped for use in others)


def _is_below(facts: Facts, part: cst.CSTNode, whole: cst.FunctionDef | cst.ClassDef) -> bool:
    """True for what stands in the body of a function or a class, whatever is defined in between."""
    current: Statement | None = facts.tree.statement_of(part)
    while current is not None:
        if current.node is whole:
            return True
        current = facts.tree.owner_of(current.block)
    return False


def _uses(variable: Variable, attributes: Mapping[str, list[cst.Attribute]]) -> Iterator[cst.CSTNode]:
    """The reads of a name, and, for what a class holds, every attribute of that name."""
    yield from variable.loads
    if variable.scope.is_class:
        yield from attributes.get(variable.name, ())


def _attributes(facts: Facts) -> dict[str, list[cst.Attribute]]:
    """Every attribute of the unit, by its name."""
    found: dict[str, list[cst.Attribute]] = {}
    for part, _ in facts.tree.every(cst.Attribute):
        found.setdefault(part.attr.value, []).append(part)
    return found


def all_below(facts: Facts, statement: Statement) -> Iterator[Statement]:
    """A statement with everything in it, the bodies of functions included."""
    for inner in statement.descendants():
        yield inner
        function = facts.tree.function_at.get(inner.node)
        for own in function.body.statements if function is not None else ():
            yield from all_below(facts, own)


def _module_parameter(function: Function) -> cst.Param:
    return function.parameters[1 if function.is_method else 0]


def _is_docstring(statement: Statement) -> bool:
    return isinstance(statement.node, cst.Expr) and isinstance(statement.node.value, cst.BaseString)
