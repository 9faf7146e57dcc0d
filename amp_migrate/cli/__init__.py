"""The command line. `amp-migrate PATH...` is short for `amp-migrate migrate PATH...`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

# In the order of the help; each is the function of the module with its name, and imported when it is asked for.
_COMMANDS = ("migrate", "judge", "verify", "checkpoint", "explain", "guide")

# Syntax trees hold no cycles worth looking for every 700 allocations, as Python does: a tenth of every run.
_ALLOCATIONS = 100_000


class _WithDefault(click.Group):
    """A group whose first word may be left out: what is no command is an argument of `migrate`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_default = args[0] not in _COMMANDS if args else not ctx.resilient_parsing
        if is_default:
            _check_first(args)
            args = ["migrate", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The first word may be a command, a path, or an option of `migrate`. Paths come first: where the words that
        follow match, bash shows these.
        """
        migrate = self.get_command(ctx, "migrate")
        assert migrate is not None
        options = migrate.shell_complete(click.Context(migrate, ctx, "migrate", resilient_parsing=True), incomplete)
        paths = [] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")]
        return [*paths, *super().shell_complete(ctx, incomplete), *options]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"amp_migrate.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


def _check_first(words: list[str]) -> None:
    """Raises UsageError where the first word is nearly a command and no path, which nobody can have meant."""
    if not words or words[0].startswith("-") or os.path.exists(words[0]):
        return
    from difflib import get_close_matches

    close = get_close_matches(words[0], _COMMANDS, 1)
    if close:
        message = f"{words[0]} is no command, and no such file exists; did you mean `amp-migrate {close[0]}`?"
        raise click.UsageError(message)


@click.group(cls=_WithDefault, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def _commands() -> None:
    """Migrate PyTorch training from NVIDIA Apex AMP to native autocast and GradScaler."""


def main() -> None:
    """Run the command; what the system refuses (a full disk, a closed output) is an error, not a traceback."""
    gc.set_threshold(_ALLOCATIONS)
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
