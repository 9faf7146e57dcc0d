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
from amp_migrate.files.casting import Casting, casting_of


class ValueCasts:
    """Answers about calls; `program` has the statements of the unit that may change."""

    def __init__(self, facts: Facts, program: Collection[Statement]) -> None:
        self.facts = facts
        self._program = frozenset(program)
        self._known: dict[Function | str, Casting | None] = {}

    def is_one(self, call: cst.Call) -> bool:
        """True for a call of such a function, with nothing but the value."""
        if len(call.args) != 1 or call.args[0].star or not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        return any(self._casting(one) is not None for one in self._meant(call))

    def may_be_given_integers(self, call: cst.Call) -> bool:
        """True for a call of one that asks for no type: `return value.half()`."""
        return any(self._casting(one) is Casting.WHATEVER for one in self._meant(call))

    def _meant(self, call: cst.Call) -> list[Function | str]:
        assert isinstance(call.func, (cst.Name, cst.Attribute))
        function = self.facts.objects.function_named(call.func)
        return [function] if function is not None else [*self.facts.names.imported_as(call.func)]

    def _casting(self, meant: Function | str) -> Casting | None:
        if meant not in self._known:
            self._known[meant] = self._elsewhere(meant) if isinstance(meant, str) else self._here(meant)
        return self._known[meant]

    def _here(self, function: Function) -> Casting | None:
        """A function of the unit that does not change."""
        changes = function.owner is not None or any(one in self._program for one in function.body.statements)
        root = self.facts.tree.root_of(function.node).node
        return casting_of(function.name, root.code) if not changes and isinstance(root, cst.Module) else None

    def _elsewhere(self, path: str) -> Casting | None:
        """A function of a file that is not of the unit, by its full name."""
        source = self.facts.elsewhere.source_of(path)
        return casting_of(path.rpartition(".")[2], source.decode(errors="replace")) if source is not None else None
