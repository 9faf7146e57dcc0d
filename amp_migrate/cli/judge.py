"""`amp-migrate judge`: is a migration by a person or an agent the same program?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amp_migrate.cli.completion import codes
from amp_migrate.config import ConfigError, config_for
from amp_migrate.options import Options
from amp_migrate.rules.judging import ANOTHER_SWITCH
from amp_migrate.selection import Selection, wrong_with

if TYPE_CHECKING:
    from amp_migrate.judge.judgement import Judgement
    from amp_migrate.judge.trees import Trees

_EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(path_type=Path))
@click.option("--before", type=_EXISTING, metavar="A", help="The original: a file or a folder.")
@click.option("--after", type=_EXISTING, metavar="B", help="The migrated one: a file or a folder.")
@click.option("--since", metavar="REV", help="The original is this git revision, the migrated one the work tree.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    shell_complete=codes,
    help=f"Not these findings: {ANOTHER_SWITCH.code}, AMP42.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="What is printed on standard output.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict, the last line.")
@click.option("-v", "--verbose", count=True, help="Name what is assumed, each with its place.")
def judge(
    paths: tuple[Path, ...],
    before: Path | None,
    after: Path | None,
    since: str | None,
    ignore: tuple[str, ...],
    output_format: str,
    quiet: bool,
    verbose: int,
) -> None:
    """Judge a migration to native AMP that a person or an agent made. Nothing is run, and torch is not needed.

    `amp-migrate judge --before A --after B` compares two files, or two folders.
    `amp-migrate judge --since REV [PATH...]` judges what was changed in a git repository, committed or not.

    With mixed precision taken away, both sides have to be the same program, where it is on and where it is off; native
    AMP has to be used rightly; what is gone must not be used any more; and nothing may need Apex.

    Exit codes: 0 the same program, 1 wrong, 2 it cannot be decided, or bad usage.
    """
    # Here, so that migrating does not pay for it at every start.
    from amp_migrate.judge.judgement import EXIT_CODES
    from amp_migrate.judge.judging import judge as judged

    trees = _trees(paths, before, after, since)
    judgement = judged(trees, _options(ignore, [one for one in (after, *paths) if one is not None] or [Path()]))
    _print(judgement, output_format, quiet=quiet, verbose=verbose)
    sys.exit(EXIT_CODES[judgement.verdict])


def _trees(paths: tuple[Path, ...], before: Path | None, after: Path | None, since: str | None) -> Trees:
    from amp_migrate.judge.trees import GitError, NotComparable, of_revision, of_two

    if since is not None and (before is not None or after is not None):
        raise click.UsageError("--since compares with a revision, --before and --after two folders: give one of them")
    if since is None and (before is None or after is None):
        raise click.UsageError("name --before and --after, or --since")
    try:
        if since is not None:
            return of_revision(since, paths)
        if paths:
            raise click.UsageError("PATH goes with --since; --before and --after name all there is")
        assert before is not None and after is not None
        return of_two(before, after)
    except GitError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    except NotComparable as error:
        raise click.UsageError(str(error)) from None


def _options(ignore: tuple[str, ...], paths: list[Path]) -> Options:
    given = tuple(code.strip().upper() for text in ignore for code in text.split(",") if code.strip())
    wrong = wrong_with(given, are_selected=False)
    if wrong is not None:
        raise click.BadParameter(wrong, param_hint="--ignore")
    try:
        config = config_for(paths)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return Options(selection=Selection(ignore=given or config.ignore), per_file_ignores=config.per_file_ignores)


def _print(judgement: Judgement, output_format: str, *, quiet: bool, verbose: int) -> None:
    from amp_migrate.judge import json, text
    from amp_migrate.report import github, sarif
    from amp_migrate.report.model import Report
    from amp_migrate.report.terminal import look_of

    if output_format == "text":
        for line in [text.summary(judgement)] if quiet else text.lines(judgement, verbose, look_of(sys.stdout)):
            click.echo(line)
        return
    report = Report((), tuple(one.as_finding for one in judgement.objections))
    if output_format == "json":
        out = json.render(judgement)
    else:
        out = github.commands(report) if output_format == "github" else sarif.render(report)
    click.echo(out.encode("utf-8", "backslashreplace"), nl=False)
    if not quiet:
        click.echo(text.summary(judgement), err=True)
