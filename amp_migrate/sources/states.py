"""The scaler's state beside the optimizer's in checkpoints that never held one (rule F).

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}      gains "scaler": scaler.state_dict()
    optimizer.load_state_dict(checkpoint["optimizer"])                              is followed by
    if checkpoint.get("scaler"):
        scaler.load_state_dict(checkpoint["scaler"])

Plain loops have the key after that of the optimizer: "scaler_state_dict" beside "optimizer_state_dict". Old checkpoints
have no such key, and those of a disabled scaler an empty state: both are passed over. Where the states of several
optimizers are a dict of their own, the scaler's stands beside that, in the file of both. A model that saves an
optimizer which its callers give it keeps its format: it would need the scaler wherever it is made, inference too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.reaching import reaching, stands_for
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding
from amp_migrate.files.saving import saves_state
from amp_migrate.plan.model import AddedState, Recognition
from amp_migrate.rules.native import SCALER_NOT_SAVED
from amp_migrate.rules.source_forms import PLAIN

Place = cst.DictElement | cst.Arg | cst.Assign
_STATE_OF_ONE = re.compile(r"opt(?:im|imizer)?(_states?|_dict|_state_dict)")


def add_states(facts: Facts, found: Recognition, optimizers: ObjectSet) -> None:
    """Note the dicts that save an optimizer's state, and the loads of it from a dict under a string."""
    _note_savers(facts, found, optimizers)
    is_plain = found.form == PLAIN  # what `checkpoint` converts for the others has "scaler"
    key = _free_key(facts, _ending(facts, optimizers) if is_plain else "")
    given = _saved_by_a_model(facts, optimizers)
    if given is not None:
        message = "a method of the model saves the optimizer that it is given: the scaler is not saved"
        found.findings.append(facts.finding(given, SCALER_NOT_SAVED, message))
        return
    if (spread := _spread(facts)) is not None:
        message = f"{facts.text(spread.value)} goes to a call as its keywords: the scaler is not saved"
        found.findings.append(facts.finding(spread, SCALER_NOT_SAVED, message))
        return
    saves: dict[cst.CSTNode, AddedState] = {}
    loads: dict[cst.CSTNode, AddedState] = {}
    trails: set[tuple[str, ...]] = set()
    for call, _, receiver in _state_calls(facts, "state_dict"):
        if facts.objects.objects(receiver) & optimizers:
            for place in _places(facts, call):
                place, keys = _outermost(facts, place)
                trails.add(keys)
                holder = facts.tree.parents[place] if isinstance(place, cst.DictElement) else place
                statement = facts.tree.statement_of(place)
                earlier = [one for one, other in saves.items() if _fill_one_dict(facts, other.statement, statement)]
                for one in earlier:
                    del saves[one]
                saves[holder] = AddedState(statement, receiver, key, saved_in=place)  # after the last one
    for call, statement, receiver in _state_calls(facts, "load_state_dict"):
        has_room_after = isinstance(statement.node, (cst.Expr, cst.Assign))
        is_load = call.args and has_room_after and _is_bound(facts, receiver, statement)
        if is_load and facts.objects.objects(receiver) & optimizers:
            state = stands_for(facts.names, call.args[0].value, facts.tree.statement_of(call))
            checkpoint = _checkpoint(facts, state, trails)
            if checkpoint is not None:
                first = loads.setdefault(
                    statement.block.node, AddedState(statement, receiver, key, checkpoint=checkpoint)
                )
                if first.checkpoint is not None and facts.text(first.checkpoint) == facts.text(checkpoint):
                    loads[statement.block.node] = AddedState(statement, receiver, key, checkpoint=checkpoint)
    if saves:  # else nothing is saved here, and there is nothing to load
        found.added += [*saves.values(), *loads.values()]
        if not loads and (load := _loads(facts, optimizers)) is not None:
            message = f"{facts.text(load)} shows no checkpoint: the scaler is saved, and not loaded"
            found.findings.append(facts.finding(load, SCALER_NOT_SAVED, message))
    elif (apart := _saved_apart(facts, optimizers)) is not None:
        saved, where = apart
        message = f"{facts.text(saved)} {where}: the scaler is not saved"
        found.findings.append(facts.finding(saved, SCALER_NOT_SAVED, message))


def _spread(facts: Facts) -> cst.Arg | None:
    """`**data` of a checkpoint that was loaded: a key more would be an argument that nothing takes."""
    for call, _ in facts.tree.every(cst.Call):
        for arg in call.args:
            values = facts.objects.values_of(arg.value) if arg.star == "**" else []
            if any(isinstance(one, cst.Call) and facts.names.dotted(one.func) == "torch.load" for one in values):
                return arg
    return None


def _loads(facts: Facts, optimizers: ObjectSet) -> cst.Call | None:
    """A load of the state of one of the optimizers."""
    for call, statement, receiver in _state_calls(facts, "load_state_dict"):
        given = call.args[0].value if call.args else None
        is_named = isinstance(given, (cst.Name, cst.Attribute))  # what it names came from a file, most probably
        if is_named and _is_bound(facts, receiver, statement) and facts.objects.objects(receiver) & optimizers:
            return call
    return None


def _fill_one_dict(facts: Facts, first: Statement, last: Statement) -> bool:
    """True for assignments to elements of one dict, with nothing but assignments between them."""
    if first.block is not last.block or first.index > last.index:
        return False
    nodes = [one.node for one in first.block.statements[first.index : last.index + 1]]
    targets = [node.targets[0].target if isinstance(node, cst.Assign) else None for node in nodes]
    ends = [facts.text(one.value) if isinstance(one, cst.Subscript) else None for one in (targets[0], targets[-1])]
    return None not in targets and None not in ends and ends[0] == ends[1] and first is not last


def _is_bound(facts: Facts, receiver: cst.BaseExpression, statement: Statement) -> bool:
    """False for a name that has no value yet on any path: what stands there would raise, and nobody has run it."""
    variable = facts.names.variable_at(receiver)
    return variable is None or bool(reaching(variable, statement))


def _note_savers(facts: Facts, found: Recognition, optimizers: ObjectSet) -> None:
    """The calls that give an optimizer to what saves its state in another file: the scaler's would stand there."""
    for call, _ in facts.tree.every(cst.Call):
        given = [index for index, arg in enumerate(call.args) if facts.objects.objects(arg.value) & optimizers]
        imported = facts.names.imported_as(call.func) if given and not facts.objects.candidates(call) else []
        for index in given if imported else ():
            named = call.args[index].keyword
            position = index if named is None else named.value
            savers = [one for one in imported if saves_state(one, position)]
            if savers:
                found.savers += savers
                message = f"{facts.text(call.func)} of another file saves or loads the state of "
                message += f"{facts.text(call.args[index].value)}, and not that of the scaler"
                found.findings.append(facts.finding(call, SCALER_NOT_SAVED, message))


def _state_calls(facts: Facts, name: str) -> Iterator[tuple[cst.Call, Statement, cst.BaseExpression]]:
    for part, statement in facts.tree.every(cst.Call):
        if called_name(part) == name:
            if isinstance(part.func, cst.Attribute):
                yield part, statement, part.func.value


def _saved_by_a_model(facts: Facts, optimizers: ObjectSet) -> cst.Call | None:
    """The state of an optimizer that is a parameter of a method in a class with a forward."""
    for call, statement, receiver in (*_state_calls(facts, "state_dict"), *_state_calls(facts, "load_state_dict")):
        function = statement.function
        names = {param.name.value for param in function.parameters}
        if function.is_of_network and isinstance(receiver, cst.Name) and receiver.value in names:
            if facts.objects.objects(receiver) & optimizers:
                return call
    return None


def _saved_apart(facts: Facts, optimizers: ObjectSet) -> tuple[cst.BaseExpression, str] | None:
    """The first `torch.save(optimizer.state_dict(), file)`, and the first `[net.state_dict(), optimizer.state_dict()]`,
    which is read by position: nothing can be put beside the state. Nor beside the optimizer itself, which is unpickled.
    """
    for call, _, receiver in _state_calls(facts, "state_dict"):
        around = facts.tree.parents[call]
        holder = facts.tree.parents.get(around)
        if not facts.objects.objects(receiver) & optimizers:
            continue
        if isinstance(holder, cst.Call) and called_name(holder) == "save":
            return call, "has a file of its own"
        if isinstance(around, cst.Element) and isinstance(holder, (cst.List, cst.Tuple)):
            return call, "is found by its place, without a name"
    for call, _ in facts.tree.every(cst.Call):
        for arg in call.args if "save" in called_name(call).lower() else ():
            is_bare = facts.names.dotted(call.func) == "torch.save"
            held = facts.objects.elements(arg.value) | (facts.objects.objects(arg.value) if is_bare else frozenset())
            if held & optimizers:
                return call.func, "saves the optimizer itself"
    return None


def _place_in_dict(facts: Facts, state: cst.BaseExpression) -> Place | None:
    """The entry of a display, the keyword of `dict(...)`, or the assignment to an element, that the state is for."""
    parent = facts.tree.parents.get(state)
    if isinstance(parent, cst.DictElement) and _text_of(facts, parent.key) is not None:
        return parent
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        holder = facts.tree.parents.get(parent)
        return parent if isinstance(holder, cst.Call) and called_name(holder) == "dict" else None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        return parent if isinstance(target, cst.Subscript) and _string_index(facts, target) is not None else None
    return None


def _places_of_name(facts: Facts, state: cst.BaseExpression) -> list[Place]:
    """The same for the dicts that `state` goes into: `state = optimizer.state_dict() if keep else None`. A later value
    of that name is another one: `state = {"optimizer": state}`.
    """
    parent = facts.tree.parents.get(state)
    if isinstance(parent, cst.IfExp) and parent.body is state:
        parent = facts.tree.parents.get(parent)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return []
    target = parent.targets[0].target
    loads = facts.names.loads_at(target)
    places = [_place_in_dict(facts, load) for load in loads if _has_the_value_of(facts, load, target)]
    return [place for place in places if place is not None]


def _has_the_value_of(facts: Facts, load: cst.Name, target: cst.BaseAssignTargetExpression) -> bool:
    variable = facts.names.variable_at(load)
    found = reaching(variable, facts.tree.statement_of(load)) if variable is not None else []
    return any(binding.node is target for binding in found)


def _places(facts: Facts, state: cst.BaseExpression) -> list[Place]:
    place = _place_in_dict(facts, state)
    return [place] if place is not None else _places_of_name(facts, state)


def _outermost(facts: Facts, place: Place) -> tuple[Place, tuple[str, ...]]:
    """The entry of the dict that holds the others, with the strings that lead from it to the optimizer's state. Where a
    loop puts a dict into its own next one, the first is taken.
    """
    keys: tuple[str, ...] = ()
    seen: set[cst.CSTNode] = set()
    while isinstance(place, cst.DictElement) and place not in seen:
        seen.add(place)
        keys = (str(_text_of(facts, place.key)), *keys)
        display = facts.tree.parents[place]
        assert isinstance(display, cst.Dict)
        outer = _places(facts, display)
        if len(outer) != 1 or not isinstance(outer[0], cst.DictElement):
            break
        place = outer[0]
    return place, keys


def _checkpoint(facts: Facts, state: cst.BaseExpression, trails: set[tuple[str, ...]]) -> cst.BaseExpression | None:
    """X in `X["optimizer"]`, `X.pop("optimizer")`, and in `X["optimizer"]["critic"]` where that is how it is saved, if
    it can be written twice.
    """
    keys: tuple[str, ...] = ()
    found: cst.BaseExpression | None = None
    while (item := _item(facts, state)) is not None:
        state, key = item
        keys = (key, *keys)
        if len(keys) == 1 or keys in trails:
            found = state
    return found if isinstance(found, (cst.Name, cst.Attribute)) else None


def _item(facts: Facts, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """The holder and the key of `state["optimizer"]`, `state.get("optimizer")` and `state.pop("optimizer")`."""
    if isinstance(node, cst.Subscript):
        key = _string_index(facts, node)
        return (node.value, key) if key is not None else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or not node.args:
        return None
    key = _text_of(facts, node.args[0].value) if called_name(node) in ("get", "pop") else None
    return (node.func.value, key) if key is not None else None


def _string_index(facts: Facts, node: cst.Subscript) -> str | None:
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    return _text_of(facts, node.slice[0].slice.value)


def _text_of(facts: Facts, key: cst.BaseExpression) -> str | None:
    """A constant key: "optimizer", or the name of one (OPTIMIZER_KEY), which is the same text wherever it stands."""
    value = literal_value(key)
    if isinstance(value, str):
        return value
    name = key.attr if isinstance(key, cst.Attribute) else key
    is_constant = isinstance(name, cst.Name) and name.value.isupper()
    variable = facts.names.definition(key) if is_constant else None
    if variable is not None and not all(map(_may_be_text, variable.bindings)):
        return None
    return name.value if isinstance(name, cst.Name) and is_constant else None


def _may_be_text(binding: Binding) -> bool:
    """False for a counter (`for E in range(10)`) and for numbers."""
    if binding.kind == "import":
        return True
    value = literal_value(binding.value) if binding.value is not None else None
    return binding.kind == "assign" and (isinstance(value, str) or value is UNKNOWN)


def _ending(facts: Facts, optimizers: ObjectSet) -> str:
    """`_state_dict` where the states of the optimizers are called `optimizer_state_dict`, else nothing."""
    calls = [call for call, _, one in _state_calls(facts, "state_dict") if facts.objects.objects(one) & optimizers]
    places = [place for call in calls if (place := _place_in_dict(facts, call)) is not None]
    found = {_STATE_OF_ONE.fullmatch(_key_of(facts, place)) for place in places}
    endings = {match[1] if match is not None else "" for match in found}
    return endings.pop() if len(endings) == 1 else ""


def _key_of(facts: Facts, place: Place) -> str:
    if isinstance(place, cst.DictElement):
        return str(_text_of(facts, place.key))
    if isinstance(place, cst.Arg):
        return place.keyword.value if place.keyword is not None else ""
    target = place.targets[0].target
    return (_string_index(facts, target) or "") if isinstance(target, cst.Subscript) else ""


def _free_key(facts: Facts, ending: str) -> str:
    """A key that the unit uses for nothing else (a StandardScaler is saved as "scaler", too)."""
    taken = {literal_value(part) for part, _ in facts.tree.every(cst.SimpleString) if "scaler" in source_key(part)}
    names = [f"{name}{ending}" for name in ("scaler", "grad_scaler", "amp_scaler", "amp_grad_scaler")]
    return next(name for name in names if name not in taken)
