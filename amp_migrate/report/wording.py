"""One line for each change and each finding, in the formats that other tools read."""

from __future__ import annotations

from amp_migrate.findings import Finding
from amp_migrate.rules.rule import Kind
from amp_migrate.rules.source_forms import COMPANIONS, TITLES

_NATIVE = {COMPANIONS: "parts of torch"}

Severity = str  # "note", "warning", "error"
_SEVERITIES: dict[Kind, Severity] = {
    "note": "note",
    "attention": "warning",
    "breach": "error",
    "refusal": "warning",
    "error": "error",
}


def severity(finding: Finding) -> Severity:
    """How much a finding wants to be seen: a unit that stays is a warning, a file that could not be read an error."""
    return severity_of(finding.rule.kind)


def severity_of(kind: Kind) -> Severity:
    """How much a kind of finding wants to be seen."""
    return _SEVERITIES[kind]


def change(form: str, *, written: bool) -> str:
    """What a migration makes of a source form."""
    return f"{TITLES[form]} {'became' if written else 'becomes'} native {_NATIVE.get(form, 'mixed precision')}"


def in_full(finding: Finding) -> str:
    """What was found, why it matters, and what to do by hand."""
    return f"{finding.message}\nwhy: {finding.why}\ndo: {finding.what_to_do}"


def sentence(text: str) -> str:
    """A text of a code, which begins small and ends without a full stop, as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "`")) else ".")
