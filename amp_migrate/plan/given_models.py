"""The models whose parameters a call is given that builds an optimizer.

    Adam(model.parameters())           params += list(m.parameters()); Adam(params)           self.groups.append(...)

A function that builds optimizers for several callers builds each of what that caller gives it:

    def make(nets): return Adam(chain(*(net.parameters() for net in nets)))
    opt_g, opt_d = make([generator]), make([critic])
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import argument_value, called_name, walk
from amp_migrate.interp.place import Frame, Frames, Place
from amp_migrate.interp.steps import Steps
from amp_migrate.models.traits import named


class GivenModels:
    """Answers for the calls of a unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._steps = facts.analysis(Steps)

    def of(self, optimizer: Object) -> list[cst.BaseExpression]:
        """X in `SGD(X.parameters())`, for the call that made an optimizer, as its own caller names X; nothing where no
        such X is in sight.
        """
        if not isinstance(optimizer.origin, cst.Call):
            return []
        calls = [call for call in reversed(optimizer.calls) if isinstance(call, cst.Call)]  # that it came through
        frames = tuple(Frame(one, call) for call in calls for one in self.facts.objects.candidates(call))
        found, _ = self.behind([arg.value for arg in optimizer.origin.args], frames)
        return [given for node in found for given in self._as_given(node, frames)]

    def all_of(self, optimizer: Object) -> list[cst.BaseExpression]:
        """The same where an optimizer is known to have nothing but the parameters of such models, else nothing."""
        call = optimizer.origin
        given = argument_value(call, "params", 0) if isinstance(call, cst.Call) else None
        return self.of(optimizer) if given is not None and self._are_of_models(Place(given)) else []

    def _are_of_models(self, place: Place, seen: frozenset[Place] = frozenset()) -> bool:
        """True for `X.parameters()`, and for what is joined, sifted or kept of nothing else."""
        if place in seen:
            return True
        node, step = place.node, self._steps.of(place)
        if place.keys or isinstance(node, (cst.Name, cst.Attribute)):
            parts = [*step.same, *(operand for one in step.made for operand in one.operands)]
            parts += [Place(one.node, one.keys[:-1], one.frames) for one in self._put_into(place) if not place.keys]
            parts = parts if not step.is_lost else []
        else:
            parts = [Place(one, (), place.frames) for one in _joined_in(node)]
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not place.keys:
            if called_name(node) in named("parameters"):
                return True
        return bool(parts) and all(self._are_of_models(part, seen | {place}) for part in parts)

    def behind(
        self, nodes: list[cst.BaseExpression], frames: Frames = ()
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """X of every `X.parameters()` that goes into some expressions, and all expressions on the way: names, lists
        and attributes, and the arguments of calls; of functions in `frames` those of that call alone.
        """
        found: dict[cst.BaseExpression, None] = {}
        waiting = [Place(node, (), frames) for node in nodes]
        seen: dict[Place, None] = {}
        while waiting:
            place = waiting.pop(0)
            if place in seen:
                continue
            seen[place] = None
            inside = self._steps.of(place).same if place.keys else ()
            waiting += inside
            for part in walk(place.node) if not inside else ():
                if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
                    if called_name(part) in named("parameters"):
                        found[part.func.value] = None
                elif isinstance(part, (cst.Name, cst.Attribute)) and not self.facts.tree.is_label(part):
                    if self.facts.tree.call_of(part) is None:
                        waiting += self._held(part, place.frames)
        return list(found), list(dict.fromkeys(place.node for place in seen))

    def _held(self, node: cst.BaseExpression, frames: Frames) -> list[Place]:
        """What a name or an attribute means, and what is put into the list that it means."""
        place = Place(node, (), frames)
        step = self._steps.of(place)
        made = [operand for one in step.made for operand in one.operands]
        return [*step.same, *made, *self._put_into(place)]

    def _put_into(self, place: Place) -> tuple[Place, ...]:
        return self._steps.of(Place(place.node, (ANY,), place.frames)).same

    def _as_given(self, node: cst.BaseExpression, frames: Frames) -> list[cst.BaseExpression]:
        """What an expression of a function means for the calls that led there; itself, where that is not in sight."""
        if not any(frame.function is self.facts.tree.function_of(node) for frame in frames):
            return [node]
        found: list[cst.BaseExpression] = []
        waiting = [Place(node, (), frames)]
        seen: set[Place] = set()
        while waiting:
            place = waiting.pop()
            if not place.frames and not place.keys:
                found.append(place.node)
            elif place not in seen:
                seen.add(place)
                step = self._steps.of(place)
                if step.is_lost or step.made or not step.same:
                    return [node]
                waiting += step.same
        return found


def _joined_in(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an expression joins or sifts."""
    if isinstance(node, cst.Call):
        is_joining = called_name(node) in ("list", "tuple", "iter", "chain", "from_iterable", "filter")
        return [arg.value for arg in node.args if not isinstance(arg.value, cst.Lambda)] if is_joining else []
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, (cst.List, cst.Tuple)):
        return [element.value for element in node.elements]
    if isinstance(node, cst.Dict):
        return [one.value for one in node.elements if isinstance(one, cst.DictElement) and _is_of_group(one.key)]
    return [node.for_in.iter] if isinstance(node, (cst.ListComp, cst.GeneratorExp)) else []


def _is_of_group(key: cst.BaseExpression) -> bool:
    return isinstance(key, cst.SimpleString) and key.evaluated_value == "params"
