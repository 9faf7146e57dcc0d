"""The device of a model that is wrapped for distributed training, where the file shows it (rules I).

    torch.cuda.set_device(args.local_rank)                       every path to the wrapping runs it
    ...
    model = DistributedDataParallel(model)                       device_ids=[args.local_rank]

Apex used the current device. torch's class needs no device_ids for a model on one device, so that without certain
evidence there are none.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.companions.uses import statements_of
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction, negation
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.scaler.visible import Visible


def device_of(facts: Facts, call: cst.Call) -> str | None:
    """The device of the model that a call wraps, as it can be written there; None where it is not certain."""
    wrapping = facts.tree.statement_of(call)
    visible = Visible(facts)
    found = set()
    for device, setting in _settings(facts, call):
        if not _comes_before(facts, setting, wrapping):
            continue
        text = visible.express(device, wrapping.function, wrapping)
        found.add(text if text is not None and _is_still_the_same(facts, device, setting, wrapping) else None)
    return found.pop() if len(found) == 1 else None


def _settings(facts: Facts, wrapping: cst.Call) -> Iterator[tuple[cst.BaseExpression, Statement]]:
    """The devices that the file makes the current one, or moves this very model to, with the statements."""
    model = facts.text(wrapping.args[0].value)
    for statement in statements_of(facts, facts.tree.function_of(wrapping).root):
        for part in facts.tree.expressions(statement):
            if not isinstance(part, cst.Call) or len(part.args) != 1 or not _is_plain(part.args[0].value):
                continue
            if facts.names.dotted(part.func) == "torch.cuda.set_device":
                yield part.args[0].value, statement
            elif called_name(part) == "cuda" and isinstance(part.func, cst.Attribute):
                if facts.text(part.func.value) == model and statement.function is facts.tree.function_of(wrapping):
                    yield part.args[0].value, statement


def _is_plain(node: cst.BaseExpression) -> bool:
    """A name, an attribute or an element of one, or a number: nothing that is computed a second time."""
    if isinstance(node, cst.Integer):
        return True
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if isinstance(node, cst.Subscript) and any(isinstance(part, cst.Call) for part in walk(node)):
            return False
        node = node.value
    return isinstance(node, cst.Name) and literal_value(node) is not None


def _comes_before(facts: Facts, first: Statement, second: Statement) -> bool:
    """True where every path to `second` runs `first` before."""
    firsts, seconds = list(_chain(facts, first)), list(_chain(facts, second))
    for number, earlier in enumerate(firsts):
        for other_number, later in enumerate(seconds):
            if earlier.function is later.function:
                return earlier.order < later.order and _implies(
                    facts, [*seconds[: other_number + 1]], [*firsts[: number + 1]], earlier, later
                )
    return False


def _chain(facts: Facts, statement: Statement) -> Iterator[Statement]:
    """A statement, the only call of its function, the only call of that one's function, and so on."""
    seen = set()
    while statement not in seen:
        seen.add(statement)
        yield statement
        callers = facts.objects.callers(statement.function)
        if len(callers) == 1:
            statement = callers[0][1]


def _implies(
    facts: Facts, seconds: list[Statement], firsts: list[Statement], earlier: Statement, later: Statement
) -> bool:
    """True where the conditions around one chain of statements hold whenever those around another do."""
    shared = {outer for outer in earlier.path() if later.inside(outer)}
    needed = []
    for statement in firsts:
        for outer in statement.path()[:-1]:
            if outer in shared:
                continue
            condition = _condition(facts, statement, outer)
            if condition is None:
                return False
            needed.append(condition)
    given = [
        condition
        for statement in seconds
        for outer in statement.path()[:-1]
        if (condition := _condition(facts, statement, outer)) is not None
    ]
    return not needed or facts.conditions.implies(conjunction(given), conjunction(needed))


def _condition(facts: Facts, statement: Statement, outer: Statement) -> Formula | None:
    """When the arm of `outer` runs that holds the statement; None where that cannot be told."""
    node, arm = outer.node, statement.arm_of(outer.node)
    if isinstance(node, cst.With) or (isinstance(node, (cst.Try, cst.TryStar)) and arm == "body"):
        return conjunction(())
    if not isinstance(node, cst.If):
        return None
    if arm == "body" and isinstance(node.test, cst.Call):
        if facts.names.dotted(node.test.func) == "torch.cuda.is_available":
            return conjunction(())  # Apex's class never ran without CUDA
    test = facts.conditions.compile(node.test)
    return test if arm == "body" else negation(test)


def _is_still_the_same(facts: Facts, device: cst.BaseExpression, setting: Statement, wrapping: Statement) -> bool:
    """True where nothing gives the name, or the attribute, another value after the device was set."""
    if isinstance(device, cst.Attribute):
        bound = [store.statement for store in facts.objects.stores_of(device.attr.value)]
    else:
        bound = [binding.statement for binding in facts.names.bindings_at(device) if binding.statement is not None]
    before = [one.order < setting.order for one in bound if one.function is setting.function]
    elsewhere = [one for one in bound if one.function is wrapping.function is not setting.function]
    return all(before) and not elsewhere
