"""Where a value is looked at: an expression, a part of its value, and the calls through which it was reached."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.contents import ANY, Key
from amp_migrate.facts.tree import Function

Keys = tuple[Key, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """The key of `outputs.masks`, where the object is what a call has made of keywords."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """A function that was entered by its end, and the call that ran it; None where that is not one call.

    The first `skipped` arguments of the call are not the function's: `checkpoint(run, x)`. The first `added`
    parameters get none of them: the context of `Function.apply(x)`.
    """

    function: Function
    call: cst.Call | None
    skipped: int = 0
    added: int = 0
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.function, self.call, self.skipped, self.added)))

    def __hash__(self) -> int:
        return self._hash


Frames = tuple[Frame, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The part of an expression's value that `keys` lead to, outermost key first: `(1, "mask")` of a tuple of dicts.

    `frames` are the calls that have been entered, innermost last. Without one, a parameter means what any call of its
    function gives.
    """

    node: cst.BaseExpression
    keys: Keys = ()
    frames: Frames = ()
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)  # tables of places ask for it all the time

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.node, self.keys, self.frames)))

    def __hash__(self) -> int:
        return self._hash


def of_any(keys: Keys) -> Keys:
    """The same part of any element."""
    return (ANY, *keys[1:]) if keys else keys
