"""Structural mutants of outputs: do the static checks refuse them?

    python -m tests.structural [--forms apex,units] [--sample N] [--seed S] [--survivors] [--workers N]

Each kind of mutant (`dropped`, `order`, `conditions`, `calls`, `protocol`) makes one mistake in the output of a fixture
that is no matter of precision. Mutants that are the same program by construction are not made (`dependence`).
"""

from __future__ import annotations

from tests.structural import calls, conditions, dropped, order, protocol  # noqa: F401  (they fill the table of kinds)
