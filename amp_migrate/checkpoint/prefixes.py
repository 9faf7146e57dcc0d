"""The names that Apex's wrappers put before every key of a model's state dict.

`network_to_half(model)` is Sequential(tofp16(), model): "1."; FP16Model holds the model as `network`. A
DistributedDataParallel around them has its "module." in front.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Prefix(NamedTuple):
    """`outer` stays, `wrapper` goes: "module." and "1."."""

    outer: str
    wrapper: str

    def __str__(self) -> str:
        return self.outer + self.wrapper

    @property
    def origin(self) -> str:
        """The name of what put it there."""
        return "network_to_half" if self.wrapper == "1." else "FP16Model"


def wrapper_prefix(state: dict[str, Any]) -> Prefix | None:
    """The prefix that all keys have, if it can be a wrapper's."""
    match = re.match(r"(module\.)?(1\.|network\.)", next(iter(state)))
    if match is None or not all(key.startswith(match[0]) for key in state):
        return None
    return Prefix(match[1] or "", match[2])


def strip(state: dict[str, Any], prefix: Prefix) -> None:
    """Take the wrapper out of the keys and of the versions that a state dict carries, in place."""
    entries = [(prefix.outer + key[len(str(prefix)) :], entry) for key, entry in state.items()]
    state.clear()
    state.update(entries)
    metadata = getattr(state, "_metadata", None)
    if isinstance(metadata, dict):
        renamed = [
            (prefix.outer + f"{name}."[len(str(prefix)) :], entry)
            for name, entry in metadata.items()
            if f"{name}.".startswith(str(prefix))
        ]
        above = [("", metadata[""])] if prefix.outer and "" in metadata else []
        metadata.clear()
        metadata.update(above + [(name.removesuffix("."), entry) for name, entry in renamed])
