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
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.targets import targets_given
from amp_migrate.facts.tree import called_name
from amp_migrate.interp.place import Place
from amp_migrate.interp.values import values_as_written
from amp_migrate.models.dtypes import HALF


def elements(facts: Facts, load: cst.Name) -> list[cst.BaseExpression]:
    """The uses of an element, or of each of them."""
    parent = facts.tree.parents.get(load)
    if isinstance(parent, cst.Subscript) and parent.value is load and _is_constant(parent):
        return [parent]
    target = _target(facts, load)
    statement = facts.tree.statement_of(load)
    return [one for one in facts.names.loads_at(target) if facts.tree.statement_of(one).inside(statement)]


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


# The names that an assignment sets, and which of them get half values.


def plain_names(target: cst.BaseExpression) -> list[str] | None:
    """The names of an assignment target; None where it sets anything else."""
    targets = [one for one, _, _ in targets_given(target, None)]
    names = [one.value for one in targets if isinstance(one, cst.Name)]
    return names if len(names) == len(targets) else None


def names_of_halves(facts: Facts, node: cst.Assign) -> list[str]:
    """Those that may get half values; none where something other than names is set."""
    target = node.targets[0].target
    places = [
        Place(given, selector) if given is not None else Place(node.value, (ANY,))
        for _, given, selector in targets_given(target, node.value)
    ]
    return [name for name, place in zip(plain_names(target) or (), places, strict=False) if may_be_half(facts, place)]


def may_be_half(facts: Facts, place: Place) -> bool:
    """True for what is half under autocast as far as the code tells."""
    value = facts.analysis(values_as_written).at(place)
    return HALF in value.dtypes or not value.dtypes
