"""Half tensors that leave a training region (rules B4, E3).

Most uses take half as they take float. A model outside of autocast does not, nor does a criterion, nor code that is
not read: they get `.float()`. O1 had patched torch, O2 had handed out float32. What operations of torch are given is
asked of the interpreter (`plan/safety/after_regions.py`).

    with autocast(...):
        fake = generator(noise)
    real_or_fake = discriminator(fake.detach())    =>    discriminator(fake.float().detach())

So do functions that hand one to a model outside of all regions: `loss = penalized(real, fake.float())`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Class, Function, Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.interp.calls import Calls
from amp_migrate.interp.place import Frame, Place
from amp_migrate.interp.values import values_as_written
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.half_parts import aliases, elements, may_be_half, names_of_halves
from amp_migrate.plan.regions.moved import after_moves
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.rules.regions import HALF_OUTSIDE

_MEASURE = re.compile(r"criterion|metric|dice|iou\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class _Use:
    """A half value that is used in float32, with the uses that may show it to be a tensor."""

    node: cst.BaseExpression
    beside: list[cst.BaseExpression]


def halves_leaving(facts: Facts, forwards: Forwards, regions: list[Region]) -> list[cst.BaseExpression]:
    """The values that need `.float()`. Raises Refusal where one is not certainly a tensor."""
    tensors = Tensors(facts)
    found: dict[cst.BaseExpression, None] = {}
    for region in regions:
        for name in dict.fromkeys(half_names(facts, forwards, region)):
            for use in _uses_after(facts, name, region, set()):
                statement = facts.tree.statement_of(use.node)
                if any(other.covers(statement) for other in regions) or not may_be_half(facts, Place(use.node)):
                    continue
                beside: Sequence[cst.BaseExpression] = use.beside
                taker = _taker(forwards, tensors, use.node)
                if taker is None or not _takes_tensors(facts, taker):
                    loads, inside = _taken_inside(forwards, tensors, regions, use.node, frozenset())
                    beside, taker = (loads, inside) if inside is not None else (beside, taker)
                if taker is None:
                    continue
                is_list = facts.analysis(values_as_written).of(use.node).is_container
                is_tensor = not is_list and any(map(tensors.shows_tensor, beside))
                if not is_tensor and (_computes_elsewhere(facts, taker) or _runs_no_layer(forwards, taker)):
                    continue
                if not is_tensor and not _takes_tensors(facts, taker):
                    text = facts.text(use.node)
                    message = f"{text} leaves autocast in half for a model or a matrix product in float32"
                    raise Refusal(HALF_OUTSIDE, use.node, message)
                found[use.node if is_tensor else _part_taken(facts, use.node)] = None
    return list(found)


def _part_taken(facts: Facts, use: cst.BaseExpression) -> cst.BaseExpression:
    """`output[chosen]`, which is taken for a tensor, where `output` itself may be a list of them; else the use."""
    node = after_moves(facts, use)
    current: cst.CSTNode | None = node
    while current is not None and current is not use:
        if isinstance(current, cst.Subscript):
            assert isinstance(node, cst.BaseExpression)
            return node
        current = current.func if isinstance(current, cst.Call) else getattr(current, "value", None)
    return use


def _uses_after(facts: Facts, name: str, region: Region, seen: set[tuple[str, Statement]]) -> Iterator[_Use]:
    """The uses of a half value and of its elements after the region, whatever they are called there."""
    if (name, region.last) in seen:
        return
    seen.add((name, region.last))
    loads: list[cst.BaseExpression] = list(loads_after(facts, name, region))
    for load in loads:
        assert isinstance(load, cst.Name)
        found = elements(facts, load)
        if not any(isinstance(use, cst.Subscript) for use in found):
            yield _Use(load, loads)
        yield from (_Use(use, [*found, *(loads if isinstance(use, cst.Subscript) else ())]) for use in found)
        statement = facts.tree.statement_of(load)
        for alias in aliases(facts, load, lambda node: after_moves(facts, node)):
            if alias != name or not region.covers(statement):
                yield from _uses_after(facts, alias, Region(statement.block, statement, statement), seen)


def loads_after(facts: Facts, name: str, region: Region) -> Iterator[cst.Name]:
    """The loads after the region, up to the statement that certainly gives the name another value."""
    variable = facts.names.visible(name, region.function)
    for load in variable.loads if variable is not None else ():
        at = facts.tree.statement_of(load)
        if at.function is region.function and at.order > region.last.order and not region.covers(at):
            bound = [one.statement for one in reaching(variable, at)] if variable is not None else []
            if any(one is not None and region.covers(one) for one in bound):
                yield load


def what_follows(statement: Statement) -> Iterator[Statement]:
    """What runs after a statement in its function: later siblings, then those of what holds it."""
    current: Statement | None = statement
    while current is not None:
        yield from current.next_siblings()
        current = current.block.owner


def half_names(facts: Facts, forwards: Forwards, region: Region) -> Iterator[str]:
    """The names that a region gives the outputs of models."""
    for statement in region.statements():
        for inner in statement.descendants():
            node = inner.node
            if isinstance(node, cst.Assign) and isinstance(node.value, (cst.Call, cst.Subscript)):
                if forwards.runs_model(inner):
                    yield from names_of_halves(facts, node)


def _taker(forwards: Forwards, tensors: Tensors, use: cst.BaseExpression) -> cst.Call | None:
    """What needs a value in float32: the call of a model, or of a method of one, or of a criterion."""
    facts = forwards.facts
    given = after_moves(facts, use)
    call = facts.tree.taker(given)
    if call is None:
        return None
    is_compared = call.args[0].value is given and (tensors.is_torch_loss(call) or _is_measure(facts, call))
    is_of_model = _is_module(facts, call) or forwards.roles.is_forward(call)
    return call if is_compared or is_of_model or _leaves_unit(facts, call) else None


def _taken_inside(
    forwards: Forwards, tensors: Tensors, regions: list[Region], use: cst.BaseExpression, callers: frozenset[Function]
) -> tuple[Sequence[cst.BaseExpression], cst.Call | None]:
    """The call of a model that takes a value in the function or forward that is given it, outside of all regions, with
    the uses of the value there.
    """
    facts = forwards.facts
    given = after_moves(facts, use)
    call = facts.tree.taker(given)
    for frame in facts.analysis(Calls).entered(call) if call is not None else ():
        if frame.function in callers or frame.added or frame.skipped:
            continue
        loads = [*_loads_given(facts, frame, given)]
        for load in loads:
            if not any(region.covers(facts.tree.statement_of(load)) for region in regions):
                taker = _taker(forwards, tensors, load)
                if taker is None or not _is_module(facts, taker):
                    _, taker = _taken_inside(forwards, tensors, regions, load, callers | {frame.function})
                if taker is not None:
                    return loads, taker
    return [], None


def _loads_given(facts: Facts, frame: Frame, given: cst.CSTNode) -> Iterator[cst.Name]:
    """The loads of the parameter that an expression is given for."""
    assert frame.call is not None
    for param, arg in facts.objects.arguments(frame.call, frame.function):
        if arg is not None and arg.value is given:
            yield from facts.names.loads_at(param.name)


def _is_measure(facts: Facts, call: cst.Call) -> bool:
    """True for a criterion or a metric by its name that nobody has in sight: it may sum pixels, beyond 65504."""
    name = called_name(call)
    return _MEASURE.search(name) is not None and not name[:1].isupper() and not facts.objects.candidates(call)


def _computes_elsewhere(facts: Facts, call: cst.Call) -> bool:
    return _is_measure(facts, call) or _leaves_unit(facts, call)


def _leaves_unit(facts: Facts, call: cst.Call) -> bool:
    """True for a function, or a method of an instance, of a file of the project that is not read: a metric perhaps."""
    if facts.objects.candidates(call) or not isinstance(call.func, (cst.Name, cst.Attribute)):
        return False
    nodes = [call.func, *([call.func.value] if isinstance(call.func, cst.Attribute) else [])]
    paths = (path for node in nodes for path in facts.objects.paths_behind(node))
    return any(facts.elsewhere.source_of(path) is not None for path in paths)


def _runs_no_layer(forwards: Forwards, call: cst.Call) -> bool:
    """True for a method in sight: what its operations are given is asked of the interpreter, as in any function."""
    methods = forwards.facts.objects.candidates(call) if not any(one.star for one in call.args) else ()
    return bool(methods) and not any(map(forwards.function_runs_model, methods))


def _takes_tensors(facts: Facts, taker: cst.Call) -> bool:
    """True for a layer of torch.nn that is given one thing, and a loss of torch. (What a recurrent layer is given
    second may be a pair.)
    """
    if (facts.names.dotted(taker.func) or "").startswith("torch.nn.functional."):
        return True
    if not isinstance(taker.func, (cst.Name, cst.Attribute)):
        return False
    made = [one.origin for one in facts.objects.objects(taker.func)]
    makers = [facts.names.dotted(one.func) or "" if isinstance(one, cst.Call) else "" for one in made]
    return all(one.startswith("torch.nn.") and (len(taker.args) == 1 or one.endswith("Loss")) for one in makers)


def _is_module(facts: Facts, call: cst.Call) -> bool:
    """A call of a network: made by torch.nn, of a class that derives from one, or asked for its parameters."""
    if not isinstance(call.func, (cst.Name, cst.Attribute)):
        return False
    for one in facts.objects.objects(call.func):
        origin = one.origin
        if one.kind == "call" and isinstance(origin, cst.Call):
            dotted = facts.names.dotted(origin.func) or ""
            return dotted.startswith("torch.nn.") and not dotted.endswith("Loss")
        if one.kind == "instance" and isinstance(origin, Class):
            bases = [facts.text(base.value) for base in origin.node.bases]
            return any("Module" in base for base in bases) and "Loss" not in origin.node.name.value
    return any(_asks_for_parameters(facts, load) for load in facts.names.loads_at(call.func))


def _asks_for_parameters(facts: Facts, load: cst.Name) -> bool:
    parent = facts.tree.parents.get(load)
    return isinstance(parent, cst.Attribute) and parent.value is load and parent.attr.value == "parameters"
