"""`amp-migrate guide`: how to migrate with this tool and by hand, for whoever has nothing else at hand."""

from __future__ import annotations

import click

from amp_migrate.guide import text


@click.command()
def guide() -> None:
    """Print one page for coding agents and people: migrate, edit by hand, judge, repair.

    It is a skill file as well: write it to .claude/skills/amp-migrate/SKILL.md, or where your agent looks for skills.
    """
    click.echo(text(), nl=False)
