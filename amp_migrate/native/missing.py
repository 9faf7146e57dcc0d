"""Settings that need not be there where mixed precision is off: they were only ever looked up under its guard.

if settings.get("fp16", False):
    optimizer = FP16_Optimizer(optimizer, static_loss_scale=settings.loss_scale)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.facts.values import literal_value

_ASKS = frozenset("getattr hasattr".split())


def may_be_missing(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for what may raise where the guard is off: `params["amp"]["loss_scale"]`, or an attribute of something that
    the code asks by name for others of its kind, and that no option of a command line sets.
    """
    parts = list(walk(node))
    if any(isinstance(part, (cst.Subscript, cst.Call)) for part in parts):
        return True
    read = [part for part in parts if isinstance(part, cst.Attribute) and facts.values.option(part) is None]
    holders = {source_key(part.value) for part in read}
    return bool(holders) and any(_asked(call) in holders for call, _ in facts.tree.every(cst.Call))


def _asked(call: cst.Call) -> str | None:
    """What `settings.get("fp16", False)` and `getattr(settings, "fp16", False)` ask for what may not be there."""
    name, texts = called_name(call), [literal_value(arg.value) for arg in call.args[:2]]
    if name == "get" and isinstance(call.func, cst.Attribute) and texts and isinstance(texts[0], str):
        return source_key(call.func.value)
    if name in _ASKS and len(texts) == 2 and isinstance(texts[1], str):
        return source_key(call.args[0].value)
    return None
