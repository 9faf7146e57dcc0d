"""`python -m tests.metamorphic`: migrate the mutants of our fixtures, and print what came of them by rewrite."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from amp_migrate.processes import usable_cpus
from tests.metamorphic.campaign import pairs, run, sampled
from tests.metamorphic.outcome import BROKEN, EXPECTED, TIME_LIMIT
from tests.metamorphic.table import table
from tests.unit_fixture import write_tree


@click.command()
@click.option("--forms", default="", help="Folders of fixtures, as apex,units; by default all.")
@click.option("--rewrites", default="", help="Parts of the names of rewrites; by default all.")
@click.option("--fixtures", default="", help="Parts of the names of fixtures; by default all.")
@click.option("--sample", default=0, help="How many mutants to draw; by default all.")
@click.option("--seed", default=0, show_default=True, help="What is drawn, and where rewrites draw themselves.")
@click.option("--limit", default=TIME_LIMIT, show_default=True, help="Seconds for one migration.")
@click.option("--workers", default=usable_cpus(), show_default=True)
@click.option("--show", is_flag=True, help="Names all mutants that are not migrated.")
@click.option("--keep", type=click.Path(path_type=Path), help="Writes the mutants that are named into this folder.")
def main(
    forms: str,
    rewrites: str,
    fixtures: str,
    sample: int,
    seed: int,
    limit: int,
    workers: int,
    show: bool,
    keep: Path | None,
) -> None:
    """Migrate the mutants of our fixtures. Exits with 1 where one hangs, raises, or ends in an internal error."""
    every = pairs(_words(forms), _words(rewrites), _words(fixtures))
    chosen = sampled(every, sample, seed) if sample else every
    mutants = []
    for one in run(chosen, seed, workers, limit):
        mutants.append(dataclasses.replace(one, sources={}))
        if one.kind not in EXPECTED:
            click.echo(f"{one.kind}: {one.rewrite}, {one.fixture}")
            click.echo(f"    {'; '.join(one.differs)}")
            click.echo(f"    {'; '.join(one.said[:3])}")
            if keep is not None:
                _write(keep, one.rewrite, one.fixture, one.sources)
    click.echo("\n".join(table(mutants)))
    sys.exit(any(one.kind in BROKEN for one in mutants))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _write(folder: Path, rewrite: str, fixture: str, sources: dict[str, bytes]) -> None:
    name = "".join(letter if letter.isalnum() else "_" for letter in f"{rewrite} {fixture}")
    write_tree(folder / name, sources)


if __name__ == "__main__":
    main()
