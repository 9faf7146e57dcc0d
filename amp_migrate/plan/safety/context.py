"""What every part of the scan works with."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Protocol

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Statement, called_name, walk
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import Passes, Stops, Trace, never, trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import Values
from amp_migrate.models import Dtype, names
from amp_migrate.models.queries import in_half, is_product
from amp_migrate.plan.safety.precision import Precision, Precisions
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.rules.rule import Rule

# What may be the result of an operation.
_OPERATIONS = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)


class Statements(Protocol):
    """What is looked at: mostly what runs under autocast (`Reach`), and the classes whose forwards it is in."""

    @property
    def statements(self) -> list[Statement]: ...

    @property
    def classes(self) -> Collection[Class]: ...

    def calls(self) -> Iterator[tuple[cst.Call, Statement]]: ...


@dataclasses.dataclass
class Context:
    """The unit, the statements that are looked at, what their values are, and what has been decided so far."""

    facts: Facts
    reach: Statements
    precisions: Precisions
    safety: Safety

    @property
    def steps(self) -> Steps:
        return self.precisions.steps

    @property
    def values(self) -> Values:
        return self.precisions.values

    # -- operations -------------------------------------------------------------------------------------

    def made(self, node: cst.CSTNode) -> tuple[Made, ...]:
        """What an expression is the result of, where it is one of an operation of torch."""
        return self.steps.of(Place(node)).made if isinstance(node, _OPERATIONS) else ()

    @cached_property
    def results(self) -> tuple[Made, ...]:
        """Every result of an operation on something, in those statements."""
        parts = [part for one in self.reach.statements for part in self.facts.tree.expressions(one)]
        return tuple(made for part in parts for made in self.made(part) if made.operands)

    def runs(self, node: cst.CSTNode) -> bool:
        """True for what stands in those statements."""
        return self.facts.tree.statement_of(node) in self.reach.statements

    def trace(self, value: Place, passes: Passes, stops: Stops = never) -> Trace:
        """What a value comes from."""
        return trace(self.steps, value, passes, stops)

    def is_product(self, made: Made) -> bool:
        """True for a product of two tensors that autocast runs in half."""
        (operation, *others) = made.operations
        return not others and operation is not None and is_product(operation)

    def typed_as(self, made: Made) -> Place | None:
        """The tensor whose dtype a call asks for: X of `x.type_as(X)`, `x.to(X.dtype)`, `x.to(X)`."""
        if isinstance(made.cast, Place):
            return made.cast
        takes_tensor = made.operation is not None and made.operation.kind == "method" and made.operation.by_argument
        given = made.operands[1] if takes_tensor and len(made.operands) > 1 else None
        return given if given is not None and self.precisions.of(given.node).is_tensor else None

    def products_behind(self, value: Place, passes: Passes) -> Iterator[Made]:
        """The products that a value comes from, and that are half."""
        yield from (one for one in self.trace(value, passes).ends if self.is_product(one) and self.is_in_half(one))

    def is_in_half(self, product: Made) -> bool:
        """True for a product that some call gives what autocast makes half, whatever an evaluation gives it; false
        where float32 would cut complex numbers.
        """
        value = self.values.of(product.node)
        return value.may_be_half and Dtype.COMPLEX not in value.dtypes

    def innermost(self, operand: cst.BaseExpression) -> cst.BaseExpression:
        """P of `1 - P` and `2 * P`: the tensor rather than the arithmetic around it, which would round as well."""
        while isinstance(operand, cst.BinaryOperation):
            left, right = self.precisions.of(operand.left), self.precisions.of(operand.right)
            if left is Precision.NUMBER:
                operand = operand.right
            elif right is Precision.NUMBER:
                operand = operand.left
            else:
                break
        return operand

    def note(self, node: cst.CSTNode, rule: Rule, message: str, case: str = "") -> None:
        self.safety.findings.append(self.facts.finding(node, rule, message, case))

    def can_be_island(self, statement: Statement, *inside: cst.BaseExpression) -> bool:
        """True where nothing of a statement needs autocast but what `inside` computes: no module, no other product."""
        is_simple = isinstance(statement.node, (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr))
        if not is_simple or statement.function.is_lambda:
            return False
        return not self._multiplies(statement, inside) and all(
            call in inside or self._needs_no_autocast(call) or self._is_of_float32(call, inside)
            for call in self.facts.tree.calls(statement)
        )

    def _multiplies(self, statement: Statement, inside: Collection[cst.BaseExpression] = ()) -> bool:
        products = (part for part in self.facts.tree.expressions(statement) if isinstance(part, cst.BinaryOperation))
        return any(isinstance(part.operator, cst.MatrixMultiply) and part not in inside for part in products)

    def _is_of_float32(self, call: cst.Call, inside: Collection[cst.BaseExpression]) -> bool:
        """True for a function of the unit that gets nothing but what is `inside`, and needs no autocast either."""
        function = self.facts.objects.called_function(call)
        if function is None or not all(arg.value in inside for arg in call.args):
            return False
        statements = list(function.descendants())
        calls = (inner for one in statements for inner in self.facts.tree.calls(one))
        return not any(map(self._multiplies, statements)) and all(map(self._needs_no_autocast, calls))

    def _needs_no_autocast(self, call: cst.Call) -> bool:
        """Operations that take half and float32 alike; a module, a product or a function of the unit may not."""
        rows = [row for made in self.made(call) for row in made.operations]
        if any(row is None or row.kind == "layer" or in_half(row) for row in rows):
            return False
        if self.facts.objects.called_function(call) is not None or called_name(call) in names(in_half):
            return False
        if isinstance(call.func, cst.Attribute):
            dotted = self.facts.names.dotted(call.func) or ""
            root = next((part for part in walk(call.func) if isinstance(part, cst.Name) and part.value == "self"), None)
            # `self.codes.view(n, m)` and `self.codes.pow(2)` call no module, which would be given tensors.
            is_shape = bool(rows) and all(row is not None and row.shape_only for row in rows)
            is_of_own = is_shape or (bool(rows) and all(map(self._is_number, call.args)))
            return dotted.startswith("torch.") or (root is None and dotted == "") or is_of_own
        return isinstance(call.func, cst.Name) and (
            self.facts.names.variable_at(call.func) is None
            or (self.facts.names.dotted(call.func) or "").startswith("torch.")
        )

    def _is_number(self, arg: cst.Arg) -> bool:
        return self.precisions.of(arg.value) is Precision.NUMBER
