"""A training in float32, and another one in half after it, of models with one name: a comparison.

model = Net().cuda()                    what is trained here is to stay in float32, and natively both would run
optimizer = SGD(model.parameters())     under autocast
...
model = Net().cuda().half()
optimizer = SGD(model.parameters())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Statement, names_in
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.findings import Refusal
from amp_migrate.rules.half import UNKNOWN_TRAINER
from amp_migrate.sources.optimizers import parameters_of


def in_float32_beside(
    facts: Facts, optimizers: list[tuple[Statement, cst.Call]], casts: list[tuple[Statement, cst.Call]]
) -> Iterator[Refusal]:
    """A Refusal for each optimizer of a model that no cast reaches, where the next model of that name is in half."""
    for statement, call in optimizers:
        for model in (one for arg in call.args for one in parameters_of(facts, arg.value)):
            variable = facts.names.variable_at(model)
            if variable is not None and _is_compared(facts, variable, statement, casts):
                message = f"{facts.text(model)} is trained in float32 here, and a second one of that name in half"
                yield Refusal(UNKNOWN_TRAINER, call, message, case="compared")


def _is_compared(facts: Facts, variable: Variable, at: Statement, casts: list[tuple[Statement, cst.Call]]) -> bool:
    own = [one for one, call in casts if _root(call) in variable.loads]
    made = _made_by(variable, at)
    anew = [one for one in variable.bindings if one.value is not None and variable.name not in names_in(one.value)]
    halves = {one for one, _ in casts}
    is_in_half = any(one.statement in halves for one in made) or any(one.order < at.order for one in own)
    return not is_in_half and any(one.statement in halves and one not in made for one in anew)


def _made_by(variable: Variable, at: Statement) -> list[Binding]:
    """The bindings that make what a variable holds at a statement: `model = wrap(model)` holds what was in it."""
    found: list[Binding] = []
    ahead = [at]
    while ahead:
        for one in reaching(variable, ahead.pop()):
            if one.statement is not None and one not in found:
                found.append(one)
                if one.value is not None and variable.name in names_in(one.value):
                    ahead.append(one.statement)
    return found


def _root(node: cst.BaseExpression) -> cst.BaseExpression:
    """`model` of `model.cuda().half()`."""
    while isinstance(node, (cst.Call, cst.Attribute)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node
