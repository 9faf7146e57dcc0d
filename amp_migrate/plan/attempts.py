"""`try` statements of which the imports go, and what else stands in them cannot fail in that way.

    try:
        from apex.amp import _amp_state
        print("scale", _amp_state.loss_scalers[0].loss_scale())        =>        print("scale", scaler.get_scale())
    except ImportError:
        print("no apex, no scale")

A handler that nothing leads to would still speak of Apex.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.plan.model import Recognition

_MISSING = frozenset(("ImportError", "ModuleNotFoundError"))
_IMPORTING = frozenset("__import__ eval exec".split())
_LOGGING = frozenset("debug info warning warn error exception critical".split())
_PLAIN_MODULES = frozenset("logging math time warnings".split())


def outlived_attempts(facts: Facts, found: Recognition, gone: Collection[Statement]) -> Iterator[Statement]:
    """The attempts at imports of which all go, where nothing that stays in the body can raise ImportError."""
    attempts = [one.block.owner for one in found.imports if one.block.owner is not None and one.block.arm == "body"]
    for attempt in dict.fromkeys(attempts):
        if isinstance(attempt.node, cst.Try) and _awaits_missing_modules(attempt.node):
            rest = [one for one in attempt.blocks[0].statements if one not in gone]
            if not _trains(found, attempt) and not any(_may_import(facts, found, one) for one in rest):
                yield attempt


def _awaits_missing_modules(node: cst.Try) -> bool:
    """True for `except ImportError:` alone, without an `else` or a `finally`."""
    return node.orelse is None and node.finalbody is None and all(map(_awaits, node.handlers))


def _awaits(handler: cst.ExceptHandler) -> bool:
    kinds = [one.value for one in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    return all(isinstance(kind, cst.Name) and kind.value in _MISSING for kind in kinds)


def _trains(found: Recognition, attempt: Statement) -> bool:
    """True where the training itself depends on the import: who cannot have it trains in another way."""
    sites = [*(one.statement for one in found.setups), *(one.statement for one in found.backwards)]
    return any(site.inside(attempt) for site in sites)


def _may_import(facts: Facts, found: Recognition, statement: Statement) -> bool:
    for inner in statement.descendants():
        if isinstance(inner.node, (cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef)):
            return True
        calls = facts.tree.calls(inner)
        if not all(_only_computes(facts, found, call) for call in calls):
            return True
    return False


def _only_computes(facts: Facts, found: Recognition, call: cst.Call) -> bool:
    """True for a call of a builtin, of a method of an object, of the source form, and for what writes a log."""
    name, is_method = called_name(call), isinstance(call.func, cst.Attribute)
    if isinstance(call.func, cst.Name) and facts.names.variable_at(call.func) is None:
        return hasattr(builtins, name) and name not in _IMPORTING
    if is_method and name in _LOGGING:
        return True
    dotted = facts.names.dotted(call.func) if isinstance(call.func, (cst.Name, cst.Attribute)) else None
    if dotted is None:
        return is_method and not facts.objects.candidates(call)
    return dotted.split(".")[0] in _PLAIN_MODULES or any(dotted.startswith(f"{one}.") for one in found.modules)
