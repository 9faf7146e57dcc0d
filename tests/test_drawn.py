"""Some of the programs that `python -m tests.drawn` draws."""

from __future__ import annotations

import pytest

from tests.drawn.__main__ import outcome_of


@pytest.mark.parametrize("seed", range(12))
def test_a_migrated_program_raises_nothing(seed):
    outcome, told = outcome_of(seed)
    assert outcome in ("alike", "differs", "no program"), told
