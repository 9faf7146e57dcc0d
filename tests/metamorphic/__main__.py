"""`python -m tests.metamorphic`: migrate the mutants of our fixtures, and print what came of them by rewrite."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from amp_migrate.processes import usable_cpus
from tests.metamorphic.campaign import Pair, listed, pairs, run, sampled
from tests.metamorphic.known import is_known, stale, told
from tests.metamorphic.outcome import EXPECTED, TIME_LIMIT
from tests.metamorphic.table import table
from tests.unit_fixture import write_tree


@click.command()
@click.option("--forms", default="", help="Folders of fixtures, as apex,units; by default all.")
@click.option("--rewrites", default="", help="Parts of the names of rewrites; by default all.")
@click.option("--fixtures", default="", help="Parts of the names of fixtures; by default all.")
@click.option("--listed", "of_listed", is_flag=True, help="One fixture in a dozen, whose differences are all known.")
@click.option("--sample", default=0, help="How many mutants to draw; by default all.")
@click.option("--seed", default=0, show_default=True, help="What is drawn, and where rewrites draw themselves.")
@click.option("--limit", default=TIME_LIMIT, show_default=True, help="Seconds for one migration.")
@click.option("--workers", default=usable_cpus(), show_default=True)
@click.option("--every", is_flag=True, help="Names the differences that are known, too.")
@click.option("--execute", is_flag=True, help="Runs fixtures and mutants instead, to see that they mean the same.")
@click.option("--keep", type=click.Path(path_type=Path), help="Writes the mutants that are named into this folder.")
def main(
    forms: str,
    rewrites: str,
    fixtures: str,
    of_listed: bool,
    sample: int,
    seed: int,
    limit: int,
    workers: int,
    every: bool,
    execute: bool,
    keep: Path | None,
) -> None:
    """Migrate the mutants of our fixtures. Exits with 1 where one is decided in another way and `known.toml` does not
    say so, hangs, raises, or ends in an internal error.
    """
    chosen = pairs(_words(forms), _words(rewrites), _words(fixtures))
    every_listed = {*listed()} if of_listed else {*chosen}
    chosen = [pair for pair in chosen if pair in every_listed]
    chosen = sampled(chosen, sample, seed) if sample else chosen
    if execute:
        sys.exit(_executed(chosen, seed))
    mutants = []
    for one in run(chosen, seed, workers, limit):
        mutants.append(dataclasses.replace(one, sources={}))
        if one.kind not in EXPECTED and (every or not is_known(one)):
            click.echo(f"{one.rewrite}, {one.fixture}\n    {told(one)}\n    {'; '.join(one.said[:3])}")
            if keep is not None:
                _write(keep, one.rewrite, one.fixture, one.sources)
    for known in stale(mutants):
        click.echo(f"stale in known.toml: {known.rewrite}: {known.differs}: {' '.join(known.fixtures)}")
    click.echo("\n".join(table(mutants)))
    sys.exit(not all(map(is_known, mutants)))


def _executed(chosen: list[Pair], seed: int) -> bool:
    """True where a mutant is another program than its fixture."""
    from amp_migrate.verify.pool import Pool
    from tests.metamorphic.execution import executed

    with Pool("cpu") as pool:
        found = {pair: executed(*pair, seed, pool) for pair in chosen}
    others = {pair: result for pair, result in found.items() if result not in (None, "same")}
    for (fixture, rewrite), result in others.items():
        click.echo(f"{rewrite}, {fixture}\n    {result}")
    click.echo(f"{sum(one is not None for one in found.values())} run, {len(others)} not the same")
    return bool(others)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _write(folder: Path, rewrite: str, fixture: str, sources: dict[str, bytes]) -> None:
    name = "".join(letter if letter.isalnum() else "_" for letter in f"{rewrite} {fixture}")
    write_tree(folder / name, sources)


if __name__ == "__main__":
    main()
