"""The amp module given to code that saves and loads whatever it gets, without a word about amp.

    checkpointer = Checkpointer(model, optimizer=optimizer, amp=amp)

calls `state_dict()` and `load_state_dict(...)` on each thing under its name: a GradScaler has both.
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name

_SPEAKS_OF_AMP = re.compile(rb"\bamp\b")
_MAKES_A_DICT = ("dict", "update")


def is_only_saved(facts: Facts, node: cst.BaseExpression) -> bool:
    """True where the amp module goes, under a name, to nothing but code that saves and loads it."""
    entry = facts.tree.parents.get(node)
    if isinstance(entry, cst.Arg) and entry.keyword is not None:
        call = facts.tree.parents.get(entry)
        assert isinstance(call, cst.Call)
        if called_name(call) == "dict":
            return _dict_is_only_saved(facts, call)
        return _saves_what_it_is_given(facts, call)
    if isinstance(entry, cst.DictElement):
        display = facts.tree.parents.get(entry)
        return isinstance(display, cst.Dict) and _dict_is_only_saved(facts, display)
    return False


def _dict_is_only_saved(facts: Facts, made: cst.BaseExpression) -> bool:
    """Follows a dict from where it is made: through `update` and a name, to the calls that are given it."""
    parent = facts.tree.parents.get(made)
    if isinstance(parent, cst.Arg):
        call = facts.tree.parents.get(parent)
        assert isinstance(call, cst.Call)
        if called_name(call) == "update" and isinstance(call.func, cst.Attribute):
            return _name_is_only_saved(facts, call.func.value)
        return _saves_what_it_is_given(facts, call)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        return _name_is_only_saved(facts, parent.targets[0].target)
    return False


def _name_is_only_saved(facts: Facts, target: cst.BaseExpression) -> bool:
    variable = facts.names.variable_at(target)
    if variable is None:
        return False
    calls = [_call_of(facts, load) for load in variable.loads]
    given = [call for call in calls if call is not None and called_name(call) not in _MAKES_A_DICT]
    return None not in calls and bool(given) and all(_saves_what_it_is_given(facts, call) for call in given)


def _call_of(facts: Facts, load: cst.Name) -> cst.Call | None:
    """The call that a dict is given to, or that changes it; None where it is used in another way."""
    parent = facts.tree.parents.get(load)
    if isinstance(parent, cst.Attribute) and parent.attr.value == "update":
        parent = facts.tree.parents.get(parent)
        return parent if isinstance(parent, cst.Call) else None
    return facts.tree.taker(load)


def _saves_what_it_is_given(facts: Facts, call: cst.Call) -> bool:
    """True for a class or function whose file knows no amp; one of an installed package must say by its name."""
    for name in facts.names.imported_as(call.func):
        source = facts.elsewhere.source_of(name)
        if source is not None:
            return _SPEAKS_OF_AMP.search(source) is None and b"state_dict" in source
        return "checkpoint" in name.lower()
    return False
