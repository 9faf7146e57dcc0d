"""What must stay out of autocast regions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, reads
from amp_migrate.facts.tree import Function, Statement, argument_value, called_name
from amp_migrate.files.gradients import trains
from amp_migrate.interp.calls import Calls
from amp_migrate.plan.steps.events import Events


class Barriers:
    """Statements that must not run under autocast: they reach a backward, a step, autograd.grad or yield, be it in
    a file that is not at hand.
    """

    def __init__(self, facts: Facts, events: Events) -> None:
        self.facts = facts
        self.events = events
        self.unread: list[str] = []  # what seems to train in files that are not at hand
        self._functions: dict[Function, bool] = {}
        self._statements: dict[Statement, bool] = {}

    def blocks(self, statement: Statement) -> bool:
        if statement not in self._statements:
            self._statements[statement] = any(self._own(inner) for inner in statement.descendants())
        return self._statements[statement]

    def _own(self, statement: Statement, *, is_manager: bool = False) -> bool:
        """True for such a statement; the yield of a context manager leaves no region that its `with` stands in."""
        if statement in self.events.backwards or statement in self.events.steps:
            return True
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.Await) or (isinstance(part, cst.Yield) and not is_manager):
                return True
            if isinstance(part, cst.Call):
                if called_name(part) == "backward" or is_autograd_grad(self.facts, part):
                    return True
                if self.call_blocks(part):
                    return True
        return False

    def call_blocks(self, call: cst.Call) -> bool:
        """True for a call that may run such a statement: of a function, or of a module whose forward does."""
        calls = self.facts.analysis(Calls)
        run = [frame.function for frame in calls.entered(call)] or calls.possibly_entered(call)
        return any(map(self.function_blocks, run)) if run else self._trains_elsewhere(call)

    def _trains_elsewhere(self, call: cst.Call) -> bool:
        """True for a function of another file that makes a backward or a step, and for a method of an imported class
        that does: `search.step(x, y)`.
        """
        names = self.facts.names.imported_as(call.func)
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(receiver, (cst.Name, cst.Attribute)):
            names += [self.facts.elsewhere.member(owner, called_name(call)) for owner in self.facts.made_by(receiver)]
        training = [name for name in names if trains(name)]
        self.unread += training
        return bool(training)

    def takes_gradient(self, statement: Statement) -> bool:
        """True for `g = torch.autograd.grad(...)`."""
        return any(is_autograd_grad(self.facts, call) for call in self.facts.tree.calls(statement))

    def function_blocks(self, function: Function) -> bool:
        if function not in self._functions:
            self._functions[function] = False
            is_manager = function.has_decorator("contextmanager")
            self._functions[function] = any(self._own(one, is_manager=is_manager) for one in function.descendants())
        return self._functions[function]


def is_autograd_grad(facts: Facts, call: cst.Call) -> bool:
    """True for `torch.autograd.grad(...)`."""
    dotted = facts.names.dotted(call.func) or facts.text(call.func)
    return dotted.endswith("autograd.grad")


def read_by(call: cst.Call, name: str, position: int) -> Iterator[Path]:
    """What an argument of it reads: of `sum(outputs)` and `[inputs]` what is in it."""
    given = argument_value(call, name, position)
    yield from reads(given) if given is not None else ()
