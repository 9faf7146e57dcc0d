"""What a shell offers to complete beside what click knows: the codes.

https://click.palletsprojects.com/shell-completion
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes of source forms and findings; after a comma one more."""
    from amp_migrate.explain.page import explained, title

    before, comma, begun = incomplete.rpartition(",")
    return [
        CompletionItem(before + comma + code, help=title(code))
        for code in explained()
        if code.startswith(begun.upper()) and code not in before.split(",")
    ]


def forms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes of source forms alone: what can be selected."""
    from amp_migrate.rules.source_forms import TITLES

    return [item for item in codes(ctx, param, incomplete) if item.value.rpartition(",")[2] in TITLES]
