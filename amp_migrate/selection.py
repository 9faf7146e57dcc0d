"""What `--select` and `--ignore` choose: source forms, rule groups and findings, by the beginnings of their codes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from amp_migrate.rules.source_forms import TITLES


def known_codes() -> tuple[str, ...]:
    """The codes of all source forms and findings."""
    from amp_migrate.rules.catalogue import RULES  # for who gives codes

    return (*TITLES, *RULES)


def wrong_with(codes: Iterable[str], *, are_selected: bool) -> str | None:
    """What to say of the first code that begins no known one. The code of a finding can be ignored, but selecting it
    would look for nothing.
    """
    for code in codes:
        if not any(known.startswith(code) for known in known_codes()):
            return f"{code} is no code of amp-migrate"
        if are_selected and not any(form.startswith(code) for form in TITLES):
            return f"{code} is a finding; what is looked for are {', '.join(TITLES)}"
    return None


@dataclasses.dataclass(frozen=True)
class Selection:
    """Codes of source forms (`AMP050`), of findings (`AMP104`), or the beginnings of some (`AMP4`).

    With `select`, only those forms are looked for. What is in `ignore` is not, and its findings are not shown.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def has(self, form: str) -> bool:
        """True for a form that is to be migrated or reported."""
        return (not self.select or self.names(form)) and not form.startswith(self.ignore or ("?",))

    def names(self, form: str) -> bool:
        """True for a form that is selected by its code, not only by default."""
        return form.startswith(self.select or ("?",))

    def shows(self, code: str) -> bool:
        """True for a finding that is to be shown."""
        return not code.startswith(self.ignore or ("?",))
