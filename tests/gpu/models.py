"""Three larger models, each in float32, with Apex AMP (migrated when this runs), and with native AMP by hand."""

from __future__ import annotations

import dataclasses
import math
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from amp_migrate import Options, migrate_source
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify
from tests.gpu.timing import Schedule, Spread, Timing, ratio, time_variants

SCRIPTS = Path(__file__).parent / "scripts"
VARIANTS = ("fp32", "migrated", "handwritten")
_STEPS_OF_VERIFY = 12  # the verdict compares ten updates, and some may be skipped
_SCHEDULES = {"cuda": Schedule(rounds=5, warm_up=10, steps=20), "cpu": Schedule(rounds=3, warm_up=1, steps=3)}
_NOISE = 0.02  # what two equal scripts may differ by, beside the spread of the rounds


@dataclasses.dataclass(frozen=True)
class Model:
    """One folder of scripts; its full size is the defaults of their arguments.

    `at_least` and `at_most` say how many times as long as mixed precision float32 takes for a step.
    """

    name: str
    tiny: str  # arguments that shrink it, for the CPU
    at_least: float = 0.0
    at_most: float = math.inf


# Published for V100 and T4: BERT takes 50 to 60 % less time, the U-Net 5 to 30 %, a small network gains nothing.
MODELS = [
    Model("feed_forward", "--hidden 16 --features 8", at_most=1.1),
    Model("unet", "--batch-size 2 --size 16 --channels 4 --levels 2", at_least=1.05),
    Model(
        "bert_base",
        "--batch-size 4 --length 8 --vocabulary 50 --positions 8 --width 16 --heads 2 --layers 2",
        at_least=1.5,
    ),
]


@dataclasses.dataclass(frozen=True)
class ModelResult:
    model: str
    verdict: str  # of the original against the migrated script
    reason: str
    timings: dict[str, Timing]  # by variant


@dataclasses.dataclass(frozen=True)
class Expectation:
    """A ratio of times per step, over the rounds, and whether it is what we expect."""

    what: str
    expected: str
    found: Spread
    met: bool


def measure_models(models: list[Model], device: str, tell: Callable[[str], None]) -> list[ModelResult]:
    """One after the other; `tell` is given a line when one is ready."""
    results = []
    with Pool(device) as pool:
        for model in models:
            results.append(_measure(model, device, pool))
            tell(f"{model.name}: {results[-1].verdict}: {results[-1].reason}")
    return results


def _measure(model: Model, device: str, pool: Pool) -> ModelResult:
    """Compare the original with the migrated script, then time the variants, without the recorder."""
    arguments = tuple(model.tiny.split()) if device == "cpu" else ()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "scripts")
        shutil.copytree(SCRIPTS / model.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "migrated.py").write_bytes(migrate(model))
        outputs = Path(place, "outputs")
        outputs.mkdir()
        pair = [Program(name, folder / f"{name}.py", arguments, folder, {}) for name in ("original", "migrated")]
        found = verify(*pair, Settings(steps=_STEPS_OF_VERIFY), pool, outputs, lambda run, steps: None)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            timings = process.submit(time_variants, folder, VARIANTS, arguments, _SCHEDULES[device], device).result()
    return ModelResult(model.name, found.verdict, found.reason, timings)


def migrate(model: Model) -> bytes:
    """The migrated script."""
    result = migrate_source((SCRIPTS / model.name / "original.py").read_bytes(), Options(api="torch.amp"))
    if result.status != "migrated":
        raise RuntimeError(f"{model.name}: {result.status}: {result.findings}")
    return result.output


def expectations(result: ModelResult) -> list[Expectation]:
    """What the times of a model should show, and what they show."""
    model = next(model for model in MODELS if model.name == result.model)
    timings = result.timings
    cost, gain = ratio(timings["migrated"], timings["handwritten"]), ratio(timings["fp32"], timings["migrated"])
    wanted = f"at least {model.at_least}" if model.at_least else f"no gain: at most {model.at_most}"
    return [
        Expectation(
            f"{model.name}: migrated over handwritten",
            f"1.00 within the spread of the rounds and {_NOISE:.0%}",
            cost,
            cost.least - _NOISE <= 1 <= cost.most + _NOISE,
        ),
        Expectation(f"{model.name}: fp32 over migrated", wanted, gain, model.at_least <= gain.median <= model.at_most),
    ]
