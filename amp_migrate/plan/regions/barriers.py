"""What must stay out of autocast regions."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.plan.regions.forwards import own_calls
from amp_migrate.plan.steps.events import Events


class Barriers:
    """Statements that must not run under autocast: they reach a backward, a step, autograd.grad or yield."""

    def __init__(self, facts: Facts, events: Events) -> None:
        self.facts = facts
        self.events = events
        self._functions: dict[Function, bool] = {}
        self._statements: dict[Statement, bool] = {}

    def blocks(self, statement: Statement) -> bool:
        if statement not in self._statements:
            self._statements[statement] = any(self._own(inner) for inner in statement.descendants())
        return self._statements[statement]

    def _own(self, statement: Statement) -> bool:
        if statement in self.events.backwards or statement in self.events.steps:
            return True
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, (cst.Yield, cst.Await)):
                return True
            if isinstance(part, cst.Call):
                if called_name(part) == "backward" or self._is_autograd_grad(part):
                    return True
                function = self.facts.objects.called_function(part)
                if function is not None and self.function_blocks(function):
                    return True
        return False

    def takes_gradient(self, statement: Statement) -> bool:
        """True for `g = torch.autograd.grad(...)`."""
        return any(self._is_autograd_grad(call) for call in own_calls(self.facts, statement))

    def _is_autograd_grad(self, call: cst.Call) -> bool:
        dotted = self.facts.names.dotted(call.func) or self.facts.text(call.func)
        return dotted.endswith("autograd.grad")

    def function_blocks(self, function: Function) -> bool:
        if function not in self._functions:
            self._functions[function] = False
            self._functions[function] = any(
                self._own(inner) for statement in function.body.statements for inner in statement.descendants()
            )
        return self._functions[function]
