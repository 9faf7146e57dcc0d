"""`amp-migrate verify SCRIPT [-- ARGS]`: run the original and the migrated script, and compare."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from amp_migrate.config import ConfigError, config_for
from amp_migrate.options import Options
from amp_migrate.selection import Selection
from amp_migrate.verify.errors import NotComparableError, NoTorchError

if TYPE_CHECKING:
    from amp_migrate.report.origin import Origin
    from amp_migrate.verify.comparison import Comparison
    from amp_migrate.verify.programs import Program

_FILE = click.Path(dir_okay=False, path_type=Path)
_EXISTING = click.Path(exists=True, path_type=Path)


class _Words(click.ParamType[tuple[str, ...]]):
    """Arguments for a script in one string, split as a shell would."""

    name = "args"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


@click.command()
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--before", type=_EXISTING, metavar="A", help="The original: a script, or a folder that holds SCRIPT.")
@click.option("--after", type=_EXISTING, metavar="B", help="The migrated one, in the same way.")
@click.option("--before-args", type=_Words(), default="", help="Further arguments for the original only.")
@click.option("--after-args", type=_Words(), default="", help="Further arguments for the migrated script only.")
@click.option("--resume-args", type=_Words(), help="Run both a second time, with these too: compares across a restart.")
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--steps", type=click.IntRange(min=1), help="Stop both after so many optimizer steps.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--time-limit", type=click.FloatRange(min=1), default=600, show_default=True, help="Seconds for each of the runs."
)
@click.option("--json", "json_file", type=_FILE, help="Write everything that was measured.")
@click.option("--html", "html_file", type=_FILE, help="Write the report as one self-contained page.")
@click.option("--plot", "plot_file", type=_FILE, help="Write the curves as a PNG.")
def verify(
    script: Path | None,
    args: tuple[str, ...],
    before: Path | None,
    after: Path | None,
    before_args: tuple[str, ...],
    after_args: tuple[str, ...],
    resume_args: tuple[str, ...] | None,
    device: Literal["auto", "cuda", "cpu"],
    steps: int | None,
    seed: int,
    time_limit: float,
    json_file: Path | None,
    html_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Run SCRIPT and its migration with the same seeds, and say whether they train the same.

    `amp-migrate verify train.py -- --epochs 1` migrates a copy; no file of yours is written. Where train.py is migrated
    already, it runs beside what git has committed of it.
    `amp-migrate verify --before A --after B` compares two scripts, or SCRIPT in two folders.
    Both run in working copies, on the GPU, or in float16 on the CPU where there is none.

    Exit codes: 0 they train the same, 1 they do not, 2 they could not be run or compared.
    """
    # Here, so that migrating does not pay for it at every start.
    from amp_migrate.report.origin import origin_of
    from amp_migrate.verify.pool import Pool
    from amp_migrate.verify.runner import Settings
    from amp_migrate.verify.session import verify as compare

    if (before is None) != (after is None):
        raise click.UsageError("--before and --after belong together")
    if before is None and script is None:
        raise click.UsageError("name a script, or --before and --after")
    if script is not None and before is not None and before.is_file():
        script, args = None, (str(script), *args)  # two scripts need no name of one
    if plot_file is not None:
        _require_matplotlib()
    for file in (json_file, html_file, plot_file):
        _require_writable(file)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)  # ends the runs in order, as Ctrl-C does
    settings = Settings(steps, seed, time_limit, resume_args)
    origin = origin_of(filter(None, (before, after) if before else (script,)))
    outputs = Path(tempfile.mkdtemp(prefix="amp-migrate-output-"))
    comparison = None
    try:
        pair = _pair(script, before, after, (*args, *before_args), (*args, *after_args))
        with _Progress() as progress, Pool(device) as pool:
            comparison = compare(*pair, settings, pool, outputs, progress.tell)
    except NoTorchError as error:
        click.echo(f"verify needs torch beside amp-migrate: pip install 'amp-migrate[verify]' ({error})", err=True)
        sys.exit(2)
    except NotComparableError as error:
        click.echo(f"not comparable: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("interrupted; all runs were ended", err=True)
        sys.exit(130)
    finally:
        if comparison is None:
            shutil.rmtree(outputs)
    comparison = dataclasses.replace(comparison, command=origin.command)
    _report(comparison, origin, json_file, html_file, plot_file)
    sys.exit(comparison.exit_code)


def _pair(
    script: Path | None,
    before: Path | None,
    after: Path | None,
    before_args: tuple[str, ...],
    after_args: tuple[str, ...],
) -> tuple[Program, Program]:
    from amp_migrate.verify.programs import existing_pair, migrated_pair

    if before is not None and after is not None:
        return existing_pair(before, after, script, before_args, after_args)
    assert script is not None
    if script.is_dir():
        raise NotComparableError(f"{script} is a folder: name the script that trains")
    if not script.is_file():
        raise NotComparableError(f"{script} does not exist")
    return migrated_pair(script, before_args, after_args, _options(script))


def _options(script: Path) -> Options:
    """What `amp-migrate SCRIPT` would do: the settings of the project count."""
    try:
        config = config_for([script])
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return Options(
        api=config.api,
        dtype=config.dtype or "float16",
        selection=Selection(config.select, config.ignore),
        torch=config.torch,
        operations=config.operations,
    )


def _require_writable(file: Path | None) -> None:
    """Before the runs, not after them."""
    if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
        raise click.UsageError(f"{file} can't be written")


def _require_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib: pip install 'amp-migrate[verify]'")


class _Progress:
    """One line on a terminal that says what is running; nothing where standard error is no terminal."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._start = time.monotonic()
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        self._say("starting")
        return self

    def __exit__(self, *_: object) -> None:
        self._say("")

    def tell(self, run: str, steps: int) -> None:
        self._steps[run] = steps
        running = ", ".join(f"{name}: step {count}" for name, count in list(self._steps.items())[-2:])
        self._say(f"{time.monotonic() - self._start:.0f} s  {running}")

    def _say(self, text: str) -> None:
        if self._shown:
            click.echo(f"\r\033[K{text}", nl=False, err=True)


def _report(
    comparison: Comparison, origin: Origin, json_file: Path | None, html_file: Path | None, plot_file: Path | None
) -> None:
    from amp_migrate.verify.report import html, plot, text

    for line in text.lines(comparison, colour=sys.stdout.isatty()):
        click.echo(line)
    if json_file is not None:
        json_file.write_text(json.dumps(comparison.as_json(), indent=1), encoding="utf-8")
    if html_file is not None:
        html_file.write_text(html.page(comparison, origin), encoding="utf-8", errors="xmlcharrefreplace")
    if plot_file is not None:
        plot.draw(comparison, plot_file)
