"""`python -m tests.gpu`: fixtures and larger models on a GPU, written to docs/results/."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from tests.fixture import FIXTURES
from tests.gpu.fixtures import judge_fixtures
from tests.gpu.machine import ROOT, this_machine
from tests.gpu.models import MODELS, measure_models
from tests.gpu.results import Results, write

RESULTS = ROOT / "docs" / "results"


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 where every verdict is the expected one, 1 where one is not, 2 where nothing was run."""
    parser = _parser()
    options = parser.parse_args(argv)
    wanted = options.only or [*(fixture.name for fixture in FIXTURES), *(model.name for model in MODELS)]
    fixtures = [fixture for fixture in FIXTURES if fixture.name in wanted]
    models = [model for model in MODELS if model.name in wanted]
    unknown = set(wanted) - {one.name for one in [*fixtures, *models]}
    if unknown:
        parser.error(f"no fixture and no model: {', '.join(sorted(unknown))}")
    refusal = _why_not(options.device, options.output)
    if refusal is not None:
        print(refusal, file=sys.stderr)
        return 2
    machine = this_machine(options.device, options.commit)  # before the runs: the commit may move on meanwhile
    begin = time.monotonic()
    verdicts = judge_fixtures(fixtures, options.device, _tell) if fixtures else []
    between = time.monotonic()
    measured = measure_models(models, options.device, _tell) if models else []
    seconds = {"fixtures": between - begin, "models": time.monotonic() - between}
    results = Results(machine, verdicts, measured, seconds)
    for path in write(results, options.output):
        _tell(f"written: {path}")
    return 0 if results.all_verdicts_expected else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description="See docs/results/README.md.")
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="cpu: tiny sizes, to test the command"
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=RESULTS, help="default: docs/results")
    parser.add_argument("--commit", metavar="REVISION", help="what the files are, where they are a copy without git")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="fixtures (apex/bce_sigmoid) and models (unet)")
    return parser


def _why_not(device: str, output: Path) -> str | None:
    if device == "cuda" and not torch.cuda.is_available():
        return "torch finds no GPU here: nothing was run or written"
    if device == "cpu" and output.resolve().is_relative_to(RESULTS.resolve()):
        return "results of a CPU do not belong in docs/results: give another folder with --output"
    return None


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
