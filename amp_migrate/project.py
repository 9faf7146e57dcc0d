"""Many files: read, put together what belongs together, migrate, and write back on request."""

from __future__ import annotations

import codecs
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from amp_migrate.files.discover import find_files
from amp_migrate.files.imports import look_up_to
from amp_migrate.files.read import read_if_there, read_regular
from amp_migrate.files.syntax import parses
from amp_migrate.findings import Finding
from amp_migrate.models import configure
from amp_migrate.notebooks import Notebooks
from amp_migrate.options import Options
from amp_migrate.processes import Workers
from amp_migrate.proving import proven
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import COMPANIONS, FP16_UTILS, HALF, PLAIN
from amp_migrate.sources.gate import holds_apex_amp, holds_native_amp, imports_apex, trains
from amp_migrate.sources.own_loops import own_loop_in_float32
from amp_migrate.sources.screen import (
    line_of_apex_import,
    may_have_trained,
    may_train_for_another,
    names_of,
    speaks_of_gpu,
)
from amp_migrate.units.workspace import Workspace, in_words
from amp_migrate.wishes import as_wished

# What a file may hold that ties a unit together, in the order of precedence (rule H1).
_TIES = (holds_apex_amp, trains)


def migrate_paths(paths: Iterable[Path], options: Options, workers: Workers | None = None) -> Iterator[Result]:
    """Migrate files and folders, one Result for each file, in the order of their paths.

    Files that belong together are migrated together or not at all. Nothing is written. One bad file never stops
    the others. Without `workers` it is all done in this process. Raises FileNotFoundError for a path that is not there.
    """
    named, workers = list(paths), workers or Workers()
    closed: dict[Path, OSError] = {}
    files = [file for file in find_files(named, and_notebooks=True, closed=closed) if not _is_excluded(file, options)]
    look_up_to(named)
    contents: dict[Path, bytes] = {}
    unreadable = {folder: _failed(folder, why) for folder, why in closed.items() if not _is_excluded(folder, options)}
    workers.progress.begin("files", len(files))
    for number, file in enumerate(files):
        workers.progress.reached(number)
        try:
            content = read_regular(file)
        except OSError as error:
            unreadable[file] = _failed(file, error)
            continue
        if _trains_in_utf16(content):
            from amp_migrate.rules.files import UNDECODABLE

            finding = Finding(str(file), 1, UNDECODABLE.code, "the file is in UTF-16, which Python does not read")
            unreadable[file] = Result(str(file), content, content, "error", (finding,))
        else:
            contents[file] = content
    results = dict(zip(contents, _results(named, contents, options, workers), strict=True))
    results |= zip(unreadable, as_wished(unreadable.values(), options), strict=True)
    yield from (results[file] for file in [*files, *(folder for folder in closed if folder in results)])


def _results(named: list[Path], contents: Mapping[Path, bytes], options: Options, workers: Workers) -> Iterator[Result]:
    """The results of some files, in their order, as users want to see them: of notebooks those of notebooks."""
    notebooks = Notebooks()
    sources = {file: notebooks.script(file, content) for file, content in contents.items()}
    try:
        done = _migrated(Workspace(named, sources, options.torch, workers), options)
    finally:
        workers.progress.end()
    results = [done.get(file) or _untouched(str(file), source) for file, source in sources.items()]
    for file, result in zip(sources, as_wished(results, options), strict=True):
        yield notebooks.result(file, _marked(result) if options.partial else result)


def _marked(result: Result) -> Result:
    from amp_migrate.marks import marked  # few ask for it

    return marked(result)


def _trains_in_utf16(content: bytes) -> bool:
    """True for a script that no byte search sees, as PowerShell writes them; others are nobody's business."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    text = content.decode("utf-16", errors="replace").encode()
    return any(may_hold(text) for may_hold in _TIES)


def _is_excluded(file: Path, options: Options) -> bool:
    return options.exclude is not None and options.exclude.match(file)


def findings_beside(folders: Iterable[Path], results: Iterable[Result]) -> list[Finding]:
    """What else speaks of Apex in the folders that were migrated, and what admits a torch without native AMP:
    requirements, installation, documents.
    """
    outcomes = list(results)
    if not any(result.changed for result in outcomes):
        return []
    outputs = {os.path.realpath(result.path): result for result in outcomes}
    from amp_migrate.files.mentions import mentions, mentions_in_notebook  # not for those who have nothing to migrate

    searched = list(folders)
    found = [finding for folder in searched for finding in mentions(folder, _still_imports_apex(folder, outputs))]
    for file in (Path(result.path) for result in outcomes if result.path.endswith(".ipynb")):
        if not any(file.is_relative_to(folder) for folder in searched):
            found += mentions_in_notebook(file, _place_of_apex_import(file, outputs))
    return sorted([*found, *_without_native_amp(outputs.values())])


def _without_native_amp(results: Iterable[Result]) -> set[Finding]:
    """Where the projects of the migrated files admit a torch that cannot import what is written there now."""
    from amp_migrate.files.torch_version import declaration  # it asks for installed packages, which takes a while
    from amp_migrate.rules.beside import OLD_TORCH_ALLOWED

    needing = [Path(result.path) for result in results if result.changed and result.form != COMPANIONS]
    asked = {found for file in needing if (found := declaration(file)) is not None and found.is_before_native_amp}
    return {Finding(in_words(one.file), one.line, OLD_TORCH_ALLOWED.code, f"asks for `{one.text}`") for one in asked}


def _still_imports_apex(folder: Path, outputs: dict[str, Result]) -> str | None:
    """The first place in the Python files below a folder that imports apex after the migration."""
    places = (_place_of_apex_import(file, outputs) for file in find_files([folder], and_notebooks=True))
    return next((place for place in places if place is not None), None)


def _place_of_apex_import(file: Path, outputs: dict[str, Result]) -> str | None:
    """The first place in a file that imports apex after the migration."""
    result = outputs.get(os.path.realpath(file))
    source = result.output if result is not None else read_if_there(file)
    if file.suffix == ".ipynb":
        return _place_in_notebook(file, source)
    line = line_of_apex_import(source)
    return f"{file}:{line}" if line is not None else None


def _place_in_notebook(file: Path, source: bytes) -> str | None:
    if line_of_apex_import(source) is None:  # in an output or a text, it may be
        return None
    from amp_migrate.files.notebook import Notebook, NotebookError

    try:
        notebook = Notebook(source)
    except NotebookError:
        return None
    line = line_of_apex_import(notebook.script)
    place = notebook.place(line) if line is not None else None
    return f"{file}:cell {place.cell}:{place.line}" if place is not None else None


def migrate_stdin(source: bytes, options: Options, name: Path | None = None) -> Result:
    """Migrate standard input as if it were the file `name`, or a file of the current folder."""
    file = name or Path.cwd() / "-"
    if name is not None and _is_excluded(name, options):
        return _untouched(str(name), source)
    (result,) = _results([], {file: source}, options, Workers())
    return result if name is not None else _renamed(result, "-")


def migrate_program(script: Path, source: bytes, options: Options) -> list[Result]:
    """Migrate a script, of which the content is given, with the files that it imports and all of their units.

    The paths of the results are absolute.
    """
    from amp_migrate.files.neighbours import local_modules

    named = Path(os.path.abspath(script))
    sources = {named: source} | {Path(os.path.abspath(file)): found for file, found in local_modules(named, source)}
    return list(_migrated(Workspace([named], sources, options.torch), options, whole_units=True).values())


def migrate_source(source: bytes, options: Options) -> Result:
    """Migrate the content of one file, about whose place and neighbours nothing is known."""
    configure(options.operations)
    result = _untouched("-", source)
    if any(may_hold(source) for may_hold in _TIES):
        from amp_migrate.engine import migrate
        from amp_migrate.facts.elsewhere import Elsewhere
        from amp_migrate.reading import Input

        outcome = migrate([Input("-", "-", source)], options, Elsewhere())
        if outcome.refusal is None or outcome.refusal.rule.kind != "silence":
            result = outcome.results[0]
    if imports_apex(source) and options.selection.has(COMPANIONS):
        from amp_migrate.companions.decisions import Surroundings
        from amp_migrate.companions.stage import migrate_companions
        from amp_migrate.facts.elsewhere import Elsewhere

        result = migrate_companions(result, "-", Elsewhere(), Surroundings()).result
    if result.status == "untouched" and holds_native_amp(source):
        from amp_migrate.native_files import native_result

        result = native_result(source, options)
    result = proven({Path("-"): result}, {}, Workers())[Path("-")]
    if result.status == "untouched" and not result.findings:
        result = _of_own_loop("-", source, options) or result
    (wished,) = as_wished([result], options)
    return wished


def _migrated(workspace: Workspace, options: Options, *, whole_units: bool = False) -> dict[Path, Result]:
    """The results of all files that may hold something to migrate; the others are not looked at any further.

    With `whole_units`, files that belong to a unit may be changed though nobody asked for them.
    """
    configure(options.operations)
    done = _with_companions(workspace, _units(workspace, options, whole_units=whole_units), options)
    done |= _native(workspace, done, options)
    others = {file: source for file, source in workspace.sources.items() if file not in done}
    done = proven(done, others, workspace.workers)
    done |= _run_elsewhere(workspace, done, options)
    return done | _unparsable(workspace.sources, done)


def _units(workspace: Workspace, options: Options, *, whole_units: bool) -> dict[Path, Result]:
    """The first stage: the results of all files that may hold a source form."""
    found: dict[Path, Result] = {}
    for may_hold in _TIES:
        others = _of_other_units(found)
        seeds = [file for file, source in workspace.sources.items() if str(file) not in others and may_hold(source)]
        if may_hold is trains:
            seeds += [file for file in _trained_by_others(workspace.sources) if str(file) not in others]
        if seeds:
            # LibCST takes 0.2 seconds to import: a tree without a candidate never pays for it.
            from amp_migrate.units.migration import migrate_units
            from amp_migrate.units.tie import APEX_AMP, TRAINING

            tie = TRAINING if may_hold is trains else APEX_AMP
            results = migrate_units(workspace, seeds, options, tie, found, whole_units=whole_units)
            if tie is not TRAINING:
                results = _without_other_forms(results)
            found |= results
    if options.reports_plain and not options.selection.names(PLAIN):
        found = {file: _reported(result) if result.form == PLAIN else result for file, result in found.items()}
    return found


def _of_other_units(found: Mapping[Path, Result]) -> set[str]:
    """The files with which no unit of another form starts: those that change, and all of a unit that was left alone."""
    migrated = {result.path for result in found.values() if result.status == "migrated"}
    return migrated.union(*(result.members for result in found.values() if result.status in ("left", "error")))


def _without_other_forms(results: dict[Path, Result]) -> dict[Path, Result]:
    """Without units of another form than `apex.amp` that were refused: what they lack may be where their optimizer
    goes. A unit of several forms stays what it is.
    """
    others = (FP16_UTILS, HALF, PLAIN)
    own = {path for result in results.values() if result.form not in ("", *others) for path in result.members}
    return {
        file: result
        for file, result in results.items()
        if result.status != "left" or result.form not in others or str(file) in own
    }


def _trained_by_others(sources: Mapping[Path, bytes]) -> Iterator[Path]:
    """The files with a training that may be on a GPU since another file says so, which names something of theirs or
    which they name something of.
    """
    trained = {
        file: names for file, source in sources.items() if may_train_for_another(source) and (names := names_of(source))
    }
    on_gpu = {file: source for file, source in sources.items() if speaks_of_gpu(source)} if trained else {}
    defined = [named for source in on_gpu.values() if (named := _any_of(names_of(source))) is not None]
    for file, names in trained.items():
        own = _any_of(names)
        is_named = own is not None and any(own.search(text) for other, text in on_gpu.items() if other is not file)
        if is_named or any(named.search(sources[file]) for named in defined):
            yield file


def _any_of(names: set[bytes]) -> re.Pattern[bytes] | None:
    """Finds any of these names as a word; None where there are none."""
    return re.compile(rb"\b(?:%s)\b" % b"|".join(sorted(names))) if names else None


def _with_companions(workspace: Workspace, found: dict[Path, Result], options: Options) -> dict[Path, Result]:
    """The second stage: what else of Apex is in the files that import it, mixed precision migrated or not needed."""
    sources = workspace.sources
    files = [file for file, source in sources.items() if imports_apex(source)]
    if not files or not options.selection.has(COMPANIONS):
        return found
    from amp_migrate.companions.project import migrate_all_companions

    results = {file: found.get(file) or _untouched(str(file), sources[file]) for file in files}
    others = {file: result for file, result in found.items() if imports_apex(result.source)}
    return found | migrate_all_companions({**others, **results}, workspace)


def _reported(result: Result) -> Result:
    """A plain loop that would be migrated, where nobody asked for it (rule H7)."""
    if result.status != "migrated":
        return result
    finding = Finding(result.path, result.first_line, PLAIN, "plain float32 training could run in mixed precision")
    return dataclasses.replace(result, output=result.source, status="left", findings=(finding,), plan="")


def _native(workspace: Workspace, done: dict[Path, Result], options: Options) -> dict[Path, Result]:
    """The results of the files with native AMP that are in no unit."""
    claimed = {file for file, result in done.items() if result.status != "untouched"}
    files = [file for file, source in workspace.sources.items() if file not in claimed and holds_native_amp(source)]
    if not files:
        return {}
    from amp_migrate.native_files import native_results

    return native_results(workspace, files, options)


def _run_elsewhere(workspace: Workspace, done: dict[Path, Result], options: Options) -> dict[Path, Result]:
    """The results of the files about which nothing else is said, and whose training is run by a framework."""
    claimed = {file for file, result in done.items() if result.status != "untouched" or result.findings}
    results = {
        file: _of_own_loop(str(file), source, options)
        for file, source in workspace.sources.items()
        if file not in claimed
    }
    return {file: result for file, result in results.items() if result is not None}


def _unparsable(sources: Mapping[Path, bytes], done: Mapping[Path, Result]) -> dict[Path, Result]:
    """The results of the files that may have trained, and of which nobody can tell."""
    silent = [file for file in sources if file not in done or done[file] == _untouched(str(file), sources[file])]
    return {
        file: result
        for file in silent
        if may_have_trained(sources[file]) and not parses(sources[file])
        if (result := _broken(str(file), sources[file])) is not None
    }


def _broken(path: str, source: bytes) -> Result | None:
    from amp_migrate.files.parse import problem_of  # it imports LibCST

    problem = problem_of(source)
    return Result(path, source, source, "error", (dataclasses.replace(problem, path=path),)) if problem else None


def _of_own_loop(path: str, source: bytes, options: Options) -> Result | None:
    """The result of a file that hands its training to a framework without a word of a precision; None for others."""
    told = own_loop_in_float32(source) if options.selection.has(PLAIN) else None
    if told is None:
        return None
    from amp_migrate.rules.plain import FRAMEWORK

    line, message = told
    finding = Finding(path, line, FRAMEWORK.code, message)
    return Result(path, source, source, "left", (finding,), sites=1, form=PLAIN)


def _untouched(path: str, source: bytes) -> Result:
    return Result(path, source, source, "untouched")


def _failed(file: Path, error: OSError) -> Result:
    from amp_migrate.rules.files import NO_ACCESS

    finding = Finding(str(file), 1, NO_ACCESS.code, error.strerror or str(error))
    return Result(str(file), b"", b"", "error", (finding,))


def _renamed(result: Result, path: str) -> Result:
    return dataclasses.replace(
        result,
        path=path,
        findings=tuple(dataclasses.replace(one, path=path) for one in result.findings),
        also=tuple(dataclasses.replace(one, path=path) for one in result.also),
        seen=tuple(dataclasses.replace(one, path=path) for one in result.seen),
    )
