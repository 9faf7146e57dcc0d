"""`amp-migrate checkpoint FILE...`: convert saved checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Convert the files; each original is kept as FILE.bak.")
@click.option("--to", "target", type=click.Choice(["native", "apex"]), default="native", show_default=True)
@click.option("--fused-adam", is_flag=True, help="With --to apex: Adam's steps as apex.optimizers.FusedAdam has them.")
def checkpoint(files: tuple[Path, ...], write: bool, target: Literal["native", "apex"], fused_adam: bool) -> None:
    """Convert checkpoints that a script with Apex has saved, for its migrated version; or back.

    Finds the states of Apex's loss scalers, half weights and FP16_Optimizer's masters, and FusedAdam's steps, wherever
    they are in a file. Shows what would change; with --write changes it. No code of a file is run.

    Exit codes: 0 nothing to do, shown, or written; 2 a file could not be read, converted or written, or bad usage. The
    other files are still processed.
    """
    if fused_adam and target != "apex":
        raise click.UsageError("--fused-adam belongs to --to apex; the other direction finds FusedAdam by itself")
    try:
        import torch
    except (ImportError, OSError) as error:
        _fail(f"checkpoint needs torch beside amp-migrate: pip install 'amp-migrate[checkpoint]' ({error})")
    if not hasattr(torch.serialization, "add_safe_globals"):
        _fail(
            f"checkpoint needs torch 2.4 or newer, to read files without running their code; found {torch.__version__}"
        )
    try:
        successes = [_process(path, target, write=write, fused_adam=fused_adam) for path in files]
    except KeyboardInterrupt:
        click.echo("interrupted; the file at hand is as it was", err=True)
        sys.exit(130)
    sys.exit(0 if all(successes) else 2)


def _process(path: Path, target: Literal["native", "apex"], *, write: bool, fused_adam: bool) -> bool:
    """Convert one file and say what was done; False where that failed."""
    from amp_migrate.checkpoint.convert import to_apex, to_native
    from amp_migrate.checkpoint.errors import CheckpointError
    from amp_migrate.checkpoint.read import load
    from amp_migrate.checkpoint.write import backup, save

    try:
        loaded = load(path)
        report = to_native(loaded) if target == "native" else to_apex(loaded, fused_adam=fused_adam)
        if write and report.changes:
            save(loaded, path)
    except CheckpointError as error:
        click.echo(f"{click.format_filename(path)}: {error}", err=True)
        return False
    original = click.format_filename(backup(path))
    click.echo(click.format_filename(path))
    for change in report.changes:
        click.echo(f"  {change}")
    for note in report.notes:
        click.echo(f"  note: {note}")
    if not report.changes:
        click.echo("  nothing to convert")
    elif write:
        click.echo(f"  written; the original is {original}")
    else:
        click.echo(f"  not written; --write does, and keeps the original as {original}")
    return True


def _fail(message: str) -> None:
    click.echo(message, err=True)
    sys.exit(2)
