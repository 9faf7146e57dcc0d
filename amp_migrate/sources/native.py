"""Native AMP that is there already: whoever wrote it has decided about precision (rules H1, J4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.program import definitions_around, never_mentioned

_MODULES = ("torch.cuda.amp", "torch.amp", "torch.cpu.amp")
_WORDS = re.compile(r"\bamp\b|autocast|GradScaler")  # one of them stands in every import of it
_NAMES = ("torch.autocast", "torch.GradScaler")


def native_amp(facts: Facts) -> Iterator[cst.Name | cst.Attribute]:
    """Where something of native AMP is used: an import that nothing uses decides nothing."""
    if not facts.says(_WORDS):
        return
    for statement in facts.tree.all_statements():
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, (cst.Name, cst.Attribute)) and any(map(_is_native, facts.objects.import_paths(part))):
                yield part


def decides_natively(facts: Facts, backwards: Collection[cst.CSTNode]) -> bool:
    """True where native AMP is used in a file that trains, or in code of another one that its training may run."""
    places = [facts.tree.statement_of(part) for part in native_amp(facts)]
    trainings = {facts.tree.function_of(call).root for call in backwards}
    if any(place.function.root in trainings for place in places):
        return True
    running = [*definitions_around(facts.tree, backwards)] if places else []
    unneeded = {one.node for one in never_mentioned(facts.tree, facts.names, (), running)} if places else set()
    return not all(facts.tree.is_within(place, unneeded) for place in places)


def _is_native(path: str) -> bool:
    return path.startswith(_NAMES) or any(path == module or path.startswith(f"{module}.") for module in _MODULES)
