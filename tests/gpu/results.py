"""The results as a page for people and as data."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.gpu.fixtures import FixtureVerdict
from tests.gpu.machine import Machine
from tests.gpu.models import Expectation, ModelResult, expectations

_OF_A_CPU = (
    "CUDA was redirected to the CPU and the models were tiny: this shows that the command runs, no speed and no memory."
)


@dataclasses.dataclass(frozen=True)
class Results:
    machine: Machine
    fixtures: list[FixtureVerdict]
    models: list[ModelResult]
    seconds: dict[str, float]  # that each part took

    @property
    def expectations(self) -> list[Expectation]:
        return [one for model in self.models for one in expectations(model)]

    @property
    def all_verdicts_expected(self) -> bool:
        return all(one.as_expected for one in self.fixtures) and all(one.verdict == "same" for one in self.models)


def write(results: Results, folder: Path) -> list[Path]:
    """Write DATE-DEVICE.md and .json; where either is there already, both get a number. The paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    device = re.sub(r"[^a-z0-9]+", "-", results.machine.device.lower()).strip("-")
    stem = f"{results.machine.date}-{device}"
    stems = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    free = next(one for one in stems if not any((folder / f"{one}{suffix}").exists() for suffix in (".md", ".json")))
    data = {**dataclasses.asdict(results), "expectations": [dataclasses.asdict(one) for one in results.expectations]}
    texts = {folder / f"{free}.md": "\n".join(_page(results)), folder / f"{free}.json": json.dumps(data, indent=1)}
    for path, text in texts.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    return list(texts)


def _page(results: Results) -> Iterator[str]:
    machine = dataclasses.asdict(results.machine)
    yield f"# {results.machine.date}, {results.machine.device}\n"
    if results.machine.device == "cpu":
        yield f"{_OF_A_CPU}\n"
    yield from _table(["", ""], [[name.replace("_", " "), _text(value)] for name, value in machine.items()])
    if results.fixtures:
        yield from _fixtures(results)
    if results.models:
        yield from _models(results)


def _fixtures(results: Results) -> Iterator[str]:
    """What is not as expected comes first."""
    verdicts = sorted(results.fixtures, key=lambda one: one.as_expected)
    expected = sum(one.as_expected for one in verdicts)
    yield "## Fixtures\n"
    yield f"{expected} of {len(verdicts)} have the verdict that they state, in {results.seconds['fixtures']:.0f} s.\n"
    rows = [
        [
            one.fixture,
            one.verdict if one.as_expected else f"**{one.verdict}: {one.reason}**",
            one.expected,
            f"{one.seconds:.1f}",
        ]
        for one in verdicts
    ]
    yield from _table(["fixture", "verdict", "expected", "seconds"], rows)


def _models(results: Results) -> Iterator[str]:
    yield "## Models\n"
    yield f"In {results.seconds['models']:.0f} s. Original against migrated script:\n"
    yield from _table(["model", "verdict", "reason"], [[one.model, one.verdict, one.reason] for one in results.models])
    yield "Ratios of times per step: the median, the least and the most over the rounds, each from its median step.\n"
    rows = [
        [one.what, one.expected, one.found.text(1, ".3f"), "yes" if one.met else "**no**"]
        for one in results.expectations
    ]
    yield from _table(["ratio", "expected", "found", "as expected"], rows)
    yield "Milliseconds for a step (the median, the least and the most over all rounds), and peak memory in MiB:\n"
    rows = [
        [
            model.model,
            variant,
            timing.step.text(1e3, ".2f"),
            f"{timing.peak_bytes / 2**20:.0f}" if timing.peak_bytes else "not measured",
        ]
        for model in results.models
        for variant, timing in model.timings.items()
    ]
    yield from _table(["model", "variant", "step", "peak"], rows)


def _table(titles: list[str], rows: list[list[str]]) -> Iterator[str]:
    for cells in (titles, ["---"] * len(titles), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _text(value: object) -> str:
    return {None: "unknown", True: "yes", False: "no"}.get(value, str(value))
