"""Whoever loads the state of a model that was in a wrapper (rule F)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.findings import Finding
from amp_migrate.rules.fp16_utils import STATE_LOSES_PREFIX


def prefixed_states(
    facts: Facts, statements: Iterable[Statement], wrappers: Iterable[tuple[cst.Call, str]]
) -> Iterator[Finding]:
    """A finding for each wrapper that goes, with what it put before the keys."""
    loads = [call for one in statements for call in facts.tree.calls(one) if called_name(call) == "load_state_dict"]
    for call, prefix in wrappers:
        wrapped = facts.objects.objects(call)
        places = [
            f"line {facts.line(load)}"
            for load in loads
            if isinstance(load.func, cst.Attribute) and facts.objects.objects(load.func.value) & wrapped
        ]
        where = f", and are loaded in {', '.join(places)}" if places else ""
        message = f'the keys of states that were saved behind {called_name(call)} begin with "{prefix}"{where}'
        yield facts.finding(call, STATE_LOSES_PREFIX, message)
