"""The command line. `amp-migrate PATH...` is short for `amp-migrate migrate PATH...`."""

from __future__ import annotations

import os
import signal
import sys

import click

from amp_migrate import __version__
from amp_migrate.cli.checkpoint import checkpoint
from amp_migrate.cli.explain import explain
from amp_migrate.cli.migrate import migrate
from amp_migrate.cli.verify import verify


class _WithDefault(click.Group):
    """A group whose first word may be left out: what is no command is an argument of `migrate`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--version":
            args = ["migrate", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_WithDefault, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(__version__, prog_name="amp-migrate")
def _commands() -> None:
    """Migrate PyTorch training scripts from NVIDIA Apex AMP to native autocast and GradScaler.

    `amp-migrate PATH...` shows what would change as a diff; `amp-migrate PATH... --write` changes the files.
    `amp-migrate verify SCRIPT` runs both and shows that they train the same.
    `amp-migrate checkpoint FILE` converts what the original script has saved.
    `amp-migrate explain CODE` says what a finding means.
    `amp-migrate COMMAND --help` lists all options.
    """


_commands.add_command(migrate)
_commands.add_command(verify)
_commands.add_command(checkpoint)
_commands.add_command(explain)


def main() -> None:
    """Run the command; what the system refuses (a full disk, a closed output) is an error, not a traceback."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `amp-migrate . | head` ends like any other command
    try:
        _commands(prog_name="amp-migrate")
    except (OSError, AttributeError) as error:
        if isinstance(error, AttributeError) and sys.stdout is not None:
            raise
        print(f"amp-migrate: {error}", file=sys.stderr)
        if sys.stdout is not None:
            # What could not be written is still in the buffer, and would fail again when Python ends (exit code 120).
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
