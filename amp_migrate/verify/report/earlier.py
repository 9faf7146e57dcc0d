"""The runs whose `--json` lies beside a repository's page, as parts of that page.

A run is found by the path of its script, and shown only while the original and the migrated code are those that ran.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from amp_migrate.report.diff import repository_path
from amp_migrate.report.file_section import Run
from amp_migrate.result import Result
from amp_migrate.verify.comparison import JSON_VERSION, TOOL, Comparison
from amp_migrate.verify.report.html import section, stale_section

_HEAD = 200  # bytes in which a file says what it is; the others beside a page can be large


def runs_beside(page: Path, results: Sequence[Result]) -> tuple[dict[str, list[Run]], list[str]]:
    """What was found about scripts, by the paths of their results; and what is wrong with files, in words."""
    before = {Path(os.path.realpath(one.path)): one.source for one in results}
    after = {Path(os.path.realpath(one.path)): one.output for one in results}
    scripts = {repository_path(one.path): one for one in results if one.path != "-"}
    shown: dict[str, list[Run]] = {}
    stale: dict[str, list[Run]] = {}
    problems: list[str] = []
    for file in sorted(page.absolute().parent.glob("*.json")):
        if not _is_ours(file):
            continue
        try:
            run = _read(file)
            result = scripts.get(run.before.version.script)
            if result is not None and _is_current(run, result, before, after):
                shown.setdefault(result.path, []).append(Run(run.verdict, section(run)))
            elif result is not None:
                stale.setdefault(result.path, []).append(Run("another version", stale_section(run)))
        except Exception as error:  # what somebody has cut off or edited must not cost the page
            problems.append(f"{file.name} is no result of amp-migrate verify that can be read: {error!r}")
    return {**stale, **shown}, problems


def _is_ours(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return f'"tool": "{TOOL}"'.encode() in opened.read(_HEAD)
    except OSError:
        return False


def _read(file: Path) -> Comparison:
    """Raises ValueError, KeyError and the like for what is none of ours any more."""
    data = json.loads(file.read_bytes())
    if data["version"] != JSON_VERSION:
        raise ValueError(f"of version {data['version']}, not {JSON_VERSION}")
    return Comparison.of(data)


def _is_current(run: Comparison, result: Result, before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> bool:
    script = Path(os.path.realpath(result.path))
    same_script = run.before.version.script == run.after.version.script
    return same_script and run.before.version.is_of(script, before) and run.after.version.is_of(script, after)
