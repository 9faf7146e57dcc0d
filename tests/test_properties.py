"""What holds for every training script: generated ones, by the thousand where somebody asks for it.

AMP_MIGRATE_EXAMPLES=5000 pytest tests/test_properties.py -k migration    looks longer, and elsewhere each time
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from amp_migrate import Options, Result, migrate_source
from amp_migrate.check import check_module
from amp_migrate.cli.migrate import migrate
from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse
from amp_migrate.verify.pool import Pool
from tests.generate import script
from tests.generate.shape import draw
from tests.test_execution import run_both

_OPTIONS = Options(api="torch.amp")
_ASKED = os.environ.get("AMP_MIGRATE_EXAMPLES")
_RANDOM = st.randoms(use_true_random=False)
_HARMLESS = "clip of scaled gradients"  # kept from the source, with a finding of its own
# Of what these say, `verify` sees a difference: both ways of training are right, or Apex's was not.
_TRAINS_OTHERWISE = frozenset("AMP101 AMP106 AMP160 AMP161 AMP163 AMP175".split())


def _examples(count: int) -> settings:
    """So many examples, the same ones in every run unless more are asked for."""
    return settings(
        max_examples=int(_ASKED or count),
        derandomize=_ASKED is None,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@_examples(40)
@given(_RANDOM)
def test_the_generator_writes_python(random):
    ast.parse(script(random))


@_examples(25)
@given(_RANDOM)
def test_a_migration_is_whole_or_refused(random):
    source = script(random)
    result = migrate_source(source, _OPTIONS)
    if result.status != "migrated":
        assert result.output == source
        # A plain loop that is not understood at all is passed over; what asks for apex has to be told the reason.
        assert (result.status, bool(result.findings)) == ("left", True) or b"apex" not in source, result.findings
        return
    ast.parse(result.output)
    after, before = Facts.of_module(parse(result.output)), Facts.of_module(parse(source))
    assert [one for one in check_module(after, before) if one.kind != _HARMLESS] == []
    assert migrate_source(result.output, _OPTIONS).output == result.output
    assert result.output.endswith(b"\n") == source.endswith(b"\n")
    assert result.output.count(b"\r\n") == (result.output.count(b"\n") if b"\r\n" in source else 0)
    _check_comments(source, result)


def _check_comments(source: bytes, result: Result) -> None:
    """A comment goes with the statement that it is about, and never alone."""
    lines = source.decode("utf-8-sig").splitlines()
    kept = {line.partition("#")[0].strip() for line in result.output.decode("utf-8-sig").splitlines()}
    codes = [line.partition("#")[0].strip() for line in lines]
    lost = set(_comments(source)) - set(_comments(result.output))
    for comment in lost:
        at = next(number for number, line in enumerate(lines) if line.rstrip().endswith(comment))
        about = next((code for code in codes[at:] if code), "")
        assert about not in kept or codes.count(about) > 1 or about in ("else:", ")"), comment


def _comments(source: bytes) -> list[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return [token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT]


@_examples(5)
@given(_RANDOM)
def test_diff_check_and_write_agree(tmp_path_factory, random):
    folder = tmp_path_factory.mktemp("agree")
    file = folder / "train.py"
    source = script(random)
    file.write_bytes(source)
    arguments = [str(folder), "--select", "AMP0"]  # plain loops, too: --check does not take them by itself
    shown = CliRunner().invoke(migrate, arguments)
    checked = CliRunner().invoke(migrate, [*arguments, "--check"])
    assert file.read_bytes() == source
    written = CliRunner().invoke(migrate, [*arguments, "--write"])
    changes = file.read_bytes() != source
    assert (shown.exit_code, written.exit_code) == (0, 0)
    assert checked.exit_code == int(changes)
    assert bool(shown.stdout_bytes) == changes
    added = [line[1:] for line in shown.stdout_bytes.split(b"\n") if line.startswith(b"+") and line[:3] != b"+++"]
    assert all(line.rstrip(b"\r") in file.read_bytes() for line in added)


@pytest.mark.parametrize("seed", [3, 10, 21, 27])
def test_a_sample_trains_the_same(seed: int, pool: Pool, tmp_path: Path):
    shape = draw(Random(seed))
    source = script(Random(seed))
    result = migrate_source(source, _OPTIONS)
    assert result.status == "migrated"
    assert not {finding.code for finding in result.findings} & _TRAINS_OTHERWISE
    mixed = ("--fp16",) if "fp16" in shape.guard or shape.guard == "use_amp" else ()
    comparison = run_both(source, result.output, mixed, pool, tmp_path)
    assert comparison.verdict == "same", comparison.reason
