"""Trainings in one file that have nothing to do with each other are planned one by one.

A file with `train_a()` and `train_b()`, or with two trainer classes, each with its own `amp.initialize`, loop and
checkpoint, needs a scaler in each; their guards need not even agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.plan.model import Recognition

Area = set[Function]


def split_recognition(facts: Facts, found: Recognition) -> list[Recognition]:
    """The independent parts of what was found, in the order of their setups; the whole where anything is shared."""
    areas = _connected(facts, {place.function.whole for place in _places(facts, found)})
    recognitions = [_part(facts, found, area) for area in _completed(facts, found, areas)]
    is_split = all(map(_is_whole, recognitions)) and not _see_names_of_others(recognitions)
    if len(recognitions) < 2 or not is_split or _share_optimizers(facts, recognitions):
        return [found]
    recognitions.sort(key=lambda one: found.setups.index(one.setups[0]))
    first = dataclasses.replace(
        recognitions[0],
        no_casts=found.no_casts,
        casts=found.casts,
        floats=found.floats,
        removed=found.removed,
        findings=found.findings,
    )
    return [first, *recognitions[1:]]


def _places(facts: Facts, found: Recognition) -> Iterator[Statement]:
    yield from (setup.statement for setup in found.setups)
    yield from (backward.statement for backward in found.backwards)
    yield from (access.statement for access in found.parameters)
    yield from (access.statement for access in (*found.saves, *found.loads))
    yield from (one.statement for one in found.added)
    yield from (read.statement for read in found.scale_reads)
    yield from (read.statement for read in found.skip_reads)
    yield from (one.statement for one in found.handed)
    yield from (facts.tree.statement_of(carrier) for carrier in found.carriers)


def _connected(facts: Facts, functions: set[Function]) -> list[Area]:
    """Functions with a call from one to another, at any depth, belong together."""
    reached = {function: {function} for function in functions}
    for function in facts.tree.functions:
        outer = function.whole
        if outer in reached:
            reached[outer] |= {callee.whole for callee in facts.calls.reachable(function)} & functions
    return _united(reached.values())


def _completed(facts: Facts, found: Recognition, areas: list[Area]) -> list[Area]:
    """A class that sets up in one method and trains in another is one area, whoever calls them; so are a function that
    sets up and one that trains, of which some function calls both.
    """
    for joined in (_of_one_class, _of_one_caller):
        parts = [area for area in areas if not _is_whole(_part(facts, found, area))]
        areas = _united([*areas, *(area | other for area in parts for other in joined(facts, area, areas))])
    return areas


def _of_one_class(facts: Facts, area: Area, areas: list[Area]) -> list[Area]:
    return [other for other in areas if _roots(facts, other) & _roots(facts, area)]


def _of_one_caller(facts: Facts, area: Area, areas: list[Area]) -> list[Area]:
    callers = [one for one in facts.tree.functions if facts.calls.reaches(one, area.__contains__)]
    called = {inner for one in callers for inner in facts.calls.reachable(one)}
    return [other for other in areas if other & called]


def _united(sets: Iterable[Area]) -> list[Area]:
    areas: list[Area] = []
    for members in sets:
        joined = [area for area in areas if area & members]
        areas = [area for area in areas if area not in joined]
        areas.append(members.union(*joined))
    return areas


def _roots(facts: Facts, area: Area) -> set[Class]:
    return {facts.objects.root_class(function.owner) for function in area if function.owner is not None}


def _is_whole(part: Recognition) -> bool:
    """True for what holds setup and backward."""
    return any(setup.optimizers for setup in part.setups) and bool(part.backwards)


def _see_names_of_others(parts: list[Recognition]) -> bool:
    """True where one sets up or trains at the level of a module that holds a part of another one, too."""
    homes = [
        {one.statement.function for one in part.setups} | {one.statement.function for one in part.backwards}
        for part in parts
    ]
    roots = [{one.root for one in home} for home in homes]
    return any(
        not home.isdisjoint(other)
        for home, own in zip(homes, roots, strict=True)
        for other in roots
        if other is not own
    )


def _share_optimizers(facts: Facts, parts: list[Recognition]) -> bool:
    seen = [
        frozenset(one for setup in part.setups for node in setup.optimizers for one in facts.objects.objects(node))
        for part in parts
    ]
    return any(one & other for i, one in enumerate(seen) for other in seen[:i])


def _part(facts: Facts, found: Recognition, area: Area) -> Recognition:
    """What lies in some functions; things of the whole file are left out."""

    def own(statement: Statement) -> bool:
        return statement.function.whole in area

    return dataclasses.replace(
        found,
        setups=[one for one in found.setups if own(one.statement)],
        backwards=[one for one in found.backwards if own(one.statement)],
        parameters=[one for one in found.parameters if own(one.statement)],
        saves=[one for one in found.saves if own(one.statement)],
        loads=[one for one in found.loads if own(one.statement)],
        added=[one for one in found.added if own(one.statement)],
        scale_reads=[one for one in found.scale_reads if own(one.statement)],
        skip_reads=[one for one in found.skip_reads if own(one.statement)],
        handed=[one for one in found.handed if own(one.statement)],
        received=[one for one in found.received if own(facts.tree.statement_of(one))],
        absent=[one for one in found.absent if own(facts.tree.statement_of(one))],
        carriers=[one for one in found.carriers if own(facts.tree.statement_of(one))],
        no_casts=[],
        casts=[],
        floats=[],
        removed=[],
        findings=[],
    )
