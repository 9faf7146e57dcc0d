"""What makes the values that models are given: in the functions that run them, in helpers whose results they take, and
in the callers whose arguments they take.

    batch = to_half(batch)          with      def to_half(batch):
    scores = model(batch)                         return {name: one.half() for name, one in batch.items()}

Data sets, the functions that collate their elements, and transforms are helpers that a loader calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.tree import Function, Statement, called_name, walk
from amp_migrate.interp.place import Frame, Place
from amp_migrate.interp.steps import Steps
from amp_migrate.models import names
from amp_migrate.models.queries import counts
from amp_migrate.plan.roles import Roles

# What loaders, loops and compositions of transforms call.
_OF_ELEMENTS = ("__getitem__", "__iter__", "__next__", "__call__")
_MOST = 10_000  # places, of one value through different calls


class Given:
    """`parts` are the expressions that make what some forwards are given, with their statements."""

    def __init__(self, facts: Facts, roles: Roles, forwards: Iterable[tuple[cst.Call, Statement]]) -> None:
        self.facts = facts
        self.roles = roles
        self.parts: dict[cst.CSTNode, Statement] = {}
        waiting = [Place(arg.value) for call, _ in forwards for arg in call.args]
        seen: set[Place] = set()
        while waiting and len(seen) < _MOST:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                for part in _passing_on(place.node):
                    self.parts.setdefault(part, facts.tree.statement_of(part))
                    if isinstance(part, cst.BaseExpression) and not facts.tree.is_label(part):
                        waiting += self._behind(Place(part, (), place.frames))

    def _behind(self, place: Place) -> Iterator[Place]:
        """What makes one part; models are no helpers."""
        part = place.node
        is_method = isinstance(part, cst.Attribute) and self.facts.tree.call_of(part) is not None
        if is_method or (isinstance(part, cst.Call) and self.roles.is_forward(part)):
            return
        steps, function_of = self.facts.analysis(Steps), self.facts.tree.function_of
        step = steps.of(place)
        made = (operand for made in step.made for operand in made.operands)
        inside = steps.of(Place(part, (ANY,), place.frames)).same  # what another function puts in, it returns
        own = (one for one in inside if function_of(one.node) is function_of(part))
        yield from (Place(one.node, (), one.frames) for one in (*step.same, *step.written, *made, *own))
        if not isinstance(part, cst.Call):
            return
        for function in self.facts.objects.candidates(part):
            if all(frame.function is not function for frame in place.frames):
                frames = (*place.frames, Frame(function, part))
                yield from (Place(value, (), frames) for value in self._yielded_by(function))
        for function in self._handed_over(part):
            values = (*self.facts.objects.returned_by(function), *self._yielded_by(function))
            yield from (Place(value) for value in values)

    def _yielded_by(self, function: Function) -> Iterator[cst.BaseExpression]:
        parts = (part for one in function.descendants() for part in self.facts.tree.expressions(one))
        yields = (part.value for part in parts if isinstance(part, cst.Yield))
        return (value for value in yields if isinstance(value, cst.BaseExpression))

    def _handed_over(self, call: cst.Call) -> Iterator[Function]:
        """The functions that others run for what they are given: `collate_fn=join`, and the elements of the data set
        that a call makes.
        """
        for arg in call.args:
            function = self.facts.objects.function_handed_over(arg.value)
            if function is not None:
                yield function
        for made in self.facts.objects.classes_made(call):
            found = (self.facts.objects.method_of(made, name) for name in _OF_ELEMENTS)
            yield from (method for method in found if method is not None)


def _passing_on(node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The parts of an expression without those that end in integers or booleans, which go on without a precision.

        drawn = torch.multinomial(chances, n)
        tokens = tokens * (drawn == 0).long()          `tokens` is made of itself alone, whatever `chances` are

    A cast of `chances` makes no half input then, and stays as it is.
    """
    parts = list(walk(node))
    inside = {one for part in parts if _makes_integers(part) for one in walk(part)}
    return (part for part in parts if part not in inside)


def _makes_integers(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Comparison) or (isinstance(part, cst.Call) and called_name(part) in names(counts))
