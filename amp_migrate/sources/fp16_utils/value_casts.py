"""Functions beside a copy of FP16_Optimizer that make half of what they are given, and do nothing else.

    inputs = floats_to_half(inputs) if self.in_half else inputs           goes

The file of the copy stays as it is, and such a function with it: what goes are its calls. They are for floats of any
type, so that what they are given is what the plain program has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.files.casting import only_casts


class ValueCasts:
    """Answers about calls; `program` has the statements of the unit that may change."""

    def __init__(self, facts: Facts, program: Collection[Statement]) -> None:
        self.facts = facts
        self._program = frozenset(program)
        self._known: dict[tuple[str, str], bool] = {}

    def is_one(self, call: cst.Call) -> bool:
        """True for a call of such a function, with nothing but the value."""
        if len(call.args) != 1 or call.args[0].star or not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        for name, source in self._definitions(call.func):
            if (name, source) not in self._known:
                self._known[name, source] = only_casts(name, source)
            return self._known[name, source]
        return False

    def _definitions(self, name: cst.Name | cst.Attribute) -> Iterator[tuple[str, str]]:
        """The function that a name means, with its file, where that is at hand and does not change."""
        function = self.facts.objects.function_named(name)
        if function is not None:
            changes = function.owner is not None or any(one in self._program for one in function.body.statements)
            root = self.facts.tree.root_of(function.node).node
            if not changes and isinstance(root, cst.Module):
                yield function.name, root.code
            return
        for path in self.facts.names.imported_as(name):
            source = self.facts.elsewhere.source_of(path)
            if source is not None:
                yield path.rpartition(".")[2], source.decode(errors="replace")
