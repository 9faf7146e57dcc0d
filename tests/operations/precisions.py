"""Asks `Precisions` of each operation what it returns for half and for float32, and compares with the table's answers.

The program that is asked about calls each operation once with a half tensor and once with a float32 tensor:

def forward(self, a, b):
    h = torch.mm(a, b)
    s = torch.zeros(3, 3)
    q0 = torch.exp(h)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.models import Operation
from amp_migrate.models.dtypes import Dtype, Given
from amp_migrate.models.rules import SETS
from amp_migrate.models.table import rows
from amp_migrate.plan.safety.precision import Precision, Precisions, precision
from amp_migrate.plan.safety.repairs import Safety
from tests.plain_scan import facts_of

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""
_FORWARD = """
    def forward(self, a, b):
        h = torch.mm(a, b)
        s = torch.zeros(3, 3)
"""
_INPUTS = {"h": Dtype.HALF, "s": Dtype.SINGLE}
_TRUTHS = {
    Dtype.HALF: Precision.HALF,
    Dtype.SINGLE: Precision.SINGLE,
    Dtype.NUMBER: Precision.NUMBER,
    **dict.fromkeys((Dtype.DOUBLE, Dtype.INTEGER, Dtype.BOOLEAN, Dtype.COMPLEX), Precision.OTHER),
}


@dataclass(frozen=True)
class Question:
    """An operation, and the name of its inputs."""

    row: Operation
    given: str

    @property
    def truth(self) -> Precision | None:
        """None where the operation raises, or returns no tensor and no number."""
        if self.row.result in SETS:
            return precision(SETS[self.row.result])
        result = self.row.result_of([Given(_INPUTS[self.given])] * max(self.row.inputs, 1), autocast=True)
        return _TRUTHS[result] if result is not None else None


def questions() -> Iterator[Question]:
    """Two for each measured row that is no dunder."""
    for row in rows():
        if row.name.startswith("torch.") and not row.bare.startswith("__") and not row.by_argument:
            yield from (Question(row, given) for given in _INPUTS)


def answers() -> list[tuple[Question, Precision]]:
    """What Precisions says to each."""
    asked = list(questions())
    found = facts_of(_program(asked))
    precisions = Precisions(found, Safety())
    told: list[tuple[Question, Precision]] = []
    for statement in found.tree.all_statements():
        node = statement.node
        name = node.targets[0].target if isinstance(node, cst.Assign) else None
        if isinstance(name, cst.Name) and name.value.startswith("q") and isinstance(node, cst.Assign):
            told.append((asked[int(name.value[1:])], precisions.of(node.value)))
    return told


def _program(asked: list[Question]) -> str:
    made, used = [], []
    for number, one in enumerate(asked):
        given = [one.given] * max(one.row.inputs, 1)
        if one.row.kind == "layer":
            made.append(f"        self.layer{number} = nn.{one.row.bare}(4)")
            call = f"self.layer{number}({', '.join(given[: one.row.inputs] or given)})"
        elif one.row.kind == "property":
            call = f"{one.given}.{one.row.bare}"
        elif one.row.kind == "method":
            call = f"{one.given}.{one.row.bare}({', '.join(given[1:])})"
        else:
            call = f"{one.row.name}({', '.join(given[: one.row.inputs])})"
        used.append(f"        q{number} = {call}")
    return "\n".join([_HEAD.strip("\n"), *made, _FORWARD.strip("\n"), *used, ""])


def report() -> list[str]:
    """Lines: how many are right, unknown and wrong, and which."""
    counts: Counter[str] = Counter()
    listed: dict[str, list[str]] = defaultdict(list)
    for question, said in answers():
        truth = question.truth
        text = f"{question.row.name}({question.given})"
        if truth is None:
            counts["raises, not counted"] += 1
        elif said is truth:
            counts["right"] += 1
        elif said is Precision.UNKNOWN or (said is Precision.FLOATING and truth in (Precision.HALF, Precision.SINGLE)):
            counts["unknown" if said is Precision.UNKNOWN else "half or float32, not which"] += 1
            listed[f"{said.name}, is {truth.name}"].append(text)
        else:
            counts["wrong"] += 1
            listed[f"wrong: {said.name}, is {truth.name}"].append(text)
    total = sum(number for name, number in counts.items() if not name.startswith("raises"))
    lines = [f"{name}: {', '.join(texts)}" for name, texts in sorted(listed.items())]
    return [
        *lines,
        f"{total} questions",
        *(f"{name}: {number} ({number / total:.1%})" for name, number in counts.items()),
    ]
