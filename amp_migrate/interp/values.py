"""What values are, under autocast and beside it: in which dtype, and whether a tensor has dimensions.

Operations have the dtype that their row in `models/` gives them, everything else that of what it comes from. What is
found is the least that holds of loops and recursions, so that no loop makes a value unknown.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.interp.place import Frames, Place
from amp_migrate.interp.search import Trace, trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.uses import shows_tensor
from amp_migrate.models import Dtype, Operation
from amp_migrate.models.queries import follows, may_compute_in_half, writes
from amp_migrate.models.traits import named

HALF, SINGLE = Dtype.HALF, Dtype.SINGLE
# What is out of sight may be all that scripts compute with, but for doubles and complex numbers.
ANYTHING = frozenset((Dtype.BOOLEAN, Dtype.INTEGER, HALF, SINGLE, Dtype.NUMBER))
FLOATING = frozenset((HALF, SINGLE))
_MOST = 20_000  # places behind one question


# Whether the last of some statements runs under autocast, to which the calls in the others have led, outermost first.
Runs = Callable[[Sequence[Statement]], bool]


def _everywhere(statements: Sequence[Statement]) -> bool:
    return True


class Repairs(Protocol):
    """What has been decided so far: expressions that are cast to float32, containers whose last module runs on float32,
    and statements that autocast leaves alone.
    """

    floats: list[cst.BaseExpression]
    split: list[cst.Call]
    islands: list[Statement]


@dataclasses.dataclass
class Unrepaired:
    """Nothing has been decided."""

    floats: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    split: list[cst.Call] = dataclasses.field(default_factory=list)
    islands: list[Statement] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What a value may be. No dtype: None or text (`is_none`), or nothing that is known yet."""

    dtypes: frozenset[Dtype] = frozenset()
    is_zero_dim: bool = False  # certainly
    is_open: bool = False  # something out of sight has a say in it
    is_container: bool = False  # it may be a list, a tuple or a dict, of what the dtypes say, or an instance
    is_instance: bool = False  # it may be an instance of a class of the unit, or what a method of one returns
    is_none: bool = False  # it may be None, or text

    def __or__(self, other: Value) -> Value:
        if _NOTHING in (self, other):
            return self if other == _NOTHING else other
        is_open = self.is_open or other.is_open
        is_container = self.is_container or other.is_container
        is_instance = self.is_instance or other.is_instance
        is_none = self.is_none or other.is_none
        is_zero_dim = self.is_zero_dim and other.is_zero_dim
        return Value(self.dtypes | other.dtypes, is_zero_dim, is_open, is_container, is_instance, is_none)

    @property
    def may_be_half(self) -> bool:
        return HALF in self.dtypes

    @property
    def is_tensor(self) -> bool:
        """Certainly: no number and no container. Of a dtype that is not known yet it says nothing."""
        return Dtype.NUMBER not in self.dtypes and not self.is_container

    @property
    def is_half(self) -> bool:
        """Certainly."""
        return self.dtypes == {HALF}


_NOTHING = Value()
_UNKNOWN = Value(ANYTHING, is_open=True)
_OF_INSTANCE = Value(ANYTHING, is_open=True, is_container=True, is_instance=True)


class Values:
    """Answers for the expressions of a unit, repaired as `repairs` say so far."""

    def __init__(self, facts: Facts, steps: Steps, repairs: Repairs, runs_under_autocast: Runs = _everywhere) -> None:
        self.facts = facts
        self.steps = steps
        self._repairs = repairs
        self.runs_under_autocast = runs_under_autocast
        self._known: dict[Place, Value] = {}
        self._repaired: frozenset[object] = frozenset()  # as it was when these were worked out
        self._noted: set[Place] = set()
        self._behind_them: defaultdict[Place, list[Place]] = defaultdict(list)  # what is worked out of each place
        self._changed_by: defaultdict[object, list[Place]] = defaultdict(list)  # what each repair would change

    def of(self, node: cst.BaseExpression) -> Value:
        """What an expression may be where it stands, whoever calls the function that it stands in."""
        return self.at(Place(node))

    def alone(self, node: cst.BaseExpression) -> Value:
        """What it would be if its statement ran without autocast."""
        statement = self.facts.tree.statement_of(node)
        if statement in self._repairs.islands:
            return self.of(node)
        self._follow_repairs()
        known, repaired = dict(self._known), self._repaired
        self._repairs.islands.append(statement)
        try:
            return self.of(node)
        finally:
            self._repairs.islands.pop()
            self._known, self._repaired = known, repaired

    def at(self, place: Place) -> Value:
        """The same of a part of a value, after certain calls."""
        self._follow_repairs()
        if place not in self._known:
            self._settle(place)
        return self._known[place]

    def _follow_repairs(self) -> None:
        """Forget what has changed since the last answer: what a new repair decides, and all that comes from it."""
        repaired = frozenset((*self._repairs.floats, *self._repairs.split, *self._repairs.islands))
        waiting = [place for one in repaired ^ self._repaired for place in self._changed_by[one]]
        self._repaired = repaired
        while waiting:
            place = waiting.pop()
            if self._known.pop(place, None) is not None:
                waiting += self._behind_them[place]

    def _note(self, place: Place) -> None:
        """Remember what a value is worked out of."""
        if place in self._noted:
            return
        self._noted.add(place)
        self._changed_by[place.node].append(place)
        for source in self._sources(place):
            self._behind_them[source].append(place)
        for made in self.steps.of(place).made:
            self._changed_by[made.node].append(place)
            self._changed_by[self.facts.tree.statement_of(made.node)].append(place)

    def made_of(self, made: Made) -> frozenset[Dtype]:
        """What the result of an operation may be."""
        for one in made.operands:
            self.at(one)
        return self._made(made, made.operands[0].frames if made.operands else ()).dtypes

    def may_leave_autocast(self, place: Place, *, unseen: bool = True) -> bool:
        """True where a value has the dtype of what autocast has made half, or (`unseen`) of a call under it that is out
        of sight. What is in sight otherwise (a batch, a parameter) is what it was without autocast.
        """
        return bool(self.halves(place, unseen=unseen))

    def halves(self, place: Place, *, unseen: bool = True) -> frozenset[cst.BaseExpression]:
        """What autocast may have made half on the ways back from a value to what has given it its dtype."""
        ways = self.ways_of_dtype(place)
        ends = (one for one in ways.ends if _ends_in_half(one.operations) and _output(one, _NOTHING) == _NOTHING)
        made = ((one.node, one.operands[0].frames if one.operands else ()) for one in ends)
        unseen_ones = (one for one in ways.open if unseen and (isinstance(one.node, cst.Call) or self._is_of_hook(one)))
        calls = ((one.node, one.frames) for one in unseen_ones)
        return frozenset(node for node, frames in (*made, *calls) if self.is_autocast(node, frames))

    def _is_of_hook(self, place: Place) -> bool:
        """True for what torch gives to a forward hook: the output of a module."""
        variable = self.facts.names.variable_at(place.node)
        return variable is not None and variable.scope.owner in self._hooks

    @cached_property
    def _hooks(self) -> set[object]:
        registered = (one for one, _ in self.facts.tree.every(cst.Call) if called_name(one) in named("forward hook"))
        return {
            hook for one in registered for arg in one.args for hook in self.facts.objects.functions_given(arg.value)
        }

    def ways_of_dtype(self, place: Place) -> Trace:
        """The ways back from a value to what has given it its dtype."""
        without = self._repairs.floats
        return trace(self.steps, place, _passes_dtype, self._has_its_own_dtype, of_dtype=True, without=without)

    def _has_its_own_dtype(self, made: Made) -> bool:
        """True for the indices of `x.max(1)`, and for a softmax under autocast, which is float32 there, and half of
        what is half elsewhere.
        """
        if _output(made, _NOTHING) != _NOTHING:
            return True
        has_policy = any(one is not None and one.policy for one in made.operations)
        return has_policy and self.is_autocast(made.node, made.operands[0].frames if made.operands else ())

    def _settle(self, place: Place) -> None:
        """Work out a value and all that it comes from: the least that agrees with every step."""
        behind = self._behind(place)
        self._known |= dict.fromkeys(behind, _NOTHING)
        is_changed = True
        while is_changed:
            is_changed = False
            for one in behind:
                found = self._known[one] | self._folded(one)
                if found != self._known[one]:
                    self._known[one] = found
                    is_changed = True

    def _behind(self, place: Place) -> list[Place]:
        """The places that a value comes from and that are not worked out yet, each behind those that it comes from."""
        found: dict[Place, None] = {}
        open_: dict[Place, Iterator[Place]] = {place: self._sources(place)}
        while open_:
            current, rest = open_.popitem()
            following = next((one for one in rest if not (one in self._known or one in found or one in open_)), None)
            if following is None:
                found[current] = None
                self._note(current)
                continue
            open_[current] = rest
            if len(found) + len(open_) > _MOST:
                self._known[following] = _UNKNOWN
            elif following != current:
                open_[following] = self._sources(following)
        return [*found]

    def _sources(self, place: Place) -> Iterator[Place]:
        step = self.steps.of(place)
        yield from step.same
        for made in step.made:
            yield from made.operands
            if isinstance(made.cast, Place):
                yield made.cast

    # -- one step ---------------------------------------------------------------------------------------

    def _folded(self, place: Place) -> Value:
        if place.node in self._repaired and place.node in self._repairs.floats:
            return Value(frozenset((SINGLE,)))
        step = self.steps.of(place)
        found = _constant(place.node) if step.is_constant else _NOTHING
        for one in step.same:
            found |= self._known[one]
        if step.is_lost:
            found |= _UNKNOWN
        if not place.keys and (step.is_container or step.is_instance or type(place.node) in _DISPLAYS):
            found = dataclasses.replace(found, is_container=True, is_instance=step.is_instance)
        for made in step.made:
            found |= self._made(made, place.frames)
        return self._as_used(place, found) if found.dtypes >= ANYTHING else found

    def _made(self, made: Made, frames: Frames) -> Value:
        given = [self._known[one] for one in made.operands]
        if given and given[0].is_instance and made.operation is not None and made.operation.kind == "method":
            return _OF_INSTANCE
        if type(made.node) in _OPERATORS and all(one.dtypes == _NUMBER for one in given):
            return Value(_NUMBER)
        if type(made.node) is cst.Name and len(given) > 1 and given[0].dtypes == _NUMBER:
            return given[1]  # `total = 0`, `total += x`
        if type(made.node) is cst.BinaryOperation and given[0].is_none and not given[0].dtypes:
            return given[0]  # `"%d of %d" % (done, all)` is a text
        if made.cast is not None:
            is_open = self._known[made.cast].is_open if isinstance(made.cast, Place) else len(made.cast) > 1
            return Value(self._asked(made.cast, given), bool(given) and given[0].is_zero_dim, is_open)
        operations = made.operations
        if type(made.node) is cst.BinaryOperation and given[0].dtypes == _NUMBER:
            operations, given = _reflected(operations), given[::-1]
        if made.node in self._repaired and made.node in self._repairs.split:
            operations, given = operations[-1:], [Value(frozenset((SINGLE,)))]
        is_number = type(made.node) in _OPERATORS and all(Dtype.NUMBER in one.dtypes for one in given)
        autocast = self.is_autocast(made.node, frames)
        for operation in operations:
            given = [_returned(operation, given, autocast, made.is_plain)]
        found = _output(made, given[0])
        return dataclasses.replace(found, dtypes=found.dtypes | _NUMBER) if is_number else found

    def _asked(self, cast: frozenset[Dtype] | Place, given: list[Value]) -> frozenset[Dtype]:
        """The dtype that a call asks for: that of `y` in `x.to(y)`, which changes nothing where y is a device."""
        if not isinstance(cast, Place):
            return cast
        asked = self._known[cast]
        if asked.is_open:
            return FLOATING
        is_device = not asked.dtypes - _NUMBER and (bool(asked.dtypes) or asked.is_none)
        return given[0].dtypes if given and is_device else asked.dtypes - _NUMBER

    def _is_setting(self, place: Place) -> bool:
        """True for a parameter that is a number unless another one is given: `margin=0.3`, configured."""
        params = [one.node for one in self.facts.names.bindings_at(place.node) if one.kind == "param"]
        defaults = [one.default for one in params if isinstance(one, cst.Param) and one.default is not None]
        return any(_constant(one).dtypes == _NUMBER and literal_value(one) is not UNKNOWN for one in defaults)

    def is_autocast(self, node: cst.BaseExpression, frames: Frames) -> bool:
        """Whether an expression runs under autocast after certain calls: not in islands, nor where modules are made."""
        statement = self.facts.tree.statement_of(node)
        if statement.function.name == "__init__" or statement in self._repairs.islands:
            return False
        calls = [self.facts.tree.statement_of(one.call) for one in frames if one.call is not None]
        return self.runs_under_autocast([*calls, statement])

    def _as_used(self, place: Place, found: Value) -> Value:
        """What may be anything, but for its use: a setting is a number, and what is treated as a tensor is one."""
        if self._is_setting(place):
            return Value(_NUMBER)
        variable = self.facts.names.variable_at(place.node)
        owner = variable.scope.owner if variable is not None else None
        if variable is None or place.keys or found.is_instance or not isinstance(owner, Function):
            return found
        if variable.name == owner.receiver:
            return found
        is_tensor = any(shows_tensor(self.facts, load) for load in variable.loads)
        return Value(FLOATING, is_open=True) if is_tensor else found


# Of Python: what they make of numbers is a number. (Asked for by type: LibCST's classes are abstract, and slow to ask.)
_OPERATORS = frozenset((cst.BinaryOperation, cst.UnaryOperation, cst.Name))
_DISPLAYS = frozenset((cst.List, cst.ListComp, cst.Tuple, cst.Set, cst.Dict, cst.DictComp, cst.GeneratorExp))
_NUMBER = frozenset((Dtype.NUMBER,))


def _reflected(operations: tuple[Operation | None, ...]) -> tuple[Operation | None, ...]:
    """`2 ** x` and `1 / x`, which the tensor is asked for."""
    (operation,) = operations
    row = models.method(f"__r{operation.bare.removeprefix('__')}") if operation is not None else None
    return (row or operation,)


def _returned(operation: Operation | None, given: list[Value], autocast: bool, is_plain: bool) -> Value:
    """What an operation makes of its operands; of one that is not known, a tensor of floating point numbers."""
    if operation is None:
        return Value(FLOATING, is_open=True)
    given = [one for one in given if one.dtypes or not one.is_none]
    given = [_UNKNOWN if one.is_container and not one.dtypes else one for one in given]  # `torch.tensor(rows)`
    if any(not one.dtypes for one in given):
        return _NOTHING  # not known yet, or never
    zero_dim = tuple(place for place, one in enumerate(given) if one.is_zero_dim)
    inputs = [one.dtypes for one in given]
    if operation.is_a("list"):
        inputs = [one - _NUMBER or one for one in inputs]
    elif operation.takes_one and operation.operand < len(inputs):
        about = inputs[operation.operand]
        inputs[operation.operand] = about - _NUMBER or about  # the tensor that the operation is about
    dtypes = _dtypes(operation, inputs, autocast, zero_dim)
    is_open = len(dtypes) > 1 and any(one.is_open for one in given)
    return Value(dtypes, _has_no_dimensions(operation, given, is_plain), is_open)


def _has_no_dimensions(operation: Operation, given: list[Value], is_plain: bool) -> bool:
    if operation.reduction and not operation.product:
        return is_plain
    without = [one.is_zero_dim or one.dtypes == _NUMBER for one in given]
    return operation.inputs > 0 and operation.elementwise and bool(without) and all(without)


def _dtypes(
    operation: Operation, inputs: list[frozenset[Dtype]], autocast: bool, zero_dim: tuple[int, ...]
) -> frozenset[Dtype]:
    """What an operation returns. Where it raises for half, what it does of float32, as the script has it outside of
    autocast and as it is repaired to; a write is repaired to the dtype of what it writes into. Where it raises for
    whatever is known, something else is given to it when it runs: what it does of float32.
    """
    found = operation.dtype(inputs, autocast, zero_dim)
    if (found and HALF not in operation.without) or operation.result == "nothing":
        return found
    if writes(operation) and inputs:
        return operation.dtype([inputs[operation.operand]] * len(inputs), autocast, zero_dim)
    repaired = [one - {HALF} | {SINGLE} if HALF in one else one for one in inputs]
    floats = [frozenset((SINGLE,)) for _ in inputs]
    anyway = operation.dtype(repaired, False, zero_dim) or operation.dtype(floats, autocast, zero_dim) or ANYTHING
    return found | anyway


def _passes_dtype(row: Operation) -> bool:
    """Without autocast it has the dtype of what it is given."""
    return row.shape_only or follows(row) or row.picks


def _keeps_dtype(row: Operation) -> bool:
    """It has the dtype of what it is given, under autocast as well."""
    return row.shape_only or (_passes_dtype(row) and not row.policy)


def _ends_in_half(operations: Sequence[Operation | None]) -> bool:
    """True where the last of them that decides the dtype may be run in half: the Conv1d of (Conv1d, Sigmoid)."""
    decisive = next((one for one in reversed(operations) if one is None or not _keeps_dtype(one)), operations[0])
    return decisive is None or may_compute_in_half(decisive)


def _constant(node: cst.BaseExpression) -> Value:
    """A number of the program; None and text are nothing to compute with."""
    value = literal_value(node)
    return Value(_NUMBER) if isinstance(value, (int, float)) or value is UNKNOWN else Value(is_none=True)


def _output(made: Made, first: Value) -> Value:
    """One of several results: `values, indices = x.topk(5)`."""
    operation = made.operations[-1]
    outputs = operation.outputs if operation is not None else ()
    if not isinstance(made.output, int) or not outputs or made.output >= len(outputs):
        return first
    rule = outputs[made.output]
    return first if operation is None or rule == "result" else Value(operation.other_output(rule))


def values_as_written(facts: Facts) -> Values:
    """What the values are under autocast where nothing is repaired."""
    return Values(facts, facts.analysis(Steps), Unrepaired())
