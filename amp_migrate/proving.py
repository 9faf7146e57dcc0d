"""Every unit that would be written is proved before: what is not the same program stays as it is."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.findings import Finding
from amp_migrate.processes import Died
from amp_migrate.result import Result

if TYPE_CHECKING:
    from amp_migrate.check.proof import Assumption, Breach, Prover
    from amp_migrate.processes import Workers

_Files = dict[str, tuple[Path, Result]]  # by their paths in the tree


def proven(results: Mapping[Path, Result], others: Mapping[Path, bytes], workers: Workers) -> dict[Path, Result]:
    """The results, each unit that changes with its proof, or left alone where there is none. `others` are the contents
    of files that belong to the same tree and have no result.
    """
    done = dict(results)
    if not any(result.changed for result in results.values()):
        return done
    from amp_migrate.check.proof import Prover  # not for those who have nothing to migrate

    root = _root([*results, *others])
    named: _Files = {_in_tree(path, root): (path, result) for path, result in results.items()}
    before = {_in_tree(path, root): source for path, source in others.items()}
    before |= {name: result.source for name, (_, result) in named.items()}
    units = [unit for unit in _units(named) if any(result.changed for _, result in unit.values())]
    waiting = units
    while waiting:
        after = before | {name: done[path].output for name, (path, _) in named.items()}
        prover = Prover(before, after)
        left = {name: one.path for name, (path, one) in named.items() if done[path].status == "left"}
        made = workers.map("proofs", lambda one: _of_unit(one, prover, left), waiting, _size)  # noqa: B023
        for unit, proved in zip(waiting, made, strict=True):
            if isinstance(proved, Died):
                proved = {path: Result.broken(one.path, one.source, str(proved)) for path, one in unit.values()}
            done |= proved
        kept = [unit for unit in waiting if all(done[path].changed == one.changed for path, one in unit.values())]
        waiting = kept if len(kept) < len(waiting) else []  # once more, beside what stays as it is
    return done


def _size(unit: _Files) -> int:
    return sum(len(result.source) for _, result in unit.values())


def _root(paths: Iterable[Path]) -> str:
    """The folder that holds all of them, and the whole of the package that they are in."""
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    while os.path.exists(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    return root


def _in_tree(path: Path, root: str) -> str:
    return os.path.relpath(os.path.abspath(path), root).replace(os.sep, "/")


def _units(named: _Files) -> Iterator[_Files]:
    """The files by unit, a file without one by itself; what stays as it is may be read in several units."""
    shown = {result.path: name for name, (_, result) in named.items()}
    found: dict[tuple[str, ...], _Files] = {}
    for name, (path, result) in named.items():
        found.setdefault(result.members, {})[name] = path, result
    for members, unit in found.items():
        others = {shown[member] for member in members if member in shown} - unit.keys()
        unit |= {name: named[name] for name in sorted(others) if not named[name][1].changed}
    yield from found.values()


def _of_unit(unit: _Files, prover: Prover, left: Mapping[str, str]) -> dict[Path, Result]:
    """The results of one unit: with its proof, or left alone; so it is where it needs one of the files that are `left`
    with Apex.
    """
    try:
        proof = prover.prove(unit)
    except Exception as error:  # a bug of ours must cost nobody the other units
        message = f"the proof failed: {type(error).__name__}: {error}"
        return {
            path: Result.broken(result.path, result.source, message) for path, result in unit.values() if result.changed
        }
    if not proof.breaches:
        proof = dataclasses.replace(proof, assumptions=tuple(_as_named(unit, one) for one in proof.assumptions))
        return {path: dataclasses.replace(result, proof=proof) for path, result in unit.values() if result.changed}
    changed = {path: result for path, result in unit.values() if result.changed}
    needed = [
        left.get(one.path) if one.kind == "needs Apex" and one.path not in unit else None for one in proof.breaches
    ]
    if needed[0] is not None and None not in needed:
        return {path: result.left_with(needed[0]) for path, result in changed.items()}
    told = _told([_finding(unit, breach) for breach in proof.breaches], [one.path for one in changed.values()])
    return {
        path: dataclasses.replace(result, output=result.source, status="left", findings=told[result.path], plan="")
        for path, result in changed.items()
    }


def _told(findings: list[Finding], paths: list[str]) -> dict[str, tuple[Finding, ...]]:
    """What is said of each file of a unit that stays: what is wrong there, else where it is, each thing once."""
    from amp_migrate.rules.units import BELONGS_TOGETHER

    told = {path: tuple(one for one in findings if one.path == path) for path in paths}
    first = findings[0]
    if not any(told.values()):  # it is in a file that would not change
        told[paths[0]] = (first,)
    message = f"belongs together with {first.path}, which cannot be migrated (line {first.line}, {first.code})"
    return {path: own or (Finding(path, 1, BELONGS_TOGETHER.code, message),) for path, own in told.items()}


def _as_named(unit: _Files, assumption: Assumption) -> Assumption:
    """An assumption under the name that its file has for who asked."""
    named = unit.get(assumption.path)
    return dataclasses.replace(assumption, path=named[1].path) if named is not None else assumption


def _finding(unit: _Files, breach: Breach) -> Finding:
    """What differs, with the lines of both programs, at its place in the file as it stands."""
    from amp_migrate.rules.units import NOT_THE_SAME

    path = unit[breach.path][1].path if breach.path in unit else breach.path
    line = breach.before[0] if breach.before is not None else 1
    return Finding(path, line, NOT_THE_SAME.code, f"{breach.kind}: {breach.message}: {_sides(breach)}")


def _sides(breach: Breach) -> str:
    """The line of the original and that of the result, where they have one."""
    sides = (("original", breach.before), ("result", breach.after))
    quoted = [f"`{side[1]}` on line {side[0]} of the {which}" for which, side in sides if side is not None]
    return " becomes ".join(quoted) or "in the file as a whole"
