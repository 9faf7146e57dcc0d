"""Casts to a type that the script has chosen: when is it half?

net.half() if args.fp16 else net                 args.fp16

dtype = torch.half if args.fp16 else torch.float
net.to(dtype)                                    args.fp16

if args.type == "float64":
    dtype = torch.double
elif args.type == "float16":
    dtype = torch.half
net.to(dtype)                                    args.type == "float16"
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction, negated
from amp_migrate.facts.tree import Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Guard
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.half import DEPENDS_ON_HALF

Meanings = Callable[[cst.BaseExpression], list[cst.BaseExpression]]
IsHalf = Callable[[cst.CSTNode], bool]


def chosen_by(facts: Facts, call: cst.Call, meanings: Meanings, is_half: IsHalf) -> str | None:
    """The test under which a cast is one to half; None where it always is. Raises Refusal where it cannot be told."""
    node: cst.CSTNode = call
    while isinstance(parent := facts.tree.parents.get(node), cst.BaseExpression):
        if isinstance(parent, cst.IfExp):
            return _test(facts, parent, in_body=parent.body is node)
        node = parent
    for arg in call.args:
        named = [value for value in meanings(arg.value) if value is not arg.value]
        for value in (arg.value, *named):
            if isinstance(value, cst.IfExp):
                _check_place(facts, call, arg.value, value)
                return _test(facts, value, in_body=is_half(value.body))
        for value in named:
            if is_half(value):
                return _by_arms(facts, call, arg.value, value, [one for one in named if not is_half(one)])
    return None


def _by_arms(
    facts: Facts, call: cst.Call, name: cst.BaseExpression, half: cst.BaseExpression, others: list[cst.BaseExpression]
) -> str | None:
    """The test around what gives the type its name; or around what gives it another one, where half comes first."""
    shared = {guard.statement: guard.arm for guard in enclosing_guards(facts, facts.tree.statement_of(call))}
    guards = _guards(facts, half, shared)
    if guards:
        _check_place(facts, call, name, half)
        return " and ".join(_text(facts, guard) for guard in guards)
    for other in others:
        guards = _guards(facts, other, shared)
        if guards:
            _check_place(facts, call, name, other)
            if len(guards) > 1 or len(others) > 1:
                raise _elsewhere(facts, call, name)
            return _text(facts, guards[0], other=True)
    return None


def _guards(facts: Facts, value: cst.BaseExpression, shared: dict[Statement, str]) -> list[Guard]:
    """What decides about a value and not about its use: the innermost `if` first, without what follows from it."""
    found: list[Guard] = []
    for guard in enclosing_guards(facts, facts.tree.statement_of(value)):
        known = conjunction([one.formula for one in found])
        if shared.get(guard.statement) != guard.arm and not facts.conditions.implies(known, guard.formula):
            found.append(guard)
    return found


def _text(facts: Facts, guard: Guard, *, other: bool = False) -> str:
    """The test of the arm that a guard stands for, or of its other arm."""
    node = guard.test if (guard.arm == "body") is not other else negated(guard.test)
    text = facts.text(node)
    return f"({text})" if isinstance(node, (cst.BooleanOperation, cst.IfExp)) and not node.lpar else text


def _test(facts: Facts, choice: cst.IfExp, *, in_body: bool) -> str:
    return facts.text(choice.test if in_body else negated(choice.test))


def _check_place(facts: Facts, call: cst.Call, name: cst.BaseExpression, value: cst.BaseExpression) -> None:
    if facts.tree.function_of(value) is not facts.tree.function_of(call):
        raise _elsewhere(facts, call, name)


def _elsewhere(facts: Facts, call: cst.Call, name: cst.BaseExpression) -> Refusal:
    return Refusal(DEPENDS_ON_HALF, call, f"where {facts.text(name)} becomes half or float32 is not in this function")
