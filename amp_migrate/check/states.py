"""The state of a scaler in checkpoints: what a change saves is loaded again, and what it loads is saved (rule F)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Scalers
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.values import literal_value


def check_states(after: Facts, before: Facts, scalers: Scalers) -> Iterator[Violation]:
    """States of scalers that are only saved or only loaded, or under another key; of original code that did so with the
    state of Apex, that is kept.
    """
    if any(_is_amp(before, call) for name in ("state_dict", "load_state_dict") for call in _calls(before, name)):
        return
    saved = [one for one in _calls(after, "state_dict") if scalers.is_scaler(_holder(one))]
    loaded = [one for one in _calls(after, "load_state_dict") if scalers.is_scaler(_holder(one)) and one.args]
    if loaded and not saved:
        yield violation(after, "half of a checkpoint", loaded[0], "the state of a scaler is loaded, and saved nowhere")
    if saved and not loaded and any(_is_optimizer(after, scalers, one) for one in _calls(after, "load_state_dict")):
        message = "the state of a scaler is saved, and not loaded with that of its optimizer"
        yield violation(after, "half of a checkpoint", saved[0], message)
    keys = {_key_of_value(after, one) for one in saved}
    for one in loaded if keys and "" not in keys else ():
        key = _key(one.args[0].value)
        if key and key not in keys:
            yield violation(after, "half of a checkpoint", one, f"the state of a scaler is not saved under {key}")


def _calls(facts: Facts, name: str) -> Iterator[cst.Call]:
    for part, _ in facts.tree.every(cst.Call):
        if isinstance(part.func, cst.Attribute) and part.func.attr.value == name:
            yield part


def _holder(call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _is_amp(facts: Facts, call: cst.Call) -> bool:
    return (facts.names.dotted(call.func) or "").startswith("apex.amp.")


def _is_optimizer(facts: Facts, scalers: Scalers, call: cst.Call) -> bool:
    """True for the load of an optimizer that a scaler steps, from a checkpoint of several states that has a name. One
    that nothing gives its optimizer before it runs ends the run.
    """
    variable = facts.names.variable_at(_holder(call))
    if variable is not None and not reaching(variable, facts.tree.statement_of(call)):
        return False
    known = frozenset().union(*(scalers.objects_of(one) for one in scalers.optimizers))
    objects = facts.objects.objects(_holder(call))
    states = [arg.value for arg in call.args[:1] if _key(arg.value)]
    named = any(isinstance(one, cst.Subscript) and isinstance(one.value, cst.Name) for one in states)
    return bool(objects) and objects <= known and named


def _key_of_value(facts: Facts, value: cst.Call) -> str:
    """The text in quotes under which a value goes into a dictionary; empty for every other place."""
    parent = facts.tree.parents.get(value)
    if isinstance(parent, cst.DictElement):
        return _text(parent.key)
    if isinstance(parent, cst.Assign):
        return _key(parent.targets[0].target)
    return parent.keyword.value if isinstance(parent, cst.Arg) and parent.keyword is not None else ""


def _key(node: cst.BaseExpression) -> str:
    """The key of `state["scaler"]` and `state.get("scaler")`."""
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        return _text(node.slice[0].slice.value)
    is_get = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get"
    return _text(node.args[0].value) if isinstance(node, cst.Call) and is_get and node.args else ""


def _text(node: cst.BaseExpression) -> str:
    value = literal_value(node)
    return value if isinstance(value, str) else ""
