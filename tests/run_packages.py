"""Runs the command over the Python files of installed packages: `python -m tests.run_packages FOLDER...`.

Each package right below a FOLDER (a site-packages, a standard library) is one run of the real command on its folder,
and the modules beside them are another. What the command leaves out (`build`, `dist`, tests of environments) is not
counted. Printed are the files that would change, and the
crashes: a process that ended badly, a traceback, an internal error (AMP999). Files that do not parse (test data of
parsers) are counted and no crash. Ends with 1 where anything crashed. A person looks at the files that would change:
packages seldom train.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_TIME_LIMIT = 3600  # seconds for one package: a guard against analysis that never ends


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    paths: list[Path]
    size: int  # Python files below, the largest package first


@dataclasses.dataclass
class Outcome:
    package: Package
    seconds: float
    files: int = 0
    statuses: Counter[str] = dataclasses.field(default_factory=Counter)
    changed: list[str] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)
    crashed: list[str] = dataclasses.field(default_factory=list)


def packages(folders: list[Path]) -> Iterator[Package]:
    for folder in folders:
        loose = []
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                size = sum(1 for _ in entry.rglob("*.py"))
                if size:
                    yield Package(str(entry), [entry], size)
            elif entry.suffix == ".py":
                loose.append(entry)
        if loose:
            yield Package(str(folder), loose, len(loose))


def run(package: Package) -> Outcome:
    command = [sys.executable, "-m", "amp_migrate", "--output-format", "json", *map(str, package.paths)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=_TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(package, _TIME_LIMIT, crashed=[f"{package.name}: not done after {_TIME_LIMIT} seconds"])
    outcome = Outcome(package, time.monotonic() - start)
    if done.returncode not in (0, 2) or b"Traceback" in done.stderr or not done.stdout:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        outcome.crashed.append(f"{package.name}: exit code {done.returncode}: {''.join(last)}")
        return outcome
    _read(json.loads(done.stdout), outcome)
    return outcome


def _read(report: dict, outcome: Outcome) -> None:
    outcome.files = sum(report["summary"]["files"].values())
    for file in report["files"]:
        outcome.statuses[file["status"]] += 1
        if file["diff"]:
            outcome.changed.append(f"{file['path']}: {file['form']}")
        for finding in file["findings"]:
            said = f"{finding['path']}:{finding['line']}: {finding['code']} {finding['message']}"
            if finding["code"] == "AMP999":
                outcome.crashed.append(said)
            elif finding["kind"] in ("refusal", "error"):
                outcome.refused.append(said)


def main(folders: list[str], *, workers: int) -> int:
    files = crashes = 0
    totals: Counter[str] = Counter()
    todo = sorted(packages([Path(folder) for folder in folders]), key=lambda one: -one.size)
    with ThreadPoolExecutor(workers) as pool:
        for outcome in pool.map(run, todo):
            files += outcome.files
            crashes += len(outcome.crashed)
            totals += outcome.statuses
            print(f"{outcome.package.name}: {outcome.files} files, {outcome.seconds:.1f} s", flush=True)
            for kind in ("changed", "refused", "crashed"):
                for line in getattr(outcome, kind):
                    print(f"  {kind}: {line}", flush=True)
    print(f"{files} files, {dict(totals)}, {crashes} crashes")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], workers=int(os.environ.get("WORKERS", "1"))))
