"""Training scripts made at random from the shapes that people write: every one of them runs.

`shape.py` draws what a script is like, `programs.py` and `steps.py` write it down, `dress.py` spoils its formatting.
"""

from __future__ import annotations

from random import Random

from tests.generate.dress import dressed
from tests.generate.programs import program
from tests.generate.shape import draw

__all__ = ["script"]


def script(random: Random) -> bytes:
    """The source of one script; every choice is made by `random`."""
    return dressed(program(draw(random)), random)
