"""One operation, and what is known of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from amp_migrate.models.dtypes import HALF, INTEGER, NUMBER, SINGLE, Dtype, Given, Rank, promoted
from amp_migrate.models.rules import CONSTANT, INSIDE, POLICIES, PROMOTED, RULES, SETS, TAKE_ONE, are_mixed
from amp_migrate.models.traits import named

_MOST_INPUTS = 4  # of `cat`, say: inputs beyond them are taken together


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table."""

    name: str
    kind: str  # function, method, property, layer
    result: str = "same"  # a name of rules.RULES, for the first output
    policy: str = ""  # a name of rules.POLICIES: what autocast casts the inputs to
    operand: int = 0  # the input whose dtype the result has, where it is that of one
    inputs: int = 1  # how many floating tensors it takes at most
    without: frozenset[Dtype] = frozenset()  # no kernel for these
    second: int = -1  # of a strict operation: the position among its arguments of the second floating tensor
    strict: bool = False  # raises where its floating inputs have several dtypes
    by_argument: bool = False  # an argument may ask for another dtype: `to`, `tensor`
    raises_under_autocast: bool = False
    outputs: tuple[str, ...] = ()  # of a tuple, for each output: "result", or the rule of its own dtype
    parameters: bool = False  # a layer that has some, in float32
    view: str = ""  # "always", "sometimes"
    in_place: bool = False
    shape_only: bool = False  # the values are exactly those of the input, in order or not, repeated or not
    picks: bool = False  # the values are some of the input's
    elementwise: bool = False
    reduction: bool = False
    product: bool = False  # sums products of two inputs
    linear: str = ""  # "linear", "affine", "homogeneous" in the first input
    grows: str = ""  # n: with the number of elements; v: past half's largest with 300; u: below its smallest with 1e-4
    drops_gradient: bool = False  # the result requires no gradient
    values: str = ""  # "0..1", "-1..1", where the range of values is known
    source: str = "measured"
    guess: bool = False  # from the name alone

    @property
    def bare(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    def is_a(self, trait: str) -> bool:
        """Whether its bare name has a trait of traits.json; the name of a layer in small letters."""
        return (self.bare.lower() if self.kind == "layer" else self.bare) in named(trait)

    @property
    def half_kernel(self) -> bool:
        """Whether the operation runs in half at all."""
        return HALF not in self.without

    @property
    def takes_one(self) -> bool:
        """Whether one input alone decides the dtype of the result."""
        return self.result in TAKE_ONE

    def other_output(self, output: str) -> frozenset[Dtype]:
        """The dtype of an output that does not follow the rule."""
        return SETS.get(output) or frozenset((Dtype(output),))

    def dtype(
        self, inputs: Sequence[frozenset[Dtype]], autocast: bool, zero_dim: Sequence[int] = ()
    ) -> frozenset[Dtype]:
        """What the first output may be, for what each input may be; nothing where every choice raises.

        `zero_dim` are the positions of the inputs that are tensors without dimensions.
        """
        return _dtype(self, tuple(inputs), autocast, tuple(zero_dim))

    def result_of(self, inputs: Sequence[Given], autocast: bool) -> Dtype | None:
        """The dtype of the first output for certain inputs; None where torch raises, or gives no such value."""
        if autocast and self.raises_under_autocast:
            return None
        seen = POLICIES[self.policy if autocast else ""]([*inputs, *self._own()])
        if not seen:
            return RULES[self.result](seen, 0) if self.result in CONSTANT else None
        decides = promoted(seen) if self.result in PROMOTED else seen[min(self.operand, len(seen) - 1)].dtype
        if (self.strict and are_mixed(seen)) or decides in self.without:
            return None
        result = RULES[self.result](seen, self.operand)
        return HALF if result is SINGLE and autocast and self.policy == INSIDE else result

    def _own(self) -> list[Given]:
        return [Given(SINGLE)] if self.parameters else []


@lru_cache(maxsize=4096)
def _dtype(
    operation: Operation, inputs: tuple[frozenset[Dtype], ...], autocast: bool, zero_dim: tuple[int, ...]
) -> frozenset[Dtype]:
    if operation.result in SETS:
        return SETS[operation.result]
    choices = [list(_given(one, place in zero_dim)) for place, one in enumerate(inputs)]
    if len(choices) > _MOST_INPUTS:
        rest = [one for choice in choices[_MOST_INPUTS - 1 :] for one in choice]
        choices = [*choices[: _MOST_INPUTS - 1], list(dict.fromkeys(rest))]
    results = {operation.result_of(given, autocast) for given in itertools.product(*choices)}
    return frozenset(one for one in results if one is not None)


def _given(dtypes: frozenset[Dtype], is_zero_dim: bool) -> Iterator[Given]:
    """The inputs that one may be. A number of Python is an integer or a float."""
    rank = Rank.ZERO_DIM if is_zero_dim else Rank.DIMENSIONS
    for dtype in sorted(dtypes, key=lambda one: one.value):
        if dtype is NUMBER:
            yield from (Given(INTEGER, Rank.NUMBER), Given(SINGLE, Rank.NUMBER))
        else:
            yield Given(dtype, rank)
