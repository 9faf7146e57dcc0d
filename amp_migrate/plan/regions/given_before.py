"""What a statement reads, with what a partial was given that it calls.

part = partial(loss_of, out)
loss = part(target)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, own_reads, reads
from amp_migrate.facts.tree import Statement


def all_reads(facts: Facts, statement: Statement) -> list[Path]:
    """The paths whose values a statement uses."""
    found = own_reads(statement)
    for call in facts.tree.calls(statement):
        bound = facts.objects.partial_behind(call.func) if isinstance(call.func, cst.Name) else None
        is_here = bound is not None and facts.tree.function_of(bound) is statement.function
        for arg in bound.args[1:] if bound is not None and is_here else ():
            found.extend(reads(arg.value))
    return found
