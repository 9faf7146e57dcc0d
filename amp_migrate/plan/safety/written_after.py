"""Half outputs that are written by index into float32 tensors outside of autocast, which raises as it does inside.

    with autocast(...):
        scores = model(images)
    seen[mask] = scores.detach()[mask]                =>    seen[mask] = scores.detach()[mask].to(seen.dtype)

In a loop the write may stand before the region: it gets what the round before has left.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.values import Values
from amp_migrate.models.dtypes import HALF, SINGLE
from amp_migrate.models.queries import keeps_dtype
from amp_migrate.plan.safety.indexed import as_written, written_by_index
from amp_migrate.plan.safety.repairs import Cast


def halves_written_after(facts: Facts, values: Values) -> Iterator[Cast]:
    """What each such write needs, where the dtypes may differ and the source may come out of a region."""
    for statement in facts.tree.all_statements():
        if values.runs_under_autocast([statement]):
            continue
        for into, source, _ in written_by_index(values, statement):
            given, held = values.of(source).dtypes, values.of(into).dtypes
            if HALF in given and SINGLE in held and _leaves_autocast(values, source):
                cast = as_written(values, into, source)
                if cast is not None:
                    yield cast


def _leaves_autocast(values: Values, source: cst.BaseExpression) -> bool:
    """True where a result of autocast has the dtype of a value, or may have it where it is out of sight."""
    ways = trace(values.steps, Place(source), keeps_dtype)
    places = (*(made.node for made in ways.ends), *(place.node for place in ways.open))
    statement_of = values.facts.tree.statement_of
    return any(isinstance(one, cst.Call) and values.runs_under_autocast([statement_of(one)]) for one in places)
