"""The command line. `amp-migrate PATH...` is short for `amp-migrate migrate PATH...`."""

from __future__ import annotations

import click

from amp_migrate import __version__
from amp_migrate.cli.migrate import migrate


class _WithDefault(click.Group):
    """A group whose first word may be left out: what is no command is a path for `migrate`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"-h", "--help", "--version"}
        if args and args[0] not in self.commands and args[0] not in own:
            args = ["migrate", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_WithDefault, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(__version__, prog_name="amp-migrate")
def main() -> None:
    """Migrate PyTorch training scripts from NVIDIA Apex AMP to native autocast and GradScaler.

    `amp-migrate PATH...` shows what would change as a diff; `amp-migrate PATH... --write` changes the files.
    See `amp-migrate migrate --help` for all options.
    """


main.add_command(migrate)
