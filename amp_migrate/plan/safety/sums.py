"""Losses that are summed, not averaged: the scaler starts too high for them (rule H8)."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.values import literal_value
from amp_migrate.plan.safety.context import Context


def note_summed_losses(context: Context) -> None:
    """A finding for each criterion under autocast that sums over the batch."""
    noted: set[cst.Call] = set()
    for call, _ in context.reach.calls():
        origins = context.facts.objects.objects(call.func) if isinstance(call.func, (cst.Name, cst.Attribute)) else []
        made = [call, *(one.origin for one in origins)]
        for one in made:
            if isinstance(one, cst.Call) and one not in noted and _sums(one):
                noted.add(one)
                text = context.facts.text(one.func)
                context.note(one, "AMP187", f"{text} sums over the batch")


def _sums(call: cst.Call) -> bool:
    given = {arg.keyword.value: literal_value(arg.value) for arg in call.args if arg.keyword is not None}
    return given.get("reduction") == "sum" or (given.get("size_average") is False and given.get("reduce") is not False)
