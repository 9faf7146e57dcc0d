"""`getattr(x, "name")` is the attribute `x.name` for all who read a file, and nobody who writes one notices."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from amp_migrate import Options, migrate_source
from amp_migrate.files.parse import parse
from amp_migrate.files.syntax import parsed
from amp_migrate.plain_attributes import bare, parentheses

READ = [
    "getattr(x, 'name')",
    'getattr( x ,\t"name" , )',
    "(getattr(x, r'name'))",
    "getattr(getattr(x, 'one'), 'name')",
    "getattr(f(x)[0], 'name')",
]
LEFT = [
    "getattr(x, 'name', None)",
    "getattr(x, name)",
    "getattr(x, f'name')",
    "getattr(x, b'name')",
    "getattr(x, 'two words')",
    "getattr(x, 'class')",
    "getattr(x, '__name')",
    "getattr(*x, 'name')",
    "getattr(x)",
    "tools.getattr(x, 'name')",
]
OTHER_MEANINGS = [
    "def getattr(x, name): ...",
    "from tools import getattr",
    "getattr = load",
    "print(map(getattr, x, y))",
]


def _expression(source: str) -> cst.BaseExpression:
    (line,) = parse(source.encode()).body
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
    return line.body[0].value


@pytest.mark.parametrize("source", READ)
def test_an_attribute_that_is_written_as_it_was(source):
    module = parse(source.encode())
    node = _expression(source)
    assert isinstance(node, cst.Attribute) and node.attr.value == "name"
    assert module.code == source
    assert module.visit(cst.CSTTransformer()).code == source  # type: ignore[union-attr]
    assert module.deep_clone().code == source


@pytest.mark.parametrize("source", READ)
def test_the_same_for_pythons_own_trees(source):
    (line,) = parsed(source).body
    assert isinstance(line, ast.Expr) and isinstance(line.value, ast.Attribute) and line.value.attr == "name"


@pytest.mark.parametrize("source", LEFT)
def test_other_calls_stay_calls(source):
    assert isinstance(_expression(source), cst.Call)
    (line,) = parsed(source).body
    assert isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)


@pytest.mark.parametrize("bound", OTHER_MEANINGS)
def test_another_meaning_of_getattr_is_respected(bound):
    source = f"{bound}\nvalue = getattr(x, 'name')\n"
    line = parse(source.encode()).body[-1]
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Assign)
    assert isinstance(line.body[0].value, cst.Call)
    last = parsed(source).body[-1]
    assert isinstance(last, ast.Assign) and isinstance(last.value, ast.Call)


def test_its_parenthesis_is_not_one_around_an_expression():
    node = _expression("((getattr(x, 'name')))")
    assert [len(one) for one in parentheses(node)] == [2, 2]
    assert cst.Module([]).code_for_node(bare(node)) == "getattr(x, 'name')"


LOOKED_UP = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(getattr(model, "parameters")(), lr=0.1)
for x in torch.randn(3, 8, 4).cuda():
    loss = getattr(nn.functional, "mse_loss")(getattr(model, "forward")(x), x[:, :2])
    optimizer.zero_grad()
    getattr(loss, "backward")()
    getattr(torch.nn.utils, "clip_grad_norm_")(model.parameters(), 1.0)
    getattr(optimizer, "step")()
"""


def test_a_training_whose_methods_are_looked_up_is_the_same_training():
    result = migrate_source(LOOKED_UP.encode(), Options())
    assert (result.status, result.findings) == ("migrated", ())
    assert result.output.decode().partition("lr=0.1)\n")[2] == (
        "scaler = torch.cuda.amp.GradScaler()\n"
        "for x in torch.randn(3, 8, 4).cuda():\n"
        "    with torch.cuda.amp.autocast():\n"
        '        loss = getattr(nn.functional, "mse_loss")(getattr(model, "forward")(x), x[:, :2])\n'
        "    optimizer.zero_grad()\n"
        "    scaler.scale(loss).backward()\n"
        "    scaler.unscale_(optimizer)\n"
        '    getattr(torch.nn.utils, "clip_grad_norm_")(model.parameters(), 1.0)\n'
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
    )
