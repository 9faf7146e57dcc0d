"""Code that insists on float32, of a tensor that autocast may have made half.

    boxes = self.head(x)                                       boxes = self.head(x)
    assert boxes.dtype == torch.float32            =>          boxes = boxes.float()
                                                               assert boxes.dtype == torch.float32

Who asks wants what follows in float32. What passes the test is float32, and stays as it is. Who asks for the eps of a
dtype has a number of float32 in mind as well: that of half is 1e-3.

    eps = torch.finfo(p.dtype).eps                 =>          p = p.float()
                                                               eps = torch.finfo(p.dtype).eps
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import Statement, walk
from amp_migrate.findings import Refusal
from amp_migrate.models import Dtype
from amp_migrate.models.dtype_names import dtype_named
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import TypeTest
from amp_migrate.plan.safety.type_tests import raises, type_test
from amp_migrate.rules.safety import FLOAT32_ONLY

_SMALL = ("eps", "resolution", "tiny", "smallest_normal")


def keep_what_is_checked(context: Context) -> None:
    """`.float()` before a statement that raises for anything but float32; Refusal where it cannot stand there."""
    for statement in context.reach.statements:
        for checked in _checked(context, statement):
            found = context.precisions.of(checked)
            has_place = isinstance(checked, cst.Name) and not statement.is_elif
            is_made_here = found is Precision.UNKNOWN and has_place and not _is_parameter(context, checked)
            if not found.may_be_half and not is_made_here:
                continue
            if not isinstance(checked, cst.Name) or not has_place:
                text = context.facts.text(checked)
                raise Refusal(FLOAT32_ONLY, checked, f"{text} has to be float32, and may be half under autocast")
            context.safety.rebound.append((statement, checked.value))
        for measured in () if statement.is_elif else _measured(context, statement):
            if context.precisions.of(measured).may_be_half and isinstance(measured, cst.Name):
                context.safety.rebound.append((statement, measured.value))


def _measured(context: Context, statement: Statement) -> Iterator[cst.BaseExpression]:
    """X of `torch.finfo(X.dtype).eps`."""
    for part in context.facts.tree.expressions(statement):
        if isinstance(part, cst.Attribute) and part.attr.value in _SMALL and isinstance(part.value, cst.Call):
            if context.facts.names.dotted(part.value.func) == "torch.finfo" and part.value.args:
                dtype = part.value.args[0].value
                if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype":
                    yield dtype.value


def _checked(context: Context, statement: Statement) -> Iterator[cst.BaseExpression]:
    """X of `assert X.dtype == torch.float32` and `assert isinstance(X, torch.cuda.FloatTensor)`, and of an `if` that
    asks for the opposite and raises.
    """
    node = statement.node
    if not isinstance(node, (cst.If, cst.Assert)) or not raises(statement):
        return
    operators: tuple[type[cst.BaseCompOp], ...] = (cst.Equal, cst.Is)
    if isinstance(node, cst.If):
        operators = (cst.NotEqual, cst.IsNot)
    for part in walk(node.test):
        test = type_test(context.facts, part)
        if test is not None and _is_negated(context, test) is isinstance(node, cst.If):
            yield test.tensor
        if not isinstance(part, cst.Comparison) or len(part.comparisons) != 1:
            continue
        left, target = part.left, part.comparisons[0]
        is_dtype = isinstance(left, cst.Attribute) and left.attr.value == "dtype"
        if is_dtype and isinstance(target.operator, operators):
            if dtype_named(context.facts.names.dotted(target.comparator) or "") is Dtype.SINGLE:
                assert isinstance(left, cst.Attribute)
                yield left.value


def _is_negated(context: Context, test: TypeTest) -> bool:
    if isinstance(test.node, cst.Comparison):
        return isinstance(test.node.comparisons[0].operator, cst.NotEqual)
    return isinstance(context.facts.tree.parents.get(test.node), cst.UnaryOperation)


def _is_parameter(context: Context, node: cst.BaseExpression) -> bool:
    return any(binding.kind == "param" for binding in context.facts.names.bindings_at(node))
