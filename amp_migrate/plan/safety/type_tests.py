"""Code that asks for the type that float32 tensors have on a GPU, and means the GPU.

    isinstance(x, torch.cuda.FloatTensor)      =>     isinstance(x, (torch.cuda.FloatTensor, torch.cuda.HalfTensor))
    x.type() == "torch.cuda.FloatTensor"       =>     x.type() in ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor")

Half tensors would go the way of the CPU. Whoever raises for them wants float32 (`dtype_checks.py`), and a function that
names their type has thought of them.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.repairs import TypeTest

_ON_A_GPU = "torch.cuda.FloatTensor"


def keep_the_way_of_the_gpu(context: Context) -> None:
    """Half tensors pass the tests that float32 tensors on a GPU pass."""
    for statement in context.reach.statements:
        for part in () if raises(statement) else context.facts.tree.expressions(statement):
            test = type_test(context.facts, part)
            if test is None or context.precisions.of(test.tensor) in (Precision.SINGLE, Precision.OTHER):
                continue
            if "HalfTensor" not in context.facts.text(statement.function.node):
                context.safety.type_tests.append(test)


def type_test(facts: Facts, part: cst.CSTNode) -> TypeTest | None:
    """`part` as a test for the type of float32 tensors on a GPU, if it is one."""
    if isinstance(part, cst.Call) and called_name(part) == "isinstance" and len(part.args) == 2:
        tensor, kinds = (arg.value for arg in part.args)
        named = [element.value for element in kinds.elements] if isinstance(kinds, cst.Tuple) else [kinds]
        written = (one for one in named if isinstance(one, cst.Attribute))  # half has a name in the same place
        kind = next((one for one in written if facts.names.dotted(one) == _ON_A_GPU), None)
        return TypeTest(tensor, kind, part) if kind is not None else None
    if isinstance(part, cst.Comparison) and len(part.comparisons) == 1:
        left, target = part.left, part.comparisons[0]
        if not isinstance(left, cst.Call) or not isinstance(left.func, cst.Attribute) or called_name(left) != "type":
            return None
        is_asked = isinstance(target.operator, (cst.Equal, cst.NotEqual))
        if is_asked and literal_value(target.comparator) == _ON_A_GPU:
            return TypeTest(left.func.value, target.comparator, part)
    return None


def raises(statement: Statement) -> bool:
    """True for an assertion, and for an `if` whose arm ends in an error."""
    if isinstance(statement.node, cst.If):
        return isinstance(statement.blocks[0].statements[-1].node, cst.Raise)
    return isinstance(statement.node, cst.Assert)
