"""Scripts that share nothing but their folder: each comes out as it does alone.

They are what the best-known articles on Apex and on native AMP show, in words of our own.
"""

from __future__ import annotations

from pathlib import Path

from amp_migrate import Options, migrate_project
from tests.fixture import FIXTURES

_SHOWN_BY_ARTICLES = (
    "apex/batch_norm_in_half_by_apply",
    "apex/data_parallel_after_initialize",
    "apex/distributed_with_star_imports",
    "apex/gan_with_three_losses",
    "apex/options_for_every_argument",
    "apex/prefetcher_in_half",
    "apex/resumed_in_one_script",
    "apex/solver_saves_and_loads",
    "apex/typo_level_01",
    "apex/typo_scale_loss_keyword",
    "half/loop_of_the_module",
    "half/wrapped_after_the_cast",
    "native/nothing_to_report",
    "plain/data_parallel_of_a_function",
    "plain/sigmoid_of_a_container_squeezed",
    "plain/untouched_loop_on_the_cpu",
)


def test_each_comes_out_as_it_does_alone(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    expected = {}
    for fixture in FIXTURES:
        if fixture.name in _SHOWN_BY_ARTICLES:
            path = tmp_path / f"{fixture.folder.name}.py"
            path.write_bytes(fixture.before)
            expected[str(path)] = (fixture.status, fixture.expected.decode(), fixture.findings)
    results = migrate_project([tmp_path], Options())
    found = {
        result.path: (
            result.status,
            result.output.decode(),
            [f"{one.line} {one.code} {one.message}" for one in result.findings],
        )
        for result in results
        if result.path.endswith(".py")
    }
    assert len(expected) == len(_SHOWN_BY_ARTICLES)
    assert found == expected
