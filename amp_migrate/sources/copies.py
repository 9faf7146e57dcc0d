"""Casts to half that are wanted as copies: what they give is changed in place (rule G1).

    noisy = images.half()                    noisy = images.clone().float()     without float(), if they are float32
    noisy.add_(noise)                        noisy.add_(noise)
    loss = mse(model(noisy), images)         loss = mse(model(noisy), images)

`.half()` of float32 is a copy, `.float()` is the same tensor: the images would be changed as well. Under a test of the
precision the plain program says what is copied (rule G3).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.models import names
from amp_migrate.models.queries import may_be_same
from amp_migrate.plan.model import Lowering
from amp_migrate.sources.half.arms import OF_PRECISION


def stays_a_copy(facts: Facts, lowering: Lowering, statement: Statement, cast: cst.Call, *, is_float32: bool) -> bool:
    """Write such a copy, where one is wanted; False where it is not."""
    if not _is_wanted(facts, statement, cast):
        return False
    assert isinstance(cast.func, cst.Attribute)
    lowering.renamed[cast.func] = "clone"
    if not is_float32:
        lowering.floated.append(cast)
    return True


def _is_wanted(facts: Facts, statement: Statement, cast: cst.Call) -> bool:
    """True for a cast of a tensor that others may have, too, of which the result is changed in place."""
    outer = statement.block.owner
    if outer is not None and isinstance(outer.node, cst.If) and OF_PRECISION.search(facts.text(outer.node.test)):
        return False
    assert isinstance(cast.func, cst.Attribute)
    return _may_be_shared(cast.func.value) and any(_is_changed(facts, one) for one in _results(facts, statement, cast))


def _may_be_shared(node: cst.BaseExpression) -> bool:
    """False for what an operation has just made."""
    same = names(may_be_same)
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in same:
        node = node.func.value
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _results(facts: Facts, statement: Statement, cast: cst.Call) -> Iterator[cst.BaseExpression]:
    """The cast itself, and where its function uses what it is assigned to, until that is assigned anew."""
    yield cast
    node = statement.node
    if not isinstance(node, cst.Assign) or node.value is not cast or len(node.targets) != 1:
        return
    text = facts.text(node.targets[0].target)
    for later in statement.function.descendants():
        if later.order > statement.order:
            for part in facts.tree.expressions(later):
                if isinstance(part, (cst.Name, cst.Attribute)) and facts.text(part) == text:
                    yield part
            if later.block is statement.block and text in _assigned(facts, later):
                return


def _assigned(facts: Facts, statement: Statement) -> set[str]:
    node = statement.node
    return {facts.text(target.target) for target in node.targets} if isinstance(node, cst.Assign) else set()


def _is_changed(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for `x.sub_(mean)`, `x /= 255` and `x[mask] = 0`."""
    parent = facts.tree.parents.get(node)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value.endswith("_") and facts.tree.call_of(parent) is not None
    if isinstance(parent, cst.Subscript) and parent.value is node:
        node, parent = parent, facts.tree.parents.get(parent)
        if isinstance(parent, cst.AssignTarget):
            return True
    return isinstance(parent, cst.AugAssign) and parent.target is node
