"""Native AMP that is there already: whoever wrote it has decided about precision (rules H1, J4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts

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


def _is_native(path: str) -> bool:
    return path.startswith(_NAMES) or any(path == module or path.startswith(f"{module}.") for module in _MODULES)
