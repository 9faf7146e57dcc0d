"""A page for each code, in Markdown; a terminal shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_migrate.forms import FORMS
from amp_migrate.line_matcher import hunks_of
from amp_migrate.options import Options
from amp_migrate.report.wording import sentence
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.rule import Rule
from amp_migrate.rules.source_forms import TITLES

# A script for each code, and no Python files: nobody runs, checks or migrates them by accident.
EXAMPLES = Path(__file__).parent / "examples"
_KINDS = {
    "note": "A note: for information; it goes with what is migrated, or with what stands beside it.",
    "attention": "Wants a look before you merge.",
    "breach": "A mistake in a migration by a person or an agent: said by `amp-migrate judge`.",
    "refusal": "The unit is left alone.",
    "error": "The file could not be processed.",
}


def explained() -> list[str]:
    """The codes that there is a page for: those that can be shown."""
    return [*TITLES, *(code for code, rule in RULES.items() if rule.kind != "silence" and code not in TITLES)]


def title(code: str) -> str:
    """What a code stands for, in a few words."""
    return TITLES[code] if code in TITLES else RULES[code].title


def page(code: str) -> str:
    """What a code means, in Markdown. Raises KeyError for an unknown one."""
    parts = _form(code) if code in FORMS else _rule(RULES[code])
    return "\n\n".join([f"# {code}: {title(code)}", *parts, *_example(code), *_silencing(code)]) + "\n"


def _form(code: str) -> Iterator[str]:
    form = FORMS[code]
    yield f"A source form. {form.what}"
    yield f"**Why it matters.** {form.why}"
    yield f"**When it stays.** {form.stays}"
    yield "**Links.** " + ", ".join(f"<{link}>" for link in form.links)


def _rule(rule: Rule) -> Iterator[str]:
    yield _KINDS[rule.kind]
    yield f"**Why it matters.** {sentence(rule.why)}"
    yield f"**What to do by hand.** {sentence(rule.what_to_do)}"
    for case in rule.cases.values():
        yield f"## Where {case.title}"
        yield sentence(case.why)
        yield f"**What to do by hand.** {sentence(case.what_to_do)}"


def _example(code: str) -> Iterator[str]:
    """A script that leads to it, with what is said, and what becomes of it: found out anew each time."""
    file = EXAMPLES / f"{code}.txt"
    if not file.exists():
        return
    from amp_migrate.project import migrate_source

    result = migrate_source(file.read_bytes(), Options(api="torch.amp"))
    yield "## Example"
    before = result.source.decode()
    yield f"```python\n{before}```"
    said = [one for one in result.findings if code in (one.code, *FORMS)]
    if said:
        lines = "\n".join(f"line {one.line}: {one.code} {one.message}" for one in said)
        yield f"```text\n{lines}\n```"
    if result.changed:
        _, *hunk = hunks_of(before.splitlines(True), result.output.decode().splitlines(True), context=99)
        yield "It becomes"
        yield f"```diff\n{''.join(hunk)}```"


def _silencing(code: str) -> Iterator[str]:
    yield (
        f'To leave it out: `--ignore {code}`, `ignore = ["{code}"]` in `[tool.amp-migrate]` of pyproject.toml, or '
        f"`# amp-migrate: ignore[{code}]` at the end of the line, or of the first line of the block."
    )
