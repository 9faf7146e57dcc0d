"""Tests of a name whose value is known."""

from __future__ import annotations

import pytest

from amp_migrate.facts.constant_tests import value_of_test


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
