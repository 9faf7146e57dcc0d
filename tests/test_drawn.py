"""Some of the programs that `python -m tests.drawn` draws, each way to choose a device in one layout, some idioms."""

from __future__ import annotations

import pytest

from tests.drawn.__main__ import outcome_of
from tests.drawn.devices import LAYOUTS
from tests.drawn.devices import outcome_of as outcome_of_device
from tests.drawn.idioms import LAYOUTS as IDIOM_LAYOUTS
from tests.drawn.idioms import idioms
from tests.drawn.idioms import outcome_of as outcome_of_idiom
from tests.drawn.ways import WAYS

SOME = idioms()[::8]


@pytest.mark.parametrize("seed", range(12))
def test_a_migrated_program_raises_nothing(seed):
    outcome, told = outcome_of(seed)
    assert outcome in ("alike", "differs", "no program"), told


@pytest.mark.parametrize("index", range(len(WAYS)), ids=[way.name for way in WAYS])
def test_mixed_precision_is_on_where_the_model_is_on_a_gpu(index):
    outcome, told = outcome_of_device(WAYS[index], [*LAYOUTS][index % len(LAYOUTS)])
    assert outcome == "right", told
    assert told != "nothing is said"


@pytest.mark.parametrize("index", range(len(SOME)), ids=[f"{one.field}, {one.name}" for one in SOME])
def test_an_idiom_has_the_loss_and_the_step_that_it_had(index):
    outcome, told = outcome_of_idiom(SOME[index], IDIOM_LAYOUTS[index % len(IDIOM_LAYOUTS)])
    assert outcome in ("right", "left alone"), told
    assert told != "nothing is said"
