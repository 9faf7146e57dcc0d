"""`--interactive`: unit by unit, as `git add --patch` asks."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence

import click

from amp_migrate.report.diff import coloured
from amp_migrate.report.findings import finding_lines
from amp_migrate.report.model import Report
from amp_migrate.report.parts import diff_for_people
from amp_migrate.report.terminal import look_of
from amp_migrate.report.text import unit_lines
from amp_migrate.result import Result
from amp_migrate.wishes import with_what_they_need

_QUESTION = "Write this unit? [y]es, [n]o, [q]uit, [e]xplain"


def as_chosen(results: Sequence[Result]) -> list[Result]:
    """The results, of which those units stay as they are that nobody wants to have written. Raises click.Abort."""
    wanted = {result.path for result in _chosen(results)}
    chosen = [
        result
        if result.path in wanted or not result.changed
        else dataclasses.replace(result, output=result.source, status="left")
        for result in results
    ]
    return with_what_they_need(chosen)


def _chosen(results: Sequence[Result]) -> Iterator[Result]:
    """The results of the units that are wanted: asked one after the other, until somebody quits."""
    changing = [unit for unit in Report(tuple(results)).units() if any(result.changed for result in unit)]
    for number, unit in enumerate(changing, 1):
        _show(unit)
        click.echo(f"({number} of {len(changing)})", err=True)
        answer = "e"
        while answer == "e":
            choice = click.Choice(["y", "n", "q", "e"], case_sensitive=False)
            answer = click.prompt(_QUESTION, type=choice, show_choices=False, err=True)
            if answer == "e":
                _explain(unit)
        if answer == "q":
            return
        if answer == "y":
            yield from unit


def _show(unit: Sequence[Result]) -> None:
    for line in unit_lines(unit):
        click.echo(line, err=True)
    look = look_of(sys.stdout)
    for result in unit:
        if result.changed:
            diff = diff_for_people(result)
            click.echo(coloured(diff) if look.has_colours else diff, nl=False)


def _explain(unit: Sequence[Result]) -> None:
    """The findings of a unit, and what the codes mean."""
    from amp_migrate.explain.terminal import page_for

    findings = [finding for result in unit for finding in result.findings]
    sources = {result.path: result.source for result in unit}
    for line in finding_lines(findings, sources, look_of(sys.stderr)):
        click.echo(line, err=True)
    for code in dict.fromkeys([result.form for result in unit if result.form] + [one.code for one in findings]):
        click.echo(f"\n{page_for(code, sys.stderr)}", err=True, nl=False)
