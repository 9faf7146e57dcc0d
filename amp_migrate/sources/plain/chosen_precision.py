"""Half or bfloat16 by hand beside a plain training: its author has an opinion about precision.

Two places say nothing about the training: self-tests, and what keeps the results of an inference small:

    with torch.no_grad():
        windows = self.tiles(volume)           # votes = window.half(); counts = weights.half()
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.models import is_tensor_function
from amp_migrate.plan.regions.forwards import runs_without_gradients
from amp_migrate.sources.half.kept import Kept
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.half_types import is_asked_for
from amp_migrate.sources.optimizers import find_optimizers
from amp_migrate.vocabulary import HALF_TYPES, SAYS_HALF

_HALF = HALF_TYPES | {"torch.bfloat16"}


def chosen_precision(facts: Facts) -> cst.CSTNode | None:
    """Where a precision is chosen; what the training itself casts is another source form."""
    if not facts.says(SAYS_HALF):
        return None
    statements = [one for one in facts.tree.all_statements() if not any(map(one.inside, facts.self_tests))]
    found = [(one, part) for one in statements for part in facts.tree.expressions(one) if _is_half(facts, part)]
    if not found:
        return None
    modules, kept = Modules(facts, find_optimizers(facts)), Kept(facts)
    for statement, part in found:
        receiver = part.func.value if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) else None
        if receiver is not None and kept.is_done_with(receiver, statement):
            continue
        if not _is_of_tensor(facts, modules, part) or not _has_no_gradients(facts, statement, frozenset()):
            return part
    return None


def _is_half(facts: Facts, part: cst.CSTNode) -> bool:
    if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
        return called_name(part) in ("half", "bfloat16") and not part.args
    if isinstance(part, (cst.Name, cst.Attribute)) and not facts.tree.is_label(part):
        return facts.names.dotted(part) in _HALF and not is_asked_for(facts, part)
    return False


def _is_of_tensor(facts: Facts, modules: Modules, part: cst.CSTNode) -> bool:
    """True for `x.half()` of no module, and for the type of a new tensor: `torch.zeros(n, dtype=torch.half)`."""
    if isinstance(part, cst.Call):
        assert isinstance(part.func, cst.Attribute)
        return not modules.is_module(part.func.value)
    call = facts.tree.taker(part)
    return call is not None and is_tensor_function(facts.names.dotted(call.func))


def _has_no_gradients(facts: Facts, statement: Statement, callers: frozenset[Function]) -> bool:
    """True where gradients are off around a statement, or around every call of its function."""
    if runs_without_gradients(facts, statement):
        return True
    function = statement.function
    sites = facts.calls.callers(function) if function not in callers else []
    return bool(sites) and all(_has_no_gradients(facts, site.statement, callers | {function}) for site in sites)
