"""The two programs that are compared: their files, where they run, and with which arguments."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from amp_migrate.files.git import GitError
from amp_migrate.files.neighbours import local_modules
from amp_migrate.files.since import Since
from amp_migrate.options import Options
from amp_migrate.project import migrate_program
from amp_migrate.report.findings import finding_lines
from amp_migrate.result import Result
from amp_migrate.verify.errors import NotComparableError
from amp_migrate.verify.mirror import Mirror, is_copied_whole
from amp_migrate.verify.notebook import notebook_source
from amp_migrate.verify.version import Version, version_of


@dataclasses.dataclass(frozen=True)
class Program:
    """One side. `changed` holds files whose content differs from the disk's, by their absolute path."""

    title: str
    script: Path  # absolute, on the user's disk
    args: tuple[str, ...]
    folder: Path  # the working directory
    changed: dict[Path, bytes]
    version: Version = dataclasses.field(default_factory=Version)

    def mirrors(self, place: Path) -> list[Mirror]:
        """Fresh mirrors, in the empty folder `place`, of the project and of the working directory."""
        project = _project_of(self.script, self.folder)
        roots = [self.folder] if project.is_relative_to(self.folder) else [project]
        if not self.folder.is_relative_to(roots[0]):
            roots.append(self.folder)
        mirrors = [Mirror.make(place / str(number), root, project, self.changed) for number, root in enumerate(roots)]
        for mirror in mirrors:
            for path in (self.folder, self.script.parent):
                if path.is_relative_to(mirror.real):
                    mirror.detach(mirror.path(path))
        return mirrors


def _project_of(script: Path, folder: Path) -> Path:
    """The repository that holds the script, else the working directory, if that is no home directory, or its folder."""
    for parent in script.parents:
        if (parent / ".git").exists():
            return parent
    return folder if script.is_relative_to(folder) and is_copied_whole(folder) else script.parent


def migrated_pair(
    script: Path, before_args: tuple[str, ...], after_args: tuple[str, ...], options: Options
) -> tuple[Program, Program]:
    """A script as it is, and migrated together with the local modules that it imports. Of one that is migrated already
    the original is what git has.

    Raises NotComparableError where the migration leaves the script alone.
    """
    folder = Path.cwd()
    script = Path(os.path.abspath(script))
    runnable, changed = _as_script(script)
    source = changed[runnable] if runnable in changed else runnable.read_bytes()
    results = _migrated(runnable, source, options)
    changed_after = {**changed, **{Path(result.path): result.output for result in results}}
    if changed_after == changed:
        changed = {**changed, **_committed(runnable, source)}
    if changed_after == changed:
        raise NotComparableError(
            f"{script.name}: there is nothing to migrate; --before and --after compare two scripts that exist"
        )
    versions = [
        version_of(script, runnable, one, {*changed, *changed_after} - {runnable}) for one in (changed, changed_after)
    ]
    before = Program("original", runnable, before_args, folder, changed, version=versions[0])
    return before, Program("migrated", runnable, after_args, folder, changed_after, versions[1])


def _committed(script: Path, source: bytes) -> dict[Path, bytes]:
    """What was committed of a script and the local modules that it imports, where they differ from it."""
    modules = (Path(os.path.abspath(file)) for file, _ in local_modules(script, source))
    program = {os.path.realpath(file): file for file in (script, *modules)}
    try:
        since = Since("HEAD", script.parent)
        names = {name: os.path.realpath(since.root / name) for name in since.names()}
        committed = since.before(name for name, file in names.items() if file in program)
        return {program[names[name]]: content for name, content in committed.items()}
    except GitError:
        return {}


def _migrated(script: Path, source: bytes, options: Options) -> list[Result]:
    """What changes of the script and of all files that it imports or that belong together with these.

    Raises NotComparableError for a script whose unit is left alone, or that cannot be processed.
    """
    results = migrate_program(script, source, options)
    own = [result for result in results if script in {Path(path) for path, _ in result.unit}]
    if any(result.status in ("left", "error") for result in own):
        findings = [finding for result in own for finding in result.findings]
        sources = {result.path: result.source for result in results}
        raise NotComparableError("not migrated:\n" + "\n".join(finding_lines(findings, sources)))
    return [result for result in results if result.changed]


def existing_pair(
    before: Path, after: Path, script: Path | None, before_args: tuple[str, ...], after_args: tuple[str, ...]
) -> tuple[Program, Program]:
    """Two scripts, or two trees that both hold `script`; scripts run here, trees in their root.

    Raises NotComparableError where a script is missing.
    """
    programs = []
    for title, path, args in (("original", before, before_args), ("migrated", after, after_args)):
        absolute = Path(os.path.abspath(path))
        folder = Path.cwd()
        if absolute.is_dir():
            folder, absolute = absolute, absolute / _script_in(path, script)
        if not absolute.is_file():
            raise NotComparableError(f"{absolute} does not exist")
        runnable, changed = _as_script(absolute)
        version = version_of(absolute, runnable, changed)
        programs.append(Program(title, runnable, args, folder, changed, version=version))
    return programs[0], programs[1]


def _script_in(tree: Path, script: Path | None) -> Path:
    if script is None or str(script).startswith("-"):
        raise NotComparableError(
            f"{tree} is a folder: name the script in it, `amp-migrate verify train.py --before {tree} ...`"
        )
    if script.is_absolute() or ".." in script.parts:
        raise NotComparableError(f"{script}: with folders, name the script by its path inside of them")
    return script


def _as_script(path: Path) -> tuple[Path, dict[Path, bytes]]:
    """A notebook becomes a script beside it, in the mirror only."""
    if path.suffix != ".ipynb":
        return path, {}
    script = path.with_suffix(".py")
    return script, {script: notebook_source(path)}
