"""What conditions mean: equivalence, implication and folding of tests, by trying all small cases.

A test is evaluated with Python's own semantics under every assignment of candidate values to the variables
that it reads. The candidates of a variable are the constants that the tests compare it with, and the usual
suspects (None, "", False, True, -1 to 3, "O0" to "O3"); a proven bool has two. What the tests read beyond
names, attributes and constants counts as an unknown boolean of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

import libcst as cst

from amp_migrate.facts.identity import Identity, Key
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.stores import Store
from amp_migrate.facts.values import UNKNOWN, Values, literal_value

Case = Mapping[Hashable, object]
Variables = dict[Hashable, tuple[object, ...]]
Evaluator = Callable[[Case], object]

_USUAL = (None, "", False, True, -1, 0, 1, 2, 3, "O0", "O1", "O2", "O3")
_MOST_CASES = 60_000


class _NoValue(Exception):
    """The test raises in this case (`None >= 0`): the case cannot happen past it."""


class Formula:
    """A compiled test: `variables` maps each key to its candidate values, `evaluate` takes a case."""

    def __init__(self, variables: Variables, evaluate: Evaluator) -> None:
        self.variables = variables
        self.evaluate = evaluate


def conjunction(parts: Iterable[Formula]) -> Formula:
    """All of `parts` at once; the empty conjunction is true."""
    formulas = list(parts)
    variables = _join(formulas)
    return Formula(variables, lambda case: all(formula.evaluate(case) for formula in formulas))


def disjunction(parts: Iterable[Formula]) -> Formula:
    """One of `parts` at least; the empty disjunction is not tested for, and true."""
    formulas = list(parts)
    return negation(conjunction(negation(formula) for formula in formulas)) if formulas else conjunction(())


def negation(formula: Formula) -> Formula:
    """True where `formula` is not."""
    return Formula(formula.variables, lambda case: not formula.evaluate(case))


def unknown(key: Hashable) -> Formula:
    """A condition of which nothing is known but that it is true or false."""
    return Formula({key: (True, False)}, lambda case: case[key])


def equal_to(key: Hashable, value: object) -> Formula:
    """What has this key has this value."""
    return Formula({key: (value,)}, lambda case: type(case[key]) is type(value) and case[key] == value)


class Conditions:
    """Compiles the tests of one unit.

    `known` holds keys whose value is settled for the whole run, such as an availability flag that becomes
    True. `carriers` are expressions whose truth is the meaning of a formula: one that holds apex's amp
    or None is true exactly where mixed precision is on.
    """

    def __init__(self, identity: Identity, objects: Objects, values: Values) -> None:
        self.identity = identity
        self.objects = objects
        self.values = values
        self.known: dict[Key, object] = {}
        self.carriers: dict[cst.BaseExpression, Formula] = {}
        self.always: set[cst.CSTNode] = set()  # tests that are true

    def compile(self, node: cst.BaseExpression) -> Formula:
        variables: Variables = {}
        evaluate = self._compile(node, variables, frozenset())
        return Formula(variables, evaluate)

    def implies(self, first: Formula, second: Formula) -> bool:
        """True where `second` holds in every case in which `first` does and neither raises.

        What no case satisfies implies nothing: its cases were too few.
        """
        cases = _cases(_join([first, second]))
        if cases is None:
            return False
        met = False
        for case in cases:
            try:
                if first.evaluate(case):
                    met = True
                    if not second.evaluate(case):
                        return False
            except _NoValue:
                continue
        return met

    def equivalent(self, first: Formula, second: Formula) -> bool:
        return self.implies(first, second) and self.implies(second, first)

    def constant(self, formula: Formula) -> bool | None:
        """True or False where the formula has that value in every case, else None."""
        cases = _cases(formula.variables)
        if cases is None:
            return None
        seen = set()
        for case in cases:
            try:
                seen.add(bool(formula.evaluate(case)))
            except _NoValue:
                continue
        return seen.pop() if len(seen) == 1 else None

    def settled(self, test: cst.BaseExpression, world: Formula) -> bool | None:
        """The answer of a test wherever `world` holds; None where it has no one answer."""
        formula = self.compile(test)
        if not formula.variables:
            return self.constant(formula)
        if not formula.variables.keys() & world.variables.keys():
            return None
        if self.implies(world, formula):
            return True
        return False if self.implies(world, negation(formula)) else None

    # -- compilation --------------------------------------------------------------------------------

    def simplified(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """A test without the operands that what is known settles: `fp16 and APEX_AVAILABLE` -> `fp16`, and without
        a name that it gives to a value and that nothing reads: `(on := fp16)` -> `fp16`.
        """
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self.simplified(node.expression)
            return node if inner is node.expression else negated(inner)
        if isinstance(node, cst.NamedExpr) and self.is_unread(node):
            return self.simplified(node.value)
        if not isinstance(node, cst.BooleanOperation):
            return node
        neutral = isinstance(node.operator, cst.And)
        left, right = self.simplified(node.left), self.simplified(node.right)
        if self.constant(self.compile(left)) is neutral:
            return right
        if self.constant(self.compile(right)) is neutral:
            return left
        return node if left is node.left and right is node.right else node.with_changes(left=left, right=right)

    def settled_operands(self, node: cst.BaseExpression) -> Iterator[tuple[cst.BooleanOperation, str]]:
        """The same, in place: each `and` or `or` of which one side alone remains, with that side, left or right."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            yield from self.settled_operands(node.expression)
        if not isinstance(node, cst.BooleanOperation):
            return
        neutral = isinstance(node.operator, cst.And)
        remaining = {"left": node.left, "right": node.right}
        if self.constant(self.compile(node.left)) is neutral:
            del remaining["left"]
        elif self.constant(self.compile(node.right)) is neutral:
            del remaining["right"]
        for side, operand in remaining.items():
            if len(remaining) == 1:
                yield node, side
            yield from self.settled_operands(operand)

    def _compile(self, node: cst.BaseExpression, variables: Variables, seen: frozenset[Key]) -> Evaluator:
        if node in self.always:
            return lambda case: True
        literal = literal_value(node)
        if literal is not UNKNOWN:
            return lambda case: literal
        if isinstance(node, cst.NamedExpr) and self.is_unread(node):
            return self._compile(node.value, variables, seen)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            operand = self._compile(node.expression, variables, seen)
            return lambda case: not operand(case)
        if isinstance(node, cst.BooleanOperation):
            left = self._compile(node.left, variables, seen)
            right = self._compile(node.right, variables, seen)
            if isinstance(node.operator, cst.And):
                return lambda case: left(case) and right(case)
            return lambda case: left(case) or right(case)
        if isinstance(node, cst.IfExp):
            test = self._compile(node.test, variables, seen)
            body = self._compile(node.body, variables, seen)
            orelse = self._compile(node.orelse, variables, seen)
            return lambda case: body(case) if test(case) else orelse(case)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._compile_comparison(node, variables, seen)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "bool":
            if len(node.args) == 1:
                inner = self._compile(node.args[0].value, variables, seen)
                return lambda case: bool(inner(case))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            pattern = literal_value(node.left)
            if isinstance(pattern, str):
                argument = self._compile(node.right, variables, seen)
                return lambda case: _format(pattern, argument(case))
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return self._compile_variable(node, variables, seen)
        return _opaque(node, variables)

    def _compile_variable(self, node: cst.BaseExpression, variables: Variables, seen: frozenset[Key]) -> Evaluator:
        key = self.identity.key(node) or ("text", source_key(node))
        if node in self.carriers:
            carrier = self.carriers[node]
            variables.update(carrier.variables)
            return lambda case: _Something() if carrier.evaluate(case) else None
        if key in self.known:
            value = self.known[key]
            return lambda case: value
        definition = self._definition(node)
        if definition is not None and key not in seen:
            return self._compile(definition, variables, seen | {key})
        option = self.values.option(node)
        if self.values.is_bool(node):
            candidates: tuple[object, ...] = (False, True)
        elif option is not None and option.choices is not None and isinstance(option.default, str):
            candidates = option.choices
        else:
            candidates = variables.get(key, _USUAL)
        variables[key] = candidates
        return lambda case: case[key]

    def is_unread(self, node: cst.NamedExpr) -> bool:
        """True for `(on := fp16)` where nothing reads the name: it may go with the test, which is that of its value."""
        variable = self.identity.names.variable_at(node.target)
        return variable is not None and not variable.is_read

    def test_behind(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The test that a name or an attribute certainly stands for; None where it may be something else. (Whether
        there is a GPU has one answer in a run, but two scripts that ask are two.)
        """
        value = self._only_value(node)
        is_of_machine = isinstance(value, cst.Call) and (
            self.identity.names.dotted(value.func) == "torch.cuda.is_available"
        )
        return value if is_of_machine else self._definition(node)

    def _definition(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The one expression that a name or an attribute stands for, if it is a test or a choice.

        A constant is a switch that somebody may turn by hand: it is not looked into.
        """
        value = self._only_value(node)
        looked_into = (
            cst.BooleanOperation,
            cst.UnaryOperation,
            cst.Comparison,
            cst.IfExp,
            cst.BinaryOperation,
        )
        return value if isinstance(value, looked_into) else None

    def _only_value(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What a name that is bound once, or an attribute that is stored to once, is set to."""
        node = self.objects.behind_property(node)
        if isinstance(node, cst.Attribute):
            stores = self.objects.stores_of(node.attr.value)
            if len(stores) != 1 or not self._is_set_by_init(stores[0]):
                return None
            return stores[0].value if self.objects.values_of(node) == [stores[0].value] else None
        variable = self.identity.names.definition(node)
        if variable is None or len(variable.bindings) != 1:
            return None
        binding = variable.bindings[0]
        return binding.value if binding.kind == "assign" and not binding.selector else None

    def _is_set_by_init(self, store: Store) -> bool:
        """True for `self.x = ...` as a plain statement of `__init__`: the attribute has that value and no other."""
        function = store.statement.function
        receiver = function.receiver
        is_own = isinstance(store.base, cst.Name) and store.base.value == receiver
        return is_own and function.name == "__init__" and store.statement.block.owner is None

    def _compile_comparison(self, node: cst.Comparison, variables: Variables, seen: frozenset[Key]) -> Evaluator:
        target = node.comparisons[0]
        if self._is_computed(node.left, seen) or self._is_computed(target.comparator, seen):
            return _opaque(node, variables)
        left = self._compile(node.left, variables, seen)
        right = self._compile(target.comparator, variables, seen)
        for one, other in ((node.left, target.comparator), (target.comparator, node.left)):
            self._add_candidates(one, literal_value(other), variables)
        operator = _OPERATORS.get(type(target.operator))
        if operator is None:
            return _opaque(node, variables)

        def evaluate(case: Case) -> object:
            try:
                return operator(left(case), right(case))
            except TypeError as error:
                raise _NoValue from error

        return evaluate

    def _is_computed(self, node: cst.BaseExpression, seen: frozenset[Key]) -> bool:
        """True for values that cannot be told from the source, such as calls and sums, and names of them."""
        if _computes(node):
            return True
        if isinstance(node, cst.NamedExpr):
            return self._is_computed(node.value, seen)
        if isinstance(node, cst.IfExp):
            return self._is_computed(node.body, seen) or self._is_computed(node.orelse, seen)
        if isinstance(node, cst.BooleanOperation):
            return self._is_computed(node.left, seen) or self._is_computed(node.right, seen)
        key = self.identity.key(node) or ("text", source_key(node))
        definition = self._definition(node) if key not in self.known and node not in self.carriers else None
        return definition is not None and key not in seen and self._is_computed(definition, seen | {key})

    def _add_candidates(self, node: cst.BaseExpression, literal: object, variables: Variables) -> None:
        if literal is UNKNOWN or not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return
        key = self.identity.key(node) or ("text", source_key(node))
        if key in variables and variables[key] != (False, True):
            extra = literal if isinstance(literal, tuple) else (literal,)
            if isinstance(literal, (int, float)) and not isinstance(literal, bool):
                extra = (literal - 1, literal, literal + 1)
            have = variables[key]
            variables[key] = have + tuple(
                value for value in extra if not any(value == old and type(value) is type(old) for old in have)
            )


class _Something:
    """A value that is true and not None, such as a module."""


def _computes(node: cst.BaseExpression) -> bool:
    """True for calls other than bool(), f-strings and concatenations."""
    if isinstance(node, cst.Call):
        return not (isinstance(node.func, cst.Name) and node.func.value == "bool")
    if isinstance(node, cst.BinaryOperation):
        formats = isinstance(node.operator, cst.Modulo) and isinstance(literal_value(node.left), str)
        return literal_value(node) is UNKNOWN and not formats
    return isinstance(node, (cst.FormattedString, cst.ConcatenatedString)) and literal_value(node) is UNKNOWN


def _opaque(node: cst.BaseExpression, variables: Variables) -> Evaluator:
    key = ("text", source_key(node))
    variables[key] = (False, True)
    return lambda case: case[key]


def source_key(node: cst.CSTNode) -> str:
    """The text of an expression with its whitespace normalised."""
    return " ".join(cst.Module([]).code_for_node(node).split())


def without_not(test: cst.BaseExpression) -> cst.BaseExpression:
    """`x` for `not x`; another test is itself."""
    return test.expression if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not) else test


def negated(test: cst.BaseExpression) -> cst.BaseExpression:
    """The opposite of a test, written as a person would: `x is None` -> `x is not None`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        opposite = _OPPOSITES.get(type(target.operator))
        if opposite is not None:
            return test.with_changes(comparisons=[target.with_changes(operator=opposite())])
    if isinstance(test, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not test.lpar:
        test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), test)


_OPPOSITES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}


_OPERATORS: dict[type[cst.BaseCompOp], Callable[[object, object], object]] = {
    cst.Equal: lambda a, b: a == b,
    cst.NotEqual: lambda a, b: a != b,
    cst.Is: lambda a, b: a is b if b is None or a is None else a == b,
    cst.IsNot: lambda a, b: a is not b if b is None or a is None else a != b,
    cst.In: lambda a, b: a in b,  # type: ignore[operator]
    cst.NotIn: lambda a, b: a not in b,  # type: ignore[operator]
    cst.LessThan: lambda a, b: a < b,  # type: ignore[operator]
    cst.LessThanEqual: lambda a, b: a <= b,  # type: ignore[operator]
    cst.GreaterThan: lambda a, b: a > b,  # type: ignore[operator]
    cst.GreaterThanEqual: lambda a, b: a >= b,  # type: ignore[operator]
}


def _format(pattern: str, value: object) -> str:
    try:
        return pattern % value
    except (TypeError, ValueError) as error:
        raise _NoValue from error


def _join(formulas: Iterable[Formula]) -> Variables:
    joined: Variables = {}
    for formula in formulas:
        for key, values in formula.variables.items():
            have = joined.get(key, ())
            joined[key] = have + tuple(
                value for value in values if not any(value == old and type(value) is type(old) for old in have)
            )
    return joined


def _cases(variables: Variables) -> Iterator[Case] | None:
    """Every assignment, or None where there are too many to try."""
    count = 1
    for values in variables.values():
        count *= len(values)
    if count > _MOST_CASES:
        return None
    keys = list(variables)
    return (dict(zip(keys, combination, strict=True)) for combination in itertools.product(*variables.values()))
