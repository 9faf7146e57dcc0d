"""The comparison itself: it names each mistake, and raises no false alarm."""

from __future__ import annotations

import pytest

from amp_migrate.verify.by_hand import without_scales
from amp_migrate.verify.form import form_of
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.record import Backward, Record, Scaler, Step
from amp_migrate.verify.verdict import why_not_comparable
from tests.fixture import FIXTURES, PAIRS, Fixture
from tests.form_mutations import FORM_MUTATIONS
from tests.mutations import MUTATIONS, Mutation, run_mutation
from tests.seeds import SEEDS, run_seeded
from tests.test_execution import run_both

# Accumulation, evaluation, a GAN, a scale that backs off; and those that raised a false alarm once: O2 with batch norm,
# a list of optimizers of which one overflows, Adam with gradients near 0. Of the other forms, those that come nearest.
_SEEDED = (
    "apex/accumulation_window",
    "apex/evaluation_no_grad",
    "apex/level_from_args",
    "apex/optimizer_list",
    "apex/scale_backs_off",
    "apex/self_targets",
    "apex/two_optimizers_gan",
    "fp16_utils/clip_master_grads",
    "half/cnn_batch_norm_float",
    "plain/gradient_penalty",
)


@pytest.mark.parametrize("mutation", [*MUTATIONS, *FORM_MUTATIONS], ids=lambda one: one.name.replace(" ", "_"))
def test_mistake_is_named(mutation: Mutation, pool: Pool, tmp_path):
    comparison = run_mutation(mutation, pool, tmp_path)
    assert (comparison.verdict, mutation.cause in comparison.reason) == ("different", True), comparison.reason


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "fixture", [one for one in (*FIXTURES, *PAIRS) if one.name in _SEEDED], ids=lambda fixture: fixture.name
)
def test_no_false_alarm(fixture: Fixture, seed: int, pool: Pool, tmp_path):
    comparison = run_seeded(fixture, seed, pool, tmp_path)
    assert comparison.verdict == "same", comparison.reason


def test_resumed_script_goes_on_as_the_original(pool: Pool, tmp_path):
    fixture = next(one for one in (*FIXTURES, *PAIRS) if one.name == "apex/resume_after_overflow")
    comparison = run_both(fixture.before, fixture.expected, (), pool, tmp_path, resume_args=("--resume", "last.pt"))
    assert comparison.verdict == "same", comparison.reason
    restored = next(line for line in comparison.lines() if line.check == "restored loss scale")
    assert (restored.number, restored.threshold) == ("16384", "= 16384")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("apex/arithmetic_loss", "patched by Apex"),
        ("apex/master_weights_and_cast_outputs", "cast by Apex"),
        ("apex/already_native", "native"),
        ("pairs/wrapped_optimizer", "patched by Apex"),
        ("fp16_utils/network_to_half_bn", "FP16_Optimizer"),
        ("fp16_utils/fused_adam_when_half", "FP16_Optimizer"),
        ("fp16_utils/master_params_loop", "half by hand"),
        ("half/cnn_batch_norm_float", "half by hand"),
        ("plain/accumulation", "float32"),
    ],
)
def test_source_form_is_what_ran(name: str, form: str, pool: Pool, tmp_path):
    fixture = next(one for one in (*FIXTURES, *PAIRS) if one.name == name)
    arguments = fixture.arguments + fixture.guard
    comparison = run_both(fixture.before, fixture.expected, arguments, pool, tmp_path, steps=2)
    assert form_of(comparison.runs["original"]) == form


def test_loss_scale_and_skips_by_hand_are_seen(pool: Pool, tmp_path):
    """A loop of one's own leaves its step out where gradients overflow; nothing tells the recorder."""
    fixture = next(one for one in (*FIXTURES, *PAIRS) if one.name == "pairs/own_scaler_skips")
    comparison = run_both(fixture.before, fixture.expected, (), pool, tmp_path)
    original, migrated = comparison.runs["original"], comparison.runs["migrated"]
    assert original.scalers == [Scaler("by hand", 2.0**15, 2.0**13)]
    assert [step.applied for step in original.steps] == [number not in (2, 7) for number in range(12)]
    assert [step.applied for step in migrated.steps] == [step.applied for step in original.steps]
    assert original.backwards[0].loss == pytest.approx(migrated.backwards[0].loss, rel=1e-3)
    assert "by 32768 by hand" in comparison.notes[0]


@pytest.mark.parametrize(
    ("factor", "constant", "scale"),
    [(512.0, 1.0, 512.0), (5120.0, 10.0, 512.0), (10.0, 10.0, None), (1.0001, 1.0, None), (1.0, 4.0, None)],
)
def test_what_counts_as_a_scale_by_hand(factor: float, constant: float, scale: float | None):
    original = Record(backwards=[Backward(6144.0, None, None, False, "float32", 0, factor)])
    found = without_scales(original, [constant])
    assert (found.backwards[0].loss_scale, found.backwards[0].loss) == (scale, 6144.0 / (scale or 1.0))


def test_a_weight_of_the_loss_is_no_loss_scale(pool: Pool, tmp_path):
    fixture = next(one for one in (*FIXTURES, *PAIRS) if one.name == "plain/attention_mask")
    loss = b"batch[:, 1:].reshape(-1))"
    weighted = [content.replace(loss, loss + b" * 8.0") for content in (fixture.before, fixture.expected)]
    assert all(b"* 8.0" in content for content in weighted)
    comparison = run_both(*weighted, (), pool, tmp_path)
    assert (comparison.verdict, comparison.runs["original"].scalers) == ("same", []), comparison.reason


def test_an_original_without_any_update_proves_nothing():
    skipped = Step(0, False, None, 65536.0, 0, 0.1, 1, 1)
    reason = why_not_comparable(
        Record(backwards=[Backward(1.0, 65536.0, 0, False, "float32", 0)], steps=[skipped]), Record()
    )
    assert reason is not None and "skipped every optimizer step" in reason
