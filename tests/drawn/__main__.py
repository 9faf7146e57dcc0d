"""Draw programs, migrate them, and name those that raise, or whose first loss is another one."""

from __future__ import annotations

import math
from collections import Counter

import click

from amp_migrate import Options, migrate_source
from tests.drawn.draw import program
from tests.drawn.run import CLOSE, run


@click.command()
@click.option("--first", default=0, show_default=True, help="The number of the first program.")
@click.option("--count", default=100, show_default=True, help="How many programs to draw.")
def main(first: int, count: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + count):
        outcome, told = outcome_of(seed)
        outcomes[outcome] += 1
        if told:
            click.echo(f"{seed}: {outcome}: {told}")
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    raise SystemExit(bool(outcomes["raises"]))


def outcome_of(seed: int) -> tuple[str, str]:
    """What comes of a program, in a word or two, with what is to be looked at."""
    source = program(seed)
    original = run(source)
    if original.error or not all(map(math.isfinite, original.losses)):
        return "no program", ""
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    if result.status != "migrated":
        return "left alone", "; ".join(f"{one.code} {one.message}" for one in result.findings)
    # The first steps of a scale of 65536 may be skipped.
    migrated = run(result.output.decode().replace('GradScaler("cuda")', 'GradScaler("cuda", init_scale=16.0)'))
    if migrated.error:
        return "raises", f"{migrated.error} at `{migrated.line}`"
    before, after = original.losses[0], migrated.losses[0]
    if not abs(before - after) <= CLOSE * max(abs(before), 0.2):
        return "differs", f"{before} becomes {after}"
    return "alike", ""


if __name__ == "__main__":
    main()
