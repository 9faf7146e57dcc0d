"""Measures all operations, and writes the table."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from amp_migrate import models
from tests.operations.answers import Answer, answers
from tests.operations.asking import Asker, fake_cuda
from tests.operations.probes import probe, together
from tests.operations.public import Public, public
from tests.operations.questions import NO_ANSWER, RAISES
from tests.operations.rows import explained, row, wrong
from tests.operations.samples import Samples, samples
from tests.operations.trees import cloned
from tests.operations.workers import results

TABLE = Path(models.__file__).parent / "torch.json"


def prepare() -> dict[str, Public]:
    """All names, and what the forked processes share, imported once."""
    import torch._dynamo
    from torch.testing._internal import common_methods_invocations, common_modules  # noqa: F401

    import amp_migrate.verify.redirect  # noqa: F401

    torch.set_num_threads(1)
    every = public()
    samples(every["torch.abs"])  # what torch's tests read of themselves is read once, and not by each process
    return every


def measured(operation: Public, fake: Asker) -> tuple[dict[str, Any], list[tuple[Answer, str]]] | None:
    """The row of one operation, and the answers that it does not explain; None without a sample. Call it in a process
    of its own.
    """
    found = samples(operation)
    if not found.calls:
        return None
    parameters = _has_parameters(operation, found)
    probes = [probe(call, sample) for sample, call in zip(found.calls, _doubles(operation, found), strict=True)]
    known = [one for one in probes if one is not None]
    told = answers(operation, found, fake, parameters)
    fields = row(operation, found, told, together(known) if known else None, parameters)
    for one in told:
        if (
            one.fake not in ("", one.letter, NO_ANSWER)
            and one.autocast
            and one.question in "hf"
            and one.letter != RAISES
        ):
            print(f"{operation.name}: {one.question} autocast: fake tensors say {one.fake}, the redirect {one.letter}")
    sys.stdout.flush()
    return fields, wrong(explained(operation, told, parameters), told)


def _has_parameters(operation: Public, found: Samples) -> bool:
    made = found.calls[0].made
    return made is not None and any(True for _ in operation.call(*cloned(made[0]), **cloned(made[1])).parameters())


def _doubles(operation: Public, found: Samples) -> list[Callable[..., Any]]:
    """For each sample what the probes call: a layer is made in float64, as it trains."""
    calls = []
    for sample in found.calls:
        if sample.made is None:
            calls.append(operation.call)
        else:
            torch.default_generator.manual_seed(0)
            args, kwargs = cloned(sample.made)
            calls.append(operation.call(*args, **kwargs).train().double())
    return calls


def measure(names: Sequence[str], processes: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Rows, answers that rows do not explain, and names without a row and why."""
    every = prepare()
    fake = fake_cuda()
    rows, unexplained, missing = {}, {}, {}
    wanted = names or sorted(every)
    for done, (name, result, why) in enumerate(results(wanted, lambda name: measured(every[name], fake), processes)):
        if done % 200 == 0:
            print(f"{done} of {len(wanted)}", file=sys.stderr, flush=True)
        if result is None:
            missing[name] = why or "no sample"
            continue
        rows[name] = result[0]
        if result[1]:
            unexplained[name] = result[1]
    return dict(sorted(rows.items())), dict(sorted(unexplained.items())), dict(sorted(missing.items()))


def disagreements(names: Sequence[str], processes: int) -> list[str]:
    """A line for each row that a new measurement does not repeat."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    rows, _, missing = measure(names, processes)
    wanted = names or sorted(table.keys() | rows.keys())
    lines = []
    for name in wanted:
        before, now = table.get(name), rows.get(name)
        if before != now:
            lines.append(f"{name}: the table has {before}, measured {now} {missing.get(name, '')}")
    return lines


def write(rows: dict[str, Any], file: Path) -> None:
    """One row a line, sorted."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in rows.items()]
    version = torch.__version__.partition("+")[0]
    file.write_text(f'{{"torch": "{version}", "rows": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def explain_nothing(unexplained: dict[str, list[tuple[Answer, str]]]) -> list[str]:
    """A line for each row that does not explain all answers."""
    lines = []
    for name, found in unexplained.items():
        parts = itertools.groupby(found, key=lambda pair: pair[0].autocast)
        text = {
            ("autocast" if autocast else "plain"): " ".join(
                dict.fromkeys(f"{one.question}={one.letter}, not {said};" for one, said in pairs)
            )
            for autocast, pairs in parts
        }
        lines.append(f"{name}: {text}")
    return lines
