"""Scaled losses that are handed to a function, which calls their backward, or get another name before it.

    with amp.scale_loss(loss, optimizer) as scaled_loss:
        run_backward(scaled_loss)                               =>      run_backward(scaler.scale(loss))

Where the function is given nothing else, the backward runs in there; where others give it a loss as it is, the call is
taken for the backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import is_backward
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Function, Statement, walk
from amp_migrate.facts.variables import Binding
from amp_migrate.plan.model import Recognition


class HandedLosses:
    """Where the backwards of scaled losses run; `functions` are those that are given nothing else."""

    def __init__(self, facts: Facts, found: Recognition) -> None:
        self.facts = facts
        self._scaled = {name for one in found.backwards if one.block is not None for name in one.block.uses}
        self.functions: set[Function] = set()

    def backward_of(self, name: cst.Name) -> Statement | None:
        """The statement that runs the backward of a scaled loss which is read here; None where none does."""
        here = self.facts.tree.statement_of(name)
        reads = [*each_once([name], partial(_handed_on, self.facts))]
        last = next((read for read in reads if _is_differentiated(self.facts, read)), None)
        if last is None or last is name:
            return here if last is name else None
        if not set(reads) <= self._only_scaled():
            return here
        self.functions |= {self.facts.tree.function_of(read) for read in reads} - {here.function}
        return self.facts.tree.statement_of(last)

    def _only_scaled(self) -> set[cst.Name]:
        """What reads a scaled loss in any case: inside of the `with`, and in functions that get nothing else."""
        found = set(each_once(self._scaled, partial(_handed_on, self.facts)))
        while wrong := {read for read in found if not self._gets_only(read, found)}:
            found -= wrong
        return found

    def _gets_only(self, read: cst.Name, scaled: set[cst.Name]) -> bool:
        """True for a scaled loss, another name for one, and a parameter that every call gives one of some reads."""
        variable = self.facts.names.variable_at(read)
        if read in self._scaled or variable is None:
            return read in self._scaled
        bindings = reaching(variable, self.facts.tree.statement_of(read))
        return bool(bindings) and all(
            self._is_given_only(binding, variable.scope.owner, scaled) for binding in bindings
        )

    def _is_given_only(self, binding: Binding, function: object, scaled: set[cst.Name]) -> bool:
        param = binding.node
        if not isinstance(param, cst.Param) or not isinstance(function, Function):
            return binding.kind == "assign" and not binding.selector and binding.value in scaled
        if self.facts.is_used_outside(function):
            return False
        calls = [call for call, _ in self.facts.objects.possible_callers(function)]
        given = [self.facts.objects.argument(call, function, param) for call in calls]
        return bool(given) and all(arg is not None and arg.value in scaled for arg in given)


def _handed_on(facts: Facts, read: cst.Name) -> Iterator[cst.Name]:
    """What reads a value under another name, or in the function to which a call gives it."""
    holder = facts.tree.parents.get(read)
    if isinstance(holder, cst.Assign) and len(holder.targets) == 1:
        yield from facts.names.loads_at(holder.targets[0].target)
    call = facts.tree.taker(read)
    function = facts.objects.called_function(call) if call is not None else None
    if function is not None and call is not None:
        for param, given in facts.objects.arguments(call, function):
            if given is holder:
                yield from facts.names.loads_at(param.name)


def _is_differentiated(facts: Facts, read: cst.Name) -> bool:
    """True for `scaled_loss.backward(...)` and `torch.autograd.backward([scaled_loss])`."""
    return any(
        isinstance(part, cst.Call)
        and is_backward(facts, part)
        and any(inner is read for inner in walk(part))
        and facts.objects.called_function(part) is None
        for part in facts.tree.expressions(facts.tree.statement_of(read))
    )
