"""Tests of a name whose value is known."""

from __future__ import annotations

import pytest

from amp_migrate.facts.constant_tests import value_of_test, values_where


@pytest.mark.parametrize(
    ("test", "value", "holds"),
    [
        ("math.isfinite(norm)", -1, True),
        ("math.isfinite(norm)", float("inf"), False),
        ("not math.isnan(norm)", 0.0, True),
        ("norm is None", None, True),
        ("norm > 0", -1, False),
        ("norm > -2", -1, True),
        ("norm and norm != 'off'", "on", True),
        ("norm or norm == 0", 0, True),
        ("norm > limit", -1, None),
        ("norm > 0", None, None),
        ("check(norm)", -1, None),
        ("np.log(norm)", -1, None),
        ("math.isfinite(norm)", None, None),
    ],
)
def test_value_of_test(test, value, holds):
    assert value_of_test(test, "norm", value) is holds


@pytest.mark.parametrize(
    ("test", "holds", "values"),
    [
        ("opt.task == 'depth'", True, ("opt.task", ("depth",))),
        ("'depth' == opt.task", True, ("opt.task", ("depth",))),
        ("opt.task != 'depth'", False, ("opt.task", ("depth",))),
        ("not opt.task != 'depth'", True, ("opt.task", ("depth",))),
        ("cfg['task'] in ('depth', 'normal')", True, ("cfg['task']", ("depth", "normal"))),
        ("task == 'depth' or task == 'normal'", True, ("task", ("depth", "normal"))),
        ("stage is None", True, ("stage", (None,))),
        ("opt.task == 'depth'", False, None),
        ("task == 'depth' or kind == 'normal'", True, None),
        ("task == 'depth' or flag", True, None),
        ("task in 'depth'", True, None),
        ("task == other", True, None),
        ("next(tasks) == 'depth'", True, None),
    ],
)
def test_values_where(test, holds, values):
    assert values_where(test, holds) == values


def test_equal_is_not_identical():
    assert value_of_test("x is True", "x", 1) is None
    assert value_of_test("x is not None", "x", 1) is True
    assert value_of_test("x in (0, 1)", "x", True) is True
