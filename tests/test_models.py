"""What torch's operations do is asked of `models`: what the queries find, and that no other module lists names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import amp_migrate
from amp_migrate import models
from amp_migrate.models import queries, table

PACKAGE = Path(amp_migrate.__file__).parent
MOST = 2  # more names than these are a list
# The table itself; what is run and compared operation by operation; pages about operations.
_OTHERS = ("models/", "verify/", "rules/")
# What a module of Python, a container or a string has as well.
_OF_PYTHON = frozenset(dir(builtins)).union(*(dir(one) for one in (str, list, dict, set)))


def _operations() -> frozenset[str]:
    """The bare names of torch's functions and layers, and of a tensor's methods; properties and classes of tensors
    are named by whoever reads them.
    """
    rows = [row for row in table.rows() if row.kind != "property"]
    return frozenset(row.bare for row in rows if row.kind == "layer" or not row.bare[:1].isupper()) - _OF_PYTHON


OPERATIONS = _operations()

# Words in the names of a script's own functions; by module, how many such lists.
ALLOWED = {
    "plan/regions/forwards.py": 1,  # what functions are called that run no model: `log`, `histogram`, `save`
    "plan/roles.py": 1,  # how methods begin that run no forward: `set_...`, `log...`
    "plan/steps/events.py": 1,  # what speaks of gradients: `clip_...`, `..._norm`
}


def _words(node: ast.AST) -> list[str]:
    """The strings in a collection: `("mul", "div")`, `{"mul": 1}`, `"mul div".split()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
            return text.split()
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(keys=parts):
            return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return []


def _lists(source: str) -> Iterator[tuple[int, list[str]]]:
    """The lists of operations in a module: the line of each, and the operations in it."""
    for node in ast.walk(ast.parse(source)):
        named = [word for word in _words(node) if word in OPERATIONS or ("." in word and models.function(word))]
        if len(named) > MOST:
            yield node.lineno, named  # type: ignore[attr-defined]


def _modules() -> list[str]:
    found = (path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    return [name for name in found if not name.startswith(_OTHERS)]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('_SHAPES = frozenset("view reshape squeeze".split())', 1),
        ('_SUMS = ("torch.sum", "torch.mean", "torch.nn.functional.softmax")', 1),
        ('_LAYERS = {"Linear": 1, "Conv2d": 2, "LSTM": 3}', 1),
        ('if name in {"relu", "sigmoid", "tanh"}: pass', 1),
        ('_PAIR = ("mul_", "div_")', 0),
        ('_PYTHON = "len zip split max format index".split()', 0),
        ('_WORDS = ["zero_grad", "step", "backward_pass"]', 0),
    ],
)
def test_what_a_list_of_operations_is(source: str, count: int) -> None:
    assert len(list(_lists(source))) == count


@pytest.mark.parametrize("module", _modules())
def test_no_module_lists_operations(module: str) -> None:
    found = [f"{module}:{line}: {' '.join(named)}" for line, named in _lists((PACKAGE / module).read_text("utf-8"))]
    assert len(found) <= ALLOWED.get(module, 0), "ask models, by a query or a trait:\n" + "\n".join(found)


def test_what_is_allowed_is_there() -> None:
    assert {one: len(list(_lists((PACKAGE / one).read_text("utf-8")))) for one in ALLOWED} == ALLOWED


@pytest.mark.parametrize(
    ("query", "held", "not_held"),
    [
        (queries.keeps_numbers, "view permute clone cuda split", "nan_to_num dropout relu float sum data"),
        (queries.copies, "detach clone float half to", "view cuda relu"),
        (queries.may_be_same, "view float to contiguous data", "clone relu"),
        (queries.keeps_dtype, "uniform_ view relu", "to float argmax max softmax"),
        (queries.scales, "mul div_ true_divide multiply_", "add matmul pow"),
        (queries.is_linear_in_one, "neg flip tril", "nan_to_num dropout abs clamp to mul"),
        (queries.creates, "zeros randn tensor zeros_like", "clone is_tensor relu"),
        (queries.counts, "argmax long eq isnan", "max size sign"),
        (queries.describes, "size numel is_cuda is_tensor", "item data T max"),
        (queries.cuts_gradient, "detach item argmax tolist", "type to clone shape"),
        (queries.updates, "add_ copy_ addcmul_", "zero_ add normal_"),
    ],
)
def test_queries(query: Callable[[models.Operation], bool], held: str, not_held: str) -> None:
    names = models.names(query)
    assert [one for one in held.split() if one not in names] == []
    assert [one for one in not_held.split() if one in names] == []
