"""What operations are, where a hazard or a reader asks for their meaning and no measurement tells: by hand.

Each trait has the bare names of its operations, what it says of them, and its source.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def named(trait: str) -> frozenset[str]:
    """The bare names of the operations with a trait. Raises KeyError for one that is not in the table."""
    return frozenset(_table()[trait]["names"].split())


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("traits.json").read_bytes())
    return table
