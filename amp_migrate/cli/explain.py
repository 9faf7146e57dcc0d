"""`amp-migrate explain [CODE]`: what a code means."""

from __future__ import annotations

import sys

import click

from amp_migrate.cli.completion import codes


@click.command()
@click.argument("code", required=False, shell_complete=codes)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A page (Markdown, where it is piped), or its texts for a program.",
)
def explain(code: str | None, output_format: str) -> None:
    """Say what a code means, why it matters, and what to do; without a code, list all.

    Exit codes: 0, and 2 for a code that does not exist.
    """
    from amp_migrate.explain import json
    from amp_migrate.explain.page import explained, title
    from amp_migrate.explain.terminal import page_for

    if code is None:
        listed = "".join(f"{one}  {title(one)}\n" for one in explained())
        click.echo(json.render_all(explained()) if output_format == "json" else listed, nl=False)
        return
    wanted = code.strip().upper()
    if wanted not in explained():
        raise click.BadParameter(f"{code} is no code of amp-migrate; `amp-migrate explain` lists them all")
    click.echo(json.render(wanted) if output_format == "json" else page_for(wanted, sys.stdout), nl=False)
