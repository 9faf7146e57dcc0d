"""`amp-migrate guide`: how to migrate with this tool and by hand, for whoever has nothing else at hand."""

from __future__ import annotations

from pathlib import Path

import click

# A skill for coding agents, in its usual form: a folder of this name, and a front matter that says when to use it.
_SKILL = Path(__file__).parents[1] / "skills" / "amp-migrate" / "SKILL.md"


@click.command()
def guide() -> None:
    """Print one page for coding agents and people: migrate, edit by hand, judge, repair.

    It is a skill file as well: write it to .claude/skills/amp-migrate/SKILL.md, or where your agent looks for skills.
    """
    click.echo(_SKILL.read_text(encoding="utf-8"), nl=False)
