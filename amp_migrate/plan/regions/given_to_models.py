"""Half tensors that a training hands to a function which runs another model, outside of autocast.

    with autocast(...):
        output = model(batch)
    show_sample(output, vocoder)       raises in the vocoder: half inputs, float32 weights

What is in `output` may be a tuple of anything, so that nothing is cast; the unit is refused.
"""

from __future__ import annotations

from pathlib import PurePath

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.files.only_reading import runs_models
from amp_migrate.findings import Refusal
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.leaving import half_names, loads_after
from amp_migrate.plan.regions.region import Region
from amp_migrate.rules.regions import HALF_OUTSIDE


def check_given_to_models(facts: Facts, forwards: Forwards, regions: list[Region]) -> None:
    """Raises Refusal at an output of a region that is given as a whole to such a function."""
    for region in regions:
        for name in dict.fromkeys(half_names(facts, forwards, region)):
            for load in loads_after(facts, name, region):
                if any(other.covers(facts.tree.statement_of(load)) for other in regions):
                    continue
                call = facts.tree.taker(load)
                if call is not None and any(map(runs_models, _resolved(facts, call))):
                    message = f"{name} leaves autocast in half for a model that {facts.text(call.func)} runs"
                    raise Refusal(HALF_OUTSIDE, call, message)


def _resolved(facts: Facts, call: cst.Call) -> list[str]:
    """The function that is called, by its resolved names."""
    function = facts.objects.called_function(call)
    if function is None:
        return list(facts.names.imported_as(call.func))
    path, name = facts.name_of(function)
    return [f"{PurePath(path).with_suffix('')}.{name}"]
