"""Functions beside a copy of FP16_Optimizer that make half of what they are given.

    inputs = floats_to_half(inputs) if self.in_half else inputs           goes

The file of the copy stays as it is, and such a function with it: what goes are its calls. They are for floats of any
type, so that what they are given is what the plain program has.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement

_CASTS = re.compile(r"\.half\(\)|\bfloat16\b|\.type\(.*HalfTensor")
# What is cast there are weights, layer by layer.
_OF_MODULES = re.compile(r"\.(?:named_)?(?:modules|children|parameters|buffers)\(|\bnn\.")


class ValueCasts:
    """Answers about calls; `program` has the statements of the unit that may change."""

    def __init__(self, facts: Facts, program: Collection[Statement]) -> None:
        self.facts = facts
        self._program = frozenset(program)
        self._known: dict[str, bool] = {}

    def is_one(self, call: cst.Call) -> bool:
        """True for a call of such a function, with nothing but the value."""
        if len(call.args) != 1 or call.args[0].star or not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        text = self._definition(call.func)
        if text not in self._known:
            self._known[text] = _CASTS.search(text) is not None and _OF_MODULES.search(text) is None
        return self._known[text]

    def _definition(self, name: cst.Name | cst.Attribute) -> str:
        """The code of a function that does not change; nothing for what does, or is no function at hand."""
        function = self.facts.objects.function_named(name)
        if function is not None:
            changes = function.owner is not None or any(one in self._program for one in function.body.statements)
            return "" if changes else self.facts.text(function.node)
        for path in self.facts.names.imported_as(name):
            source = self.facts.elsewhere.source_of(path)
            found = _definition_in(source, path.rpartition(".")[2]) if source is not None else None
            if found is not None:
                return found
        return ""


def _definition_in(source: bytes, name: str) -> str | None:
    """The code of a function at the top of a file."""
    found = re.search(rb"^def %s\b.*?(?=^[^\s#)]|\Z)" % name.encode(), source, re.MULTILINE | re.DOTALL)
    return found.group().decode(errors="replace") if found is not None else None
