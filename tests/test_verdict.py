"""The comparison itself: it names each mistake, and raises no false alarm."""

from __future__ import annotations

import pytest

from amp_migrate.verify.pool import Pool
from amp_migrate.verify.record import Backward, Record, Step
from amp_migrate.verify.verdict import why_not_comparable
from tests.fixture import FIXTURES, Fixture
from tests.mutations import MUTATIONS, Mutation
from tests.seeds import SEEDS, run_seeded
from tests.test_execution import run_both

# Accumulation, evaluation, a GAN, a scale that backs off; and those that raised a false alarm once: O2 with batch norm,
# a list of optimizers of which one overflows, Adam with gradients near 0.
_SEEDED = (
    "apex/accumulation_window",
    "apex/evaluation_no_grad",
    "apex/level_from_args",
    "apex/optimizer_list",
    "apex/scale_backs_off",
    "apex/self_targets",
    "apex/two_optimizers_gan",
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "_"))
def test_mistake_is_named(mutation: Mutation, pool: Pool, tmp_path):
    fixture = mutation.fixture
    comparison = run_both(fixture.before, mutation.apply(), fixture.arguments, pool, tmp_path, **mutation.settings)
    assert (comparison.verdict, mutation.cause in comparison.reason) == ("different", True), comparison.reason


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fixture", [one for one in FIXTURES if one.name in _SEEDED], ids=lambda fixture: fixture.name)
def test_no_false_alarm(fixture: Fixture, seed: int, pool: Pool, tmp_path):
    comparison = run_seeded(fixture, seed, pool, tmp_path)
    assert comparison.verdict == "same", comparison.reason


def test_resumed_script_goes_on_as_the_original(pool: Pool, tmp_path):
    fixture = next(one for one in FIXTURES if one.name == "apex/resume_after_overflow")
    comparison = run_both(fixture.before, fixture.expected, (), pool, tmp_path, resume_args=("--resume", "last.pt"))
    assert comparison.verdict == "same", comparison.reason
    restored = next(line for line in comparison.lines() if line.check == "restored loss scale")
    assert (restored.number, restored.threshold) == ("16384", "= 16384")


def test_an_original_without_any_update_proves_nothing():
    skipped = Step(0, False, None, 65536.0, 0, 0.1, 1, 1)
    reason = why_not_comparable(
        Record(backwards=[Backward(1.0, 65536.0, 0, False, "float32", 0)], steps=[skipped]), Record()
    )
    assert reason is not None and "skipped every optimizer step" in reason
