"""Whether a mutant means the same as its fixture: both are run, before any migration, and compared by `verify`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify
from tests.metamorphic.campaign import sources_of
from tests.metamorphic.program import ALONE, every_fixture, program_of
from tests.unit_fixture import Tree, UnitFixture, write_tree


def executed(fixture: str, rewrite: str, seed: int, pool: Pool) -> str | None:
    """What running a fixture and its mutant came to; None where there is nothing to rewrite or to run."""
    source = every_fixture()[fixture]
    mutant = sources_of(fixture, rewrite, seed)
    if isinstance(source, UnitFixture):
        run = next(iter(source.runs), None)
        script, arguments = (run.script, run.arguments) if run is not None else ("", ())
    else:
        script, arguments = ALONE, source.arguments + source.guard
    if mutant is None or not script:
        return None
    program = program_of(source)
    unchanged = {**program.others, **program.sources}
    found = _compared(unchanged, mutant, script, arguments, pool)
    # What `verify` says about a program that trains in half precision by hand, it says about the fixture as well.
    is_same = found == "same" or found == _compared(unchanged, unchanged, script, arguments, pool)
    return "same" if is_same else found


def _compared(one: Tree, other: Tree, script: str, arguments: tuple[str, ...], pool: Pool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        outputs = root / "outputs"
        outputs.mkdir()
        trees = {"original": one, "migrated": other}
        sides = [_laid_out(root / title, title, tree, script, arguments) for title, tree in trees.items()]
        comparison = verify(*sides, Settings(time_limit=120.0), pool, outputs, lambda name, steps: None)
    reason = comparison.reason.replace(folder, "")
    return "same" if comparison.verdict == "same" else f"{comparison.verdict}: {reason}"


def _laid_out(root: Path, title: str, tree: Tree, script: str, arguments: tuple[str, ...]) -> Program:
    write_tree(root, tree)
    return Program(title, root / script, arguments, root, {})
