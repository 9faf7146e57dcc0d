"""Across a restart: a script that saves and resumes goes on with the loss scale that it had."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record


def restart_lines(original: list[Record], migrated: list[Record]) -> Iterator[Line]:
    """Each list holds the records before and after the restart."""
    expected, found = _scales(original), _scales(migrated)
    if found is None:
        return
    number, threshold = f"{found[1]:g}", f"= {found[0]:g}"
    if migrated[0].scalers[-1].first_scale == found[0]:
        text = "the scale had not moved, so this shows nothing: run longer before the restart"
        yield Line("restored loss scale", "note", number, threshold, text)
        return
    if found[0] == found[1]:
        yield Line("restored loss scale", "ok", number, threshold)
    elif expected is not None and expected[0] != expected[1]:
        yield Line("restored loss scale", "note", number, threshold, "the original does not restore it, either")
    else:
        text = "the checkpoint does not restore the scaler: save and load scaler.state_dict()"
        yield Line("restored loss scale", "different", number, threshold, text)


def _scales(records: list[Record]) -> tuple[float, float] | None:
    """At the end of the first run and at the start of the second; None without scalers in both."""
    before, after = (record.scalers for record in records)
    return (before[-1].last_scale, after[0].first_scale) if before and after else None
