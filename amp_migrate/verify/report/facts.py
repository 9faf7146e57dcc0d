"""What was compared, in words: the parts that the terminal and the page share."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from amp_migrate.verify.comparison import Comparison, Side
from amp_migrate.verify.form import form_of
from amp_migrate.verify.record import Record, Scaler
from amp_migrate.verify.report.series import Points, curves, phases, seconds_per_step


class Row(NamedTuple):
    """One fact about both sides."""

    label: str
    before: str
    after: str


def rows(comparison: Comparison) -> list[Row]:
    """The facts that at least one side has."""
    before = _facts(comparison, comparison.before, phases(comparison, "original"))
    after = _facts(comparison, comparison.after, phases(comparison, "migrated"))
    return [Row(label, before[label] or "-", after[label] or "-") for label in before if before[label] or after[label]]


def failures(comparison: Comparison) -> list[tuple[str, str]]:
    """The name of each run that ended with an exception, and the exception."""
    return [
        (name, f"{failure.path}:{failure.line}: {failure.kind}: {failure.message}")
        for name, record in comparison.runs.items()
        if (failure := record.failure)
    ]


def on_gpu(comparison: Comparison) -> bool:
    """Where time and memory mean something."""
    return comparison.device != "cpu"


def milliseconds(seconds: float) -> str:
    """Of a time in seconds."""
    return f"{seconds * 1e3:.3g} ms"


def mebibytes(size: float) -> str:
    """Of a size in bytes."""
    return f"{size / 2**20:,.0f} MiB"


def _facts(comparison: Comparison, side: Side, records: list[Record]) -> dict[str, str]:
    record = records[0] if records else Record()
    applied = [curve.losses for curve in curves(records).values()]
    skipped = sum(one.skipped for one in records)
    facts = {
        "script": side.script,
        "arguments": shlex.join(side.args),
        "outcome": ", ".join(one.outcome for one in records) or "not run",
        "device": comparison.device,
        "torch": record.torch,
        "form": form_of(record) if record.steps else "",
        "apex": ", ".join([record.apex, *dict.fromkeys(record.levels)]) if record.apex else "",
        "updates": _updates(applied, skipped),
        "last loss": ", ".join(f"{losses[-1][1]:.6g}" for losses in applied if losses),
        "loss scale": "; ".join(_scales(scaler) for one in records for scaler in one.scalers),
        "output": side.output,
    }
    if on_gpu(comparison):
        seconds = seconds_per_step(record)
        facts["time per step"] = "" if seconds is None else milliseconds(seconds)
        facts["peak memory"] = "" if record.peak_bytes is None else mebibytes(record.peak_bytes)
    return facts


def _scales(scaler: Scaler) -> str:
    first, last = f"{scaler.first_scale:g}", f"{scaler.last_scale:g}"
    return first if first == last else f"{first} to {last}"


def _updates(applied: list[Points], skipped: int) -> str:
    count = " + ".join(str(len(losses)) for losses in applied) or "0"
    return f"{count}, {skipped} skipped" if skipped else count
