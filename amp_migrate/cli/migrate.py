"""`amp-migrate PATH...`: show, check or write the migration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from amp_migrate import __version__
from amp_migrate.cli.completion import codes, forms
from amp_migrate.cli.sections import InSections
from amp_migrate.config import Config, ConfigError, config_for
from amp_migrate.findings import Finding
from amp_migrate.options import Api, Dtype, Options
from amp_migrate.processes import Workers, usable_cpus
from amp_migrate.progress import Bar, Progress
from amp_migrate.project import findings_beside, migrate_paths, migrate_stdin
from amp_migrate.report.findings import shown
from amp_migrate.report.formats import FORMATS, rendered
from amp_migrate.report.model import Report
from amp_migrate.report.spelled import spelled
from amp_migrate.report.terminal import BOLD, GREEN, Look, look_of
from amp_migrate.report.text import report_lines, summary
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import APEX_AMP, PLAIN
from amp_migrate.selection import Selection, wrong_with

if TYPE_CHECKING:
    from amp_migrate.report.origin import Origin

# `amp-migrate --help` is the help of this command.
_OTHER_COMMANDS = """\b
Other commands, each with a --help of its own:
  amp-migrate judge --since REV  whether a migration by hand or by an agent is right
  amp-migrate verify SCRIPT      run a script and its migration, and compare how they train
  amp-migrate checkpoint FILE    convert what the original script has saved, and back
  amp-migrate explain CODE       what a code means, why it matters, and what to do
  amp-migrate guide              how an agent or a person migrates what was left alone, on one page
"""

_SECTIONS = {
    "What to do": ("write", "check", "interactive", "patch", "partial"),
    "What to look at": ("select", "ignore", "since", "stdin_filename"),
    "How to migrate": ("api", "dtype", "repair_clip"),
    "What to print": ("output_format", "report", "quiet", "verbose"),
}


@click.command(cls=InSections, sections=_SECTIONS, epilog=_OTHER_COMMANDS, options_metavar="[OPTIONS]")
@click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]...",
    type=click.Path(readable=False),
    callback=lambda _context, _parameter, paths: paths or (".",),
)
@click.option("--write", is_flag=True, help="Write the files instead of showing a diff.")
@click.option("--check", is_flag=True, help="Exit with 1 if something would change; write nothing.")
@click.option("--partial", is_flag=True, help="Mark what is left alone with comments that say why.")
@click.option("--interactive", is_flag=True, help="Ask for each unit whether to write it.")
@click.option("--patch", type=click.Path(path_type=Path, dir_okay=False), help="Write the diff to a file.")
@click.option("--since", metavar="REV", help="Only units with a file that was changed since this git revision.")
@click.option(
    "--api",
    type=click.Choice(["torch.cuda.amp", "torch.amp"]),
    help="How to spell native AMP. [default: what the project's torch allows]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "bfloat16"]),
    help="autocast's dtype; bfloat16 needs no GradScaler.  [default: float16]",
)
@click.option("--repair-clip", is_flag=True, help="Unscale before clips that Apex applied to scaled gradients.")
@click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    shell_complete=forms,
    help=f"Only these source forms, by their codes: {APEX_AMP},{PLAIN}.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    shell_complete=codes,
    help=f"Not these source forms or findings: {PLAIN}, AMP1.",
)
@click.option(
    "--stdin-filename", type=click.Path(path_type=Path), help="What standard input would be called: its place counts."
)
@click.option(
    "--output-format",
    type=click.Choice(["text", *FORMATS]),
    default="text",
    show_default=True,
    help="What is printed on standard output: the diff, or a report for a program.",
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a page of HTML about it all.")
@click.option(
    "-W", "--workers", type=click.IntRange(min=1), help="How many processes to use.  [default: one for each CPU]"
)
@click.option("-q", "--quiet", is_flag=True, help="Print no findings and no summary.")
@click.option(
    "-v", "--verbose", count=True, help="Name untouched files, too, and what proofs assume; -vv prints plans."
)
@click.version_option(__version__, prog_name="amp-migrate")
def migrate(
    paths: tuple[str, ...],
    write: bool,
    check: bool,
    partial: bool,
    interactive: bool,
    patch: Path | None,
    since: str | None,
    api: Api | None,
    dtype: Dtype | None,
    repair_clip: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    stdin_filename: Path | None,
    output_format: str,
    report: Path | None,
    workers: int | None,
    quiet: bool,
    verbose: int,
) -> None:
    """Migrate PyTorch training from NVIDIA Apex AMP to native autocast and GradScaler.

    PATH is a file or a folder, by default the current folder; - reads standard input.
    Without --write nothing is changed: a diff that `git apply` takes goes to standard output, findings and a summary go
    to standard error.

    \b
    What is looked for, each by its code:
      AMP010  apex.amp
      AMP030  apex.fp16_utils, and its copies
      AMP040  training in .half(), by hand
      AMP050  plain float32 loops; under --check and in pre-commit reported only, unless selected
      AMP060  other parts of Apex
      AMP300  torch.cuda.amp that becomes torch.amp
      AMP400  mistakes in native AMP, which are reported only

    \b
    Exit codes:
      0  nothing to do, shown, or written
      1  something would change (--check)
      2  a file could not be read, parsed or written; bad usage; an internal error

    Options can be set in [tool.amp-migrate] of pyproject.toml, too.
    """  # noqa: D301  # click wants the character itself
    if write and check:
        raise click.UsageError("--write and --check exclude each other")
    if interactive and (check or "-" in paths):
        raise click.UsageError("--interactive asks what to write: not with --check, and not for standard input")
    write = write or interactive
    if "" in paths:
        raise click.UsageError("an empty path; write . for the current folder")
    if stdin_filename is not None and "-" not in paths:
        raise click.UsageError("--stdin-filename is for standard input: the path -")
    named = [Path(path) for path in paths if path != "-"]
    config = _config([*named, *([stdin_filename or Path.cwd() / "-"] if "-" in paths else [])])
    options = Options(
        api=api or config.api,
        dtype=dtype or config.dtype or "float16",
        repair_clip=repair_clip,
        selection=Selection(
            _codes(select, "--select") or config.select,
            _codes(ignore, "--ignore") or config.ignore,
        ),
        # Whoever commits did not ask for plain loops (rule H7); pre-commit tells its hooks that it runs them.
        reports_plain=check or os.environ.get("PRE_COMMIT") == "1",
        torch=config.torch,
        operations=config.operations,
        exclude=config.exclude,
        per_file_ignores=config.per_file_ignores,
        partial=partial,
        prints_plans=verbose > 1,
    )
    _check_existence(named)
    touched = _touched(since, named)
    origin = _origin(paths) if report is not None else None
    progress = Bar() if not quiet and _draws() else Progress()
    results: list[Result] = []
    try:
        with _diffs(patch, shown=output_format == "text" and not write) as diffs:
            found = _found(paths, options, stdin_filename, touched, Workers(workers or usable_cpus(), progress))
            for result in _chosen(found) if interactive else found:
                results.append(result)
                if result.changed and diffs is not None:
                    _show(result, diffs)
        if write:
            from_stdin, files = (results[:1], results[1:]) if "-" in paths else ([], results)
            _print_output(from_stdin)
            results = [*from_stdin, *_written(files)]
        beside = _beside(named, results, options, touched)
        told = Report(tuple(results), tuple(beside), written=write, spelled=spelled(results, options))
        if report is not None and origin is not None:
            _write_page(report, told, origin)
        if output_format != "text":
            # Names that are no UTF-8 (their bytes are surrogates here) would end in what no program reads.
            click.echo(rendered(told, output_format).encode("utf-8", "backslashreplace"), nl=False)
    except (KeyboardInterrupt, click.Abort):
        progress.end()
        _echo([_interrupted(results)])
        sys.exit(130)
    if not quiet and output_format == "text":
        look = look_of(sys.stderr)
        _echo(report_lines(told, verbose, look))
        _echo(_next_command(told, options, look))
    elif not quiet:
        _echo(summary(told))
    sys.exit(_exit_code(results, check=check))


def _next_command(report: Report, options: Options, look: Look) -> Iterator[str]:
    """What to type next, where something would change, or was changed."""
    changed = [result for result in report.results if result.changed]
    if not changed or any(result.path == "-" for result in report.results):
        return
    from amp_migrate.cli.following import command_that_verifies, command_that_writes

    if report.written and os.environ.get("PRE_COMMIT") == "1":
        command = None  # the next step is a commit
    elif report.written:
        command = command_that_verifies(changed)
    else:
        command = command_that_writes(click.get_current_context(), report.results, options.selection.ignore)
    if command is not None:
        yield f"{look.paint('next:', BOLD, GREEN)} {command}"


def _interrupted(results: Iterable[Result]) -> str:
    """What was written until then: the files themselves say it, wherever the run was."""
    from amp_migrate.files.read import read_if_there

    written = [one.path for one in results if one.changed and read_if_there(Path(one.path)) == one.output]
    if not written:
        return "interrupted; no file was written"
    were = "1 file was" if len(written) == 1 else f"{len(written)} files were"
    return f"interrupted; {were} written: {', '.join(map(shown, written))}; the rest is as it was"


def _draws() -> bool:
    """True where standard error is a terminal that can go back in a line; editors have some that cannot."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _chosen(found: Iterable[Result]) -> list[Result]:
    """What a person wants of what was found. Most runs need neither this nor what `_written` imports, and a hook that
    finds nothing to do is waited for.
    """
    from amp_migrate.cli.interactive import as_chosen

    return as_chosen(list(found))


def _written(results: Iterable[Result]) -> list[Result]:
    from amp_migrate.writing import written

    return written(results)


def _origin(paths: Iterable[str]) -> Origin:
    """Before anything is written: the page names the commit that was looked at."""
    from amp_migrate.report.origin import origin_of

    return origin_of(map(Path, paths))


def _write_page(page: Path, report: Report, origin: Origin) -> None:
    """With the curves of the runs whose results lie beside it."""
    from amp_migrate.report import html
    from amp_migrate.verify.report.earlier import runs_beside

    runs, problems = runs_beside(page, report.results)
    _echo(problems)
    page.write_text(html.render(report, origin, runs), encoding="utf-8", errors="replace")


def _exit_code(results: list[Result], *, check: bool) -> int:
    """2 where a file could not be processed, else 1 under --check where something would change."""
    if any(result.status == "error" for result in results):
        return 2
    return 1 if check and any(result.changed for result in results) else 0


def _codes(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The codes of an option that may be repeated, and may hold several; each is the beginning of a known one."""
    codes = tuple(code.strip().upper() for text in given for code in text.split(",") if code.strip())
    wrong = wrong_with(codes, are_selected=option == "--select")
    if wrong is not None:
        raise click.BadParameter(wrong, param_hint=option)
    return codes


def _config(paths: list[Path]) -> Config:
    try:
        return config_for(paths)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def _check_existence(named: list[Path]) -> None:
    for path in named:
        if not os.path.exists(path):
            raise click.UsageError(f"{path} does not exist, or may not be read{_meant(path)}")


def _meant(path: Path) -> str:
    """What a mistyped path may mean, as the end of a sentence; empty where nothing beside it is called like it."""
    from difflib import get_close_matches

    beside = os.listdir(path.parent) if os.path.isdir(path.parent) else []
    close = get_close_matches(path.name, beside, 1)
    return f"; did you mean {path.with_name(close[0])}?" if close else ""


def _found(
    paths: tuple[str, ...],
    options: Options,
    stdin_filename: Path | None,
    touched: set[str] | None,
    workers: Workers,
) -> Iterator[Result]:
    """The results of what was asked for: where that was asked for, of units with a file that was `touched`."""
    named = [Path(path) for path in paths if path != "-"]
    if "-" in paths:
        if sys.stdin is None:
            raise click.UsageError("there is no standard input")
        yield migrate_stdin(sys.stdin.buffer.read(), options, stdin_filename)
    if named:
        results = list(migrate_paths(named, options, workers))
        yield from results if touched is None else of_touched(results, touched)


def of_touched(results: list[Result], touched: set[str]) -> Iterator[Result]:
    """The results of units with a file that was touched, and of those that they need."""
    asked = [one for one in results if any(os.path.realpath(path) in touched for path in one.members)]
    needed = {path for one in asked for path in one.needs}
    units = {one.members for one in (*asked, *(one for one in results if one.path in needed))}
    return (one for one in results if one.members in units)


def _beside(named: list[Path], results: list[Result], options: Options, touched: set[str] | None) -> list[Finding]:
    found = findings_beside([path for path in named if os.path.isdir(path)], results)
    return [
        one
        for one in found
        if options.selection.shows(one.code) and (touched is None or os.path.realpath(one.path) in touched)
    ]


def _touched(since: str | None, named: list[Path]) -> set[str] | None:
    """The files that were changed since a revision; None where nobody asked."""
    if since is None:
        return None
    from amp_migrate.files.git import GitError
    from amp_migrate.files.since import changed_since

    folders = {path if os.path.isdir(path) else path.parent for path in named}
    try:
        return {file for folder in sorted(folders) for file in changed_since(since, folder)}
    except GitError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None


@contextmanager
def _diffs(patch: Path | None, *, shown: bool) -> Iterator[BinaryIO | None]:
    """Where diffs go: to a file, to standard output, or nowhere."""
    if patch is None:
        yield sys.stdout.buffer if shown else None
        return
    with patch.open("wb") as file:
        yield file


def _print_output(results: list[Result]) -> None:
    """What `-` became, on standard output."""
    for result in results:
        sys.stdout.buffer.write(result.output)
        sys.stdout.flush()


def _show(result: Result, diffs: BinaryIO) -> None:
    """To a terminal as people read it, to everything else as `git apply` takes it."""
    from amp_migrate.report.diff import coloured, unified_diff
    from amp_migrate.report.parts import diff_for_people

    if diffs.isatty():
        diff = diff_for_people(result)
        has_colours = look_of(sys.stdout).has_colours
        click.echo(coloured(diff) if has_colours else diff, nl=False, color=has_colours)
    else:
        diffs.write(unified_diff(result.path, result.source, result.output))
        diffs.flush()


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)
