"""What a rewrite is, and the list of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from importlib import import_module
from random import Random

from tests.metamorphic.program import Program

FAMILIES = (
    "conditions temporaries loops sizes names imports identities moves dispatch arguments files bystanders".split()
)
_ONLY_ENDING = ("sizes",)
_MOVING = ("moves", "files", "bystanders")


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """`apply` changes a program wherever it can, or in places that it draws; False where there are none."""

    name: str
    apply: Callable[[Program, Random], bool]
    is_compared: bool = True  # False: what it adds may be decided about, and only has to come to an end
    moves: bool = False  # True: a region may be split by what stands in another place now


@cache
def every_rewrite() -> dict[str, Rewrite]:
    """All rewrites by their names, family by family."""
    found: dict[str, Rewrite] = {}
    for family in FAMILIES:
        module = import_module(f"tests.metamorphic.{family}")
        is_compared = family not in _ONLY_ENDING
        for name, apply in module.REWRITES.items():
            found[f"{family}: {name}"] = Rewrite(f"{family}: {name}", apply, is_compared, family in _MOVING)
    return found
