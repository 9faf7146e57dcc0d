"""The table of operations: what it says of some of them, and that the installed torch agrees with it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from amp_migrate import models
from amp_migrate.models import Dtype
from amp_migrate.models.table import measured_with
from amp_migrate.plan.safety.precision import Precision, Precisions
from amp_migrate.plan.safety.repairs import Safety
from tests.fixture import ROOT
from tests.plain_scan import facts_of

HALF, SINGLE, DOUBLE, INTEGER, BOOLEAN = (
    {one} for one in (Dtype.HALF, Dtype.SINGLE, Dtype.DOUBLE, Dtype.INTEGER, Dtype.BOOLEAN)
)
TABLE = Path(models.__file__).parent / "torch.json"
SAMPLE = 40


def asked(name: str, *given: set[Dtype], autocast: bool = True, zero_dim: tuple[int, ...] = ()) -> set[Dtype]:
    row = models.function(name) or models.layer(name)
    assert row is not None, name
    return set(row.dtype([frozenset(one) for one in given], autocast, zero_dim))


@pytest.mark.parametrize(
    ("name", "given", "inside", "outside"),
    [
        ("torch.mm", [SINGLE, SINGLE], HALF, SINGLE),
        ("torch.mm", [HALF, SINGLE], HALF, set()),
        ("torch.mm", [DOUBLE, DOUBLE], DOUBLE, DOUBLE),
        ("torch.exp", [HALF], SINGLE, HALF),
        ("torch.exp", [DOUBLE], DOUBLE, DOUBLE),
        ("torch.exp", [INTEGER], SINGLE, SINGLE),
        ("torch.mul", [HALF, DOUBLE], DOUBLE, DOUBLE),
        ("torch.mul", [HALF | SINGLE, HALF], HALF | SINGLE, HALF | SINGLE),
        ("torch.sum", [BOOLEAN], INTEGER, INTEGER),
        ("torch.dot", [HALF, SINGLE], SINGLE, set()),
        ("torch.inner", [SINGLE, SINGLE], SINGLE, SINGLE),
        ("torch.nn.PReLU", [SINGLE], HALF, SINGLE),
        ("torch.nn.Linear", [HALF], HALF, set()),
        ("torch.nn.functional.relu", [HALF], HALF, HALF),
        ("torch.linalg.vector_norm", [HALF], SINGLE, HALF),
        ("torch.nn.functional.binary_cross_entropy", [SINGLE, SINGLE], set(), SINGLE),
    ],
)
def test_dtypes(name: str, given: list[set[Dtype]], inside: set[Dtype], outside: set[Dtype]) -> None:
    assert asked(name, *given) == inside
    assert asked(name, *given, autocast=False) == outside


def test_a_tensor_without_dimensions_leaves_half_as_it_is() -> None:
    assert asked("torch.mul", HALF, SINGLE, zero_dim=(1,)) == HALF
    assert asked("torch.mul", HALF, DOUBLE, zero_dim=(1,)) == HALF
    assert asked("torch.mul", INTEGER, SINGLE, zero_dim=(1,)) == SINGLE


def test_numbers_of_python() -> None:
    assert asked("torch.add", HALF, {Dtype.NUMBER}) == HALF
    assert asked("torch.add", INTEGER, {Dtype.NUMBER}) == INTEGER | SINGLE


def test_names_that_moved() -> None:
    assert models.layer("torch.nn.modules.linear.Linear") is models.layer("torch.nn.Linear")
    assert models.function("torch.functional.einsum") is models.function("torch.einsum")
    assert models.function("torch.nn.Linear").kind == "layer"  # type: ignore[union-attr]
    assert models.layer("torch.mm") is None
    assert models.function("numpy.exp") is None


def test_a_project_says_what_its_own_operations_return() -> None:
    models.configure([("pkg.norm", "single")])
    assert asked("pkg.norm", HALF) == SINGLE
    models.configure([])
    assert models.function("pkg.norm") is None


@pytest.mark.parametrize("expression", ["pkg.norm(h)", "self.norm(h)"])
def test_what_a_project_says_counts(expression: str) -> None:
    code = f"""
        import pkg, torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = pkg.norm(4)

            def forward(self, a, b):
                h = torch.mm(a, b)
                found = {expression}
        """
    assert precision_of_the_last(code) is Precision.UNKNOWN
    models.configure([("pkg.norm", "single")])
    try:
        assert precision_of_the_last(code) is Precision.SINGLE
    finally:
        models.configure([])


def precision_of_the_last(code: str) -> Precision:
    facts = facts_of(code)
    (last,) = (
        one.node
        for one in facts.tree.all_statements()
        if "found" in facts.text(one.node) and isinstance(one.node, cst.Assign)
    )
    return Precisions(facts, Safety()).of(last.value)


def test_rows_written_by_hand_have_a_source() -> None:
    rows = json.loads((TABLE.parent / "written.json").read_text(encoding="utf-8"))["rows"]
    assert [name for name, row in rows.items() if not row.get("source")] == []


def test_the_table_loads_without_torch() -> None:
    code = (
        "import sys; from amp_migrate import models; models.names(lambda row: True); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _seed() -> str:
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def test_the_installed_torch_agrees_with_a_sample_of_the_rows() -> None:
    """Other rows with each commit; `python -m tests.operations check` measures all."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="torch's sample inputs need it")
    installed = torch.__version__.split(".")[:2]
    if installed != measured_with().split(".")[:2]:
        pytest.skip(f"the table is of torch {measured_with()}, not of {torch.__version__}")
    rows: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    names = random.Random(_seed()).sample(sorted(rows), SAMPLE)
    told = subprocess.run(
        [sys.executable, "-m", "tests.operations", "check", *names], cwd=ROOT.parent, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr
