"""Functions beside a copy of FP16_Optimizer that make half of what they are given, and do nothing else.

    inputs = floats_to_half(inputs) if self.in_half else inputs           goes

The file of the copy stays as it is, and such a function with it: what goes are its calls. They are for floats of any
type, so that what they are given is what the plain program has.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.files.casting import only_casts


class ValueCasts:
    """Answers about calls; `program` has the statements of the unit that may change."""

    def __init__(self, facts: Facts, program: Collection[Statement]) -> None:
        self.facts = facts
        self._program = frozenset(program)
        self._known: dict[Function | str, bool] = {}

    def is_one(self, call: cst.Call) -> bool:
        """True for a call of such a function, with nothing but the value."""
        if len(call.args) != 1 or call.args[0].star or not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        function = self.facts.objects.function_named(call.func)
        meant = [function] if function is not None else [*self.facts.names.imported_as(call.func)]
        for one in meant:
            if one not in self._known:
                self._known[one] = self._casts_elsewhere(one) if isinstance(one, str) else self._casts_here(one)
        return any(self._known[one] for one in meant)

    def _casts_here(self, function: Function) -> bool:
        """A function of the unit that does not change."""
        changes = function.owner is not None or any(one in self._program for one in function.body.statements)
        root = self.facts.tree.root_of(function.node).node
        return not changes and isinstance(root, cst.Module) and only_casts(function.name, root.code)

    def _casts_elsewhere(self, path: str) -> bool:
        """A function of a file that is not of the unit, by its full name."""
        source = self.facts.elsewhere.source_of(path)
        return source is not None and only_casts(path.rpartition(".")[2], source.decode(errors="replace"))
