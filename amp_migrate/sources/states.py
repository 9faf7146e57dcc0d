"""The scaler's state beside the optimizer's in checkpoints that never held one (rule F).

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}      gains "scaler": scaler.state_dict()
    optimizer.load_state_dict(checkpoint["optimizer"])                              is followed by
    if checkpoint.get("scaler"):
        scaler.load_state_dict(checkpoint["scaler"])

Old checkpoints have no such key, and those of a disabled scaler an empty state: both are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.objects import ObjectSet
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.model import AddedState, Recognition


def add_states(facts: Facts, found: Recognition, optimizers: ObjectSet) -> None:
    """Note the dicts that save an optimizer's state, and the loads of it from a dict under a string."""
    key = _free_key(facts)
    seen: set[cst.CSTNode] = set()
    for call, statement, receiver in _state_calls(facts):
        objects = facts.objects.objects(receiver)
        if not objects & optimizers:
            continue
        if called_name(call) == "state_dict":
            place = _place_in_dict(facts, call) or _place_of_name(facts, call)
            holder = facts.tree.parents.get(place) if isinstance(place, cst.DictElement) else place
            if place is not None and holder not in seen:
                assert holder is not None
                seen.add(holder)
                found.added.append(AddedState(facts.tree.statement_of(place), key, saved_in=place))
        elif call.args and isinstance(statement.node, cst.Expr):
            checkpoint = _checkpoint(call.args[0].value)
            if checkpoint is not None and statement.block.node not in seen:
                seen.add(statement.block.node)
                found.added.append(AddedState(statement, key, checkpoint=checkpoint))
    if not any(one.saved_in is not None for one in found.added):
        found.added.clear()  # nothing is saved here: there is nothing to load


def _state_calls(facts: Facts) -> Iterator[tuple[cst.Call, Statement, cst.BaseExpression]]:
    for part, statement in facts.tree.every(cst.Call):
        if called_name(part) in ("state_dict", "load_state_dict"):
            if isinstance(part.func, cst.Attribute):
                yield part, statement, part.func.value


def _place_in_dict(facts: Facts, state: cst.BaseExpression) -> cst.DictElement | cst.Arg | cst.Assign | None:
    """The entry of a display, the keyword of `dict(...)`, or the assignment to an element, that the state is for."""
    parent = facts.tree.parents.get(state)
    if isinstance(parent, cst.DictElement) and isinstance(literal_value(parent.key), str):
        return parent
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        holder = facts.tree.parents.get(parent)
        return parent if isinstance(holder, cst.Call) and called_name(holder) == "dict" else None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        return parent if isinstance(target, cst.Subscript) and _string_index(target) is not None else None
    return None


def _place_of_name(facts: Facts, call: cst.Call) -> cst.DictElement | cst.Arg | cst.Assign | None:
    """The same for `state = optimizer.state_dict()`, where the name goes into one dict."""
    parent = facts.tree.parents.get(call)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return None
    variable = facts.names.variable_at(parent.targets[0].target)
    places = [_place_in_dict(facts, load) for load in variable.loads] if variable is not None else []
    return places[0] if len(places) == 1 else None


def _checkpoint(state: cst.BaseExpression) -> cst.BaseExpression | None:
    """X in `X["optimizer"]`, where it can be written twice."""
    if not isinstance(state, cst.Subscript) or _string_index(state) is None:
        return None
    return state.value if isinstance(state.value, (cst.Name, cst.Attribute)) else None


def _string_index(node: cst.Subscript) -> str | None:
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    value = literal_value(node.slice[0].slice.value)
    return value if isinstance(value, str) else None


def _free_key(facts: Facts) -> str:
    """A key that the unit uses for nothing else (a StandardScaler is saved as "scaler", too)."""
    taken = {literal_value(part) for part, _ in facts.tree.every(cst.SimpleString) if "scaler" in source_key(part)}
    return next(key for key in ("scaler", "grad_scaler", "amp_scaler", "amp_grad_scaler") if key not in taken)
