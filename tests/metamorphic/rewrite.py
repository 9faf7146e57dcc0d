"""What a rewrite is, and the list of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from random import Random

from tests.metamorphic.program import Program

FAMILIES = "conditions temporaries loops sizes".split()


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """`apply` changes a program wherever it can, or in places that it draws; False where there are none."""

    name: str
    apply: Callable[[Program, Random], bool]


def every_rewrite() -> dict[str, Rewrite]:
    """All rewrites by their names, family by family."""
    found: dict[str, Rewrite] = {}
    for family in FAMILIES:
        module = import_module(f"tests.metamorphic.{family}")
        found |= {f"{family}: {name}": Rewrite(f"{family}: {name}", apply) for name, apply in module.REWRITES.items()}
    return found
