"""Operations on tensors that change nothing, of every kind: results of layers, arguments of losses, losses.

They are written only where an expression is certainly a tensor: what a known layer or function of torch returns, and what
a known loss gets.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.tensors import Tensors
from tests.metamorphic.walk import blocks

_OF_EXPRESSIONS = {  # of a tensor of at least one dimension
    "contiguous": "{}.contiguous()",
    "an ellipsis": "{}[...]",
    "clone": "{}.clone()",
    "a dimension more": "{}.unsqueeze(0).squeeze(0)",
    "swapped twice": "{}.swapdims(0, -1).swapdims(0, -1)",
    "moved twice": "{}.movedim(0, -1).movedim(-1, 0)",
    "unflattened": "{}.unflatten(-1, (1, -1)).flatten(-2)",
    "transposed twice": "{}.transpose(0, -1).transpose(0, -1)",
}
_OF_NAMES = {
    "viewed as itself": "{0}.view_as({0})",
    "expanded as itself": "{0}.expand_as({0})",
    "flattened": "{0}.flatten().unflatten(0, {0}.shape)",
    "reshaped": "{0}.reshape({0}.shape)",
    "chosen": "{0}[:{0}.shape[0]]",
    "in a list": "torch.cat([{0}], 0)",
}
_ANY_DIMENSIONS = ("contiguous", "an ellipsis", "clone", "a dimension more")


def _wrapped(form: str, every: bool, program: Program, random: Random) -> bool:
    """An operation behind each expression that is a tensor; `every` number of dimensions suits it."""
    tensors = Tensors(program)
    done = False
    for parent in program.nodes():
        for field, value in ast.iter_fields(parent):
            values = value if isinstance(value, list) else [value]
            for index, node in enumerate(values):
                if not isinstance(node, ast.expr) or not tensors.is_tensor(node, parent, every):
                    continue
                made = _made(form, node)
                if isinstance(value, list):
                    value[index] = made
                else:
                    setattr(parent, field, made)
                done = True
    return done


def _behind_names(form: str, program: Program, random: Random) -> bool:
    """`x = x.view_as(x)` behind `x = self.first(x)`"""
    tensors = Tensors(program)
    if form.startswith("torch.") and not tensors.has_torch:
        return False
    done = False
    for place in blocks(program):
        for statement in [*place.block]:
            is_simple = isinstance(statement, ast.Assign) and len(statement.targets) == 1
            target = statement.targets[0] if is_simple else None  # type: ignore[attr-defined]
            if isinstance(target, ast.Name) and tensors.is_tensor(statement.value, statement, False):  # type: ignore[attr-defined]
                value = _made(form, ast.Name(target.id, ast.Load()))
                place.block.insert(place.block.index(statement) + 1, ast.Assign([target], value))
                done = True
    return done


def _made(form: str, node: ast.expr) -> ast.expr:
    """The operation around the node itself, in which other expressions may be rewritten later."""
    made = ast.parse(form.format("it"), mode="eval").body
    return _Filled(node).visit(made)  # type: ignore[no-any-return]


class _Filled(ast.NodeTransformer):
    def __init__(self, node: ast.expr) -> None:
        self.node = node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.node if node.id == "it" else node


REWRITES: dict[str, Callable[[Program, Random], bool]] = {
    **{name: partial(_wrapped, form, name in _ANY_DIMENSIONS) for name, form in _OF_EXPRESSIONS.items()},
    **{name: partial(_behind_names, form) for name, form in _OF_NAMES.items()},
}
