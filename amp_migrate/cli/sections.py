"""Help that shows options in sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class InSections(click.Command):
    """A command whose help has the options under titles: `sections` gives the names of each title's options, and what
    is in none of them comes last, under "Other".
    """

    def __init__(self, *args: Any, sections: Mapping[str, tuple[str, ...]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [(one, one.get_help_record(ctx)) for one in self.get_params(ctx) if isinstance(one, click.Option)]
        placed = {name for names in self._sections.values() for name in names}
        rest = tuple(str(one.name) for one, _ in shown if one.name not in placed)
        for title, names in {**self._sections, "Other": rest}.items():
            with formatter.section(title):
                formatter.write_dl([record for one, record in shown if one.name in names and record is not None])
