"""`amp-migrate explain [CODE]`: what a code means."""

from __future__ import annotations

import click

from amp_migrate.cli.completion import codes


@click.command()
@click.argument("code", required=False, shell_complete=codes)
def explain(code: str | None) -> None:
    """Say what a code means, why it matters, and what to do; without a code, list all.

    Exit codes: 0, and 2 for a code that does not exist.
    """
    from amp_migrate.explain.page import explained, page, title

    if code is None:
        for one in explained():
            click.echo(f"{one}  {title(one)}")
        return
    wanted = code.strip().upper()
    if wanted not in explained():
        raise click.BadParameter(f"{code} is no code of amp-migrate; `amp-migrate explain` lists them all")
    click.echo(page(wanted), nl=False)
