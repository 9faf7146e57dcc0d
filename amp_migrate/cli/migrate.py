"""`amp-migrate PATH...`: show, check or write the migration."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from amp_migrate.options import Api, Dtype, Options
from amp_migrate.project import findings_beside, migrate_paths, migrate_stdin, write_result
from amp_migrate.report.diff import coloured, unified_diff
from amp_migrate.report.text import finding_lines, summary, unit_lines, units
from amp_migrate.result import Result


@dataclasses.dataclass
class _Run:
    """The results of one call and the exit code that they make."""

    results: list[Result] = dataclasses.field(default_factory=list)

    def exit_code(self, *, check: bool) -> int:
        """2 where a file could not be processed, else 1 under --check where something would change."""
        if any(result.status == "error" for result in self.results):
            return 2
        return 1 if check and any(result.changed for result in self.results) else 0


@click.command()
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
@click.option("-q", "--quiet", is_flag=True, help="Print no findings and no summary.")
@click.option("-v", "--verbose", count=True, help="Name untouched files, too; -vv prints the plan of each unit.")
def migrate(
    paths: tuple[str, ...],
    write: bool,
    check: bool,
    api: Api | None,
    dtype: Dtype,
    repair_clip: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Migrate files and folders from apex.amp to native AMP.

    Prints a diff on standard output that `git apply` takes, findings and a summary on standard error.
    PATH - reads standard input; with --write the result goes to standard output.

    Exit codes: 0 nothing to do, shown or written; 1 something would change under --check; 2 a file could not
    be read, parsed or written, bad usage, or an internal error.
    """
    if write and check:
        raise click.UsageError("--write and --check exclude each other")
    if "" in paths:
        raise click.UsageError("an empty path; write . for the current folder")
    options = Options(api=api, dtype=dtype, repair_clip=repair_clip)
    run = _Run()
    try:
        for result in _results(paths, options):
            run.results.append(_handle(result, write=write))
        if not quiet:
            _tell(run.results, verbose)
            folders = [Path(path) for path in paths if os.path.isdir(path)]
            _echo(finding_lines(findings_beside(folders, run.results)))
            _echo([summary(run.results, written=write)])
    except KeyboardInterrupt:
        click.echo(f"interrupted; {summary(run.results, written=write)}", err=True)
        sys.exit(130)
    sys.exit(run.exit_code(check=check))


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


def _handle(result: Result, *, write: bool) -> Result:
    """Write or show one result."""
    stdout = sys.stdout.buffer
    if write and result.path == "-":
        stdout.write(result.output)
        stdout.flush()
    elif write and result.changed:
        return write_result(result)
    elif result.changed:
        diff = unified_diff(result.path, result.source, result.output)
        if _wants_colour():
            click.echo(coloured(diff), nl=False, color=True)
        else:
            stdout.write(diff)
            stdout.flush()
    return result


def _tell(results: list[Result], verbose: int) -> None:
    """What was found, unit by unit."""
    for unit in units(results):
        if verbose:
            _echo(unit_lines(unit))
        _echo(finding_lines([finding for result in unit for finding in result.findings]))
        for result in unit:
            if verbose and result.status == "untouched":
                _echo([f"{result.path}: nothing to migrate"])
            if verbose > 1 and result.plan:
                _echo([f"{result.path}: {result.plan}"])


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _wants_colour() -> bool:
    """Colours for a person at a terminal who has not asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
