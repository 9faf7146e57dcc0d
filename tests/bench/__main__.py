"""`python -m tests.bench FOLDER [--runs N]`: the ratios of docs/performance.md, measured on a folder of Python code."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from amp_migrate import migrate_project
from amp_migrate.files.discover import find_files
from tests.bench.cost import side_by_side

_WORDS = ("apex", "fp16", "backward", "autocast", "GradScaler")  # what a person would search for
_PARSE = "import sys, libcst\nfor name in sys.argv[1:]:\n    libcst.parse_module(open(name, 'rb').read())"
_ENOUGH_FOR_TWO = 20  # files with something to migrate


def _tool(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "amp_migrate", *arguments]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--runs", default=3, show_default=True, help="Of how many runs the least cost counts.")
def bench(folder: Path, runs: int) -> None:
    """Measure amp-migrate beside other tools on the Python files of FOLDER, and print ratios."""
    files = list(find_files([folder]))
    hits = [Path(result.path) for result in migrate_project(folder) if result.status != "untouched"]
    click.echo(_machine())
    click.echo(
        f"{folder.name}: {len(files)} Python files, {_megabytes(files):.1f} MB; {len(hits)} with something to say"
    )
    with tempfile.TemporaryDirectory() as temporary:
        for line in _measured(folder, files, hits, Path(temporary), runs):
            click.echo(line)


def _measured(folder: Path, files: list[Path], hits: list[Path], temporary: Path, runs: int) -> Iterator[str]:
    python = sys.executable
    starts = side_by_side({"click": [python, "-c", "import click"], "version": _tool("--version")}, 5 * runs)
    yield _ratio("--version, wall", starts["version"].wall, "import click", starts["click"].wall, 2)

    empty = temporary / "nothing"
    _copied(folder, [file for file in files if not _says(file)], empty)
    nothing = side_by_side(
        {"tool": _tool(str(empty), "-q"), "grep": ["grep", "-rlE", "|".join(_WORDS), str(empty)]}, max(runs, 5)
    )
    allowed = 3 * nothing["grep"].wall + starts["click"].wall
    yield _ratio("nothing to do, wall", nothing["tool"].wall, "3 grep + import click", allowed, 1)
    if not hits:
        return

    commands = {
        "tool": _tool(str(folder), "-q", "-W1"),
        "parse": [python, "-c", _PARSE, *map(str, hits)],
        "import": [python, "-c", _PARSE],
        "two": _tool(str(folder), "-q", "-W2"),
    }
    torchfix = shutil.which("torchfix")
    if torchfix is not None:
        commands["torchfix"] = [torchfix, "--select", "ALL", str(folder)]
    cost = side_by_side(commands, runs)
    parsing = cost["parse"].cpu - cost["import"].cpu
    yield _ratio("dry run, CPU", cost["tool"].cpu, "LibCST's parser on the hits", parsing, 3)
    if torchfix is not None:
        yield _ratio("dry run, CPU", cost["tool"].cpu, "TorchFix", cost["torchfix"].cpu, 1 / 15)
    if len(hits) >= _ENOUGH_FOR_TWO:
        yield _ratio("one worker, wall", cost["tool"].wall, "two workers", cost["two"].wall, 1.6, at_least=True)

    twice = temporary / "twice"
    for name in ("one", "two"):
        _copied(folder, files, twice / name)
    memory = side_by_side({"twice": _tool(str(twice), "-q", "-W1")}, 1)["twice"].memory
    yield _ratio("memory, twice the files", memory, "once", cost["tool"].memory, 1.2)


def _ratio(what: str, ours: float, beside: str, theirs: float, goal: float, *, at_least: bool = False) -> str:
    ratio = ours / theirs
    is_met = ratio >= goal if at_least else ratio <= goal
    sign = ">=" if at_least else "<="
    return f"{what:24} {ours:8.2f}  {beside:28} {theirs:8.2f}  {ratio:7.2f} {sign} {goal:.2f}  {'' if is_met else 'MISSED'}"


def _machine() -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in ("libcst", "click", "torchfix"))
    return f"{os.cpu_count()} CPUs, {platform.system()}, Python {platform.python_version()}, {versions}"


def _version(name: str) -> str:
    """The version of a package, or of a program: TorchFix needs an older LibCST, and an environment of its own."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        program = shutil.which(name)
        said = subprocess.run([program, "--version"], capture_output=True, text=True) if program else None
        return said.stdout.strip() if said is not None else "not there"


def _megabytes(files: list[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


def _says(file: Path) -> bool:
    source = file.read_bytes()
    return any(word.encode() in source for word in _WORDS)


def _copied(folder: Path, files: list[Path], target: Path) -> None:
    for file in files:
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


if __name__ == "__main__":
    bench()
