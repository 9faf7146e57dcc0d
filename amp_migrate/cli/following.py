"""The command that comes next, as it can be typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from amp_migrate.files.git import GitError
from amp_migrate.files.since import Since
from amp_migrate.report.findings import shown
from amp_migrate.report.scripts import is_run
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import PLAIN

# What decides about the migration; the rest of the options says how it is shown.
_DECIDING = frozenset(("partial", "since", "api", "dtype", "repair_clip", "select", "ignore"))


def command_that_writes(context: click.Context, results: Sequence[Result], ignored: Sequence[str]) -> str | None:
    """The command that was given, with --write; None where it cannot be typed. Plain loops that were only reported are
    left out, beside the codes that are `ignored` already.
    """
    paths = list(context.params["paths"])
    options = [*_given(context), "--write"]
    if any(result.form == PLAIN and result.status == "left" for result in results) and context.params["check"]:
        options = [*_given(context, but="ignore"), "--ignore", ",".join(dict.fromkeys([*ignored, PLAIN])), "--write"]
    group = context.parent.command if context.parent is not None else None
    words = ["migrate"] if isinstance(group, click.Group) and paths[0] in group.list_commands(context) else []
    words += [*options, "--", *paths] if any(path.startswith("-") for path in paths) else [*paths, *options]
    return _typed(words)


def command_that_verifies(results: Sequence[Result]) -> str | None:
    """What runs a script of those that were written beside what git has of it; None without such a script."""
    written = [result for result in results if result.changed]
    script = next((one for one in written if one.path.endswith(".py") and is_run(one.source)), None)
    if script is None or not _are_committed(written):
        return None
    return _typed(["verify", shown(script.path)])


def _are_committed(written: Sequence[Result]) -> bool:
    """True where git has what these files were before they were written."""
    try:
        since = Since("HEAD", Path(written[0].path).parent)
        names = {os.path.relpath(os.path.realpath(one.path), since.root): one.source for one in written}
        return since.before(names) == names
    except (GitError, ValueError):  # another drive
        return False


def _given(context: click.Context, but: str = "") -> Iterator[str]:
    """The options of the command line that decide about the migration."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _DECIDING - {but} or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        for one in value if isinstance(value, tuple) else [value]:
            yield from [parameter.opts[0]] if value is True else [parameter.opts[0], str(one)]


def _typed(words: Sequence[str]) -> str | None:
    """A command for a shell; None where a word is nothing to be typed."""
    command = shlex.join(["amp-migrate", *words])
    return command if command.isprintable() else None
