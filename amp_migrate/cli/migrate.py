"""`amp-migrate PATH...`: show, check or write the migration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from amp_migrate.options import Api, Dtype, Options
from amp_migrate.project import findings_beside, migrate_paths, migrate_stdin, write_result
from amp_migrate.report.diff import coloured, unified_diff
from amp_migrate.report.formats import FORMATS
from amp_migrate.report.model import Report
from amp_migrate.report.text import report_lines, summary
from amp_migrate.result import Result
from amp_migrate.rules import RULES
from amp_migrate.selection import TITLES, Selection

# `amp-migrate --help` is the help of this command.
_OTHER_COMMANDS = """\b
Other commands, each with a --help of its own:
  amp-migrate verify SCRIPT     run a script and its migration, and compare how they train
  amp-migrate checkpoint FILE   convert what the original script has saved, and back
"""


@click.command(epilog=_OTHER_COMMANDS)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--write", is_flag=True, help="Write the files instead of showing a diff.")
@click.option("--check", is_flag=True, help="Exit with 1 if something would change; write nothing.")
@click.option(
    "--api",
    type=click.Choice(["torch.cuda.amp", "torch.amp"]),
    help="How to spell native AMP. [default: what the project's torch allows]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "bfloat16"]),
    default="float16",
    show_default=True,
    help="autocast's dtype; bfloat16 needs no GradScaler.",
)
@click.option("--repair-clip", is_flag=True, help="Unscale before clips that Apex applied to scaled gradients.")
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these source forms, by their codes: AMP010,AMP050."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these source forms or findings: AMP050, AMP1.")
@click.option(
    "--output-format",
    "output_format",
    type=click.Choice(["text", *FORMATS]),
    default="text",
    show_default=True,
    help="What is printed on standard output: the diff, or a report for a program.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no findings and no summary.")
@click.option("-v", "--verbose", count=True, help="Name untouched files, too; -vv prints the plan of each unit.")
def migrate(
    paths: tuple[str, ...],
    write: bool,
    check: bool,
    api: Api | None,
    dtype: Dtype,
    repair_clip: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    output_format: str,
    quiet: bool,
    verbose: int,
) -> None:
    """Migrate files and folders to native AMP.

    Prints a diff on standard output that `git apply` takes, findings and a summary on standard error.
    PATH - reads standard input; with --write the result goes to standard output.

    Source forms: AMP010 apex.amp, AMP030 apex.fp16_utils, AMP040 .half() training,
    AMP050 plain float32 loops (under --check reported only, unless selected), AMP060 other parts of apex.

    Exit codes: 0 nothing to do, shown or written; 1 something would change under --check; 2 a file could not
    be read, parsed or written, bad usage, or an internal error.
    """
    if write and check:
        raise click.UsageError("--write and --check exclude each other")
    if "" in paths:
        raise click.UsageError("an empty path; write . for the current folder")
    selection = Selection(_codes(select, "--select"), _codes(ignore, "--ignore"))
    options = Options(api=api, dtype=dtype, repair_clip=repair_clip, selection=selection, reports_plain=check)
    results: list[Result] = []
    try:
        for result in _results(paths, options):
            results.append(_handle(result, write=write, show=output_format == "text"))
        folders = [Path(path) for path in paths if os.path.isdir(path)]
        beside = [one for one in findings_beside(folders, results) if selection.shows(one.code)]
    except KeyboardInterrupt:
        _echo(["interrupted", *summary(Report(tuple(results), written=write))])
        sys.exit(130)
    report = Report(tuple(results), tuple(beside), written=write)
    if output_format != "text":
        click.echo(FORMATS[output_format](report), nl=False)
    if not quiet:
        _echo(report_lines(report, verbose) if output_format == "text" else summary(report))
    sys.exit(_exit_code(results, check=check))


def _exit_code(results: list[Result], *, check: bool) -> int:
    """2 where a file could not be processed, else 1 under --check where something would change."""
    if any(result.status == "error" for result in results):
        return 2
    return 1 if check and any(result.changed for result in results) else 0


def _codes(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The codes of an option that may be repeated, and may hold several; each is the beginning of a known one."""
    codes = tuple(code.strip().upper() for text in given for code in text.split(",") if code.strip())
    known = (*TITLES, *RULES)
    for code in codes:
        if not any(one.startswith(code) for one in known):
            raise click.BadParameter(f"{code} is no code of amp-migrate", param_hint=option)
    return codes


def _results(paths: tuple[str, ...], options: Options) -> Iterator[Result]:
    named = [Path(path) for path in paths if path != "-"]
    missing = [str(path) for path in named if not os.path.exists(path)]
    if missing:
        raise click.UsageError(f"{', '.join(missing)} does not exist, or may not be read")
    if "-" in paths:
        if sys.stdin is None:
            raise click.UsageError("there is no standard input")
        yield migrate_stdin(sys.stdin.buffer.read(), options)
    if named:
        yield from migrate_paths(named, options)


def _handle(result: Result, *, write: bool, show: bool) -> Result:
    """Write or show one result; with neither, it is for the report."""
    stdout = sys.stdout.buffer
    if write and result.path == "-":
        stdout.write(result.output)
        stdout.flush()
    elif write and result.changed:
        return write_result(result)
    elif result.changed and show:
        diff = unified_diff(result.path, result.source, result.output)
        if _wants_colour():
            click.echo(coloured(diff), nl=False, color=True)
        else:
            stdout.write(diff)
            stdout.flush()
    return result


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _wants_colour() -> bool:
    """Colours for a person at a terminal who has not asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
