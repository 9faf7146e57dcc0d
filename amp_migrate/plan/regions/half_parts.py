"""Where a half value goes on under another name, and the uses of what it holds.

outputs[0]                           an element
for output in outputs: ...           each of its elements, also behind enumerate and zip
[show(output) for output in outputs]
logits, features = outputs           other names for them
detached = fake.detach()
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.regions.targets import plain_names


def elements(facts: Facts, load: cst.Name) -> list[cst.BaseExpression]:
    """The uses of an element, or of each of them."""
    parent = facts.tree.parents.get(load)
    if isinstance(parent, cst.Subscript) and parent.value is load and _is_constant(parent):
        return [parent]
    target = _target(facts, load)
    variable = facts.names.variable_at(target) if isinstance(target, cst.Name) else None
    statement = facts.tree.statement_of(load)
    loads = variable.loads if variable is not None else ()
    return [one for one in loads if facts.tree.statement_of(one).inside(statement)]


def _is_constant(node: cst.Subscript) -> bool:
    index = node.slice[0].slice
    if len(node.slice) != 1 or not isinstance(index, cst.Index):
        return False
    value = index.value.expression if isinstance(index.value, cst.UnaryOperation) else index.value
    return isinstance(value, (cst.Integer, cst.SimpleString))


def _target(facts: Facts, load: cst.Name) -> cst.BaseExpression | None:
    """What a loop or a comprehension calls the elements."""
    position: int | None = None
    arg = facts.tree.parents.get(load)
    source: cst.CSTNode = load
    if isinstance(arg, cst.Arg):
        call = facts.tree.parents.get(arg)
        assert isinstance(call, cst.Call)
        position = {"enumerate": 1, "zip": call.args.index(arg)}.get(called_name(call))
        if position is None:
            return None
        source = call
    loop = facts.tree.parents.get(source)
    if not isinstance(loop, (cst.For, cst.CompFor)) or loop.iter is not source:
        return None
    if position is None:
        return loop.target
    several = loop.target.elements if isinstance(loop.target, cst.Tuple) else ()
    return several[position].value if position < len(several) else None


def aliases(facts: Facts, load: cst.Name, climb: Callable[[cst.CSTNode], cst.CSTNode]) -> list[str]:
    """The names that the statement gives what it makes of a value; `climb` says what that is."""
    statement = facts.tree.statement_of(load)
    node = statement.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or climb(load) is not node.value:
        return []
    return plain_names(node.targets[0].target) or []
