"""Writing a Cleanup: imports and settled conditions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import libcst as cst

from amp_migrate.facts.tree import Statement
from amp_migrate.native.edits import Edits
from amp_migrate.plan.folding import Cleanup


def emit_cleanup(cleanup: Cleanup, edits: Edits) -> None:
    """Add the edits of a cleanup to those of the plan."""
    for statement in cleanup.statements:
        edits.remove(statement)
    for attempt in cleanup.bodies:
        edits.keep_arm(attempt.node, "body")
    for statement, goes in cleanup.aliases.items():
        remove_aliases(statement, goes, edits)
    for call, text in cleanup.replaced.items():
        edits.replace(call, text)
    for condition, side in cleanup.kept_sides.items():
        edits.transform_first(condition, partial(_operand, side=side, as_bool=condition in cleanup.made_bool))
    for statement, answer in cleanup.tests.items():
        edits.keep_arm(statement.node, "body" if answer else "else")


def remove_aliases(statement: Statement, goes: Sequence[cst.ImportAlias], edits: Edits) -> None:
    """Take names out of an import; the whole statement where none is left."""
    node = statement.node
    assert isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar)
    if len(goes) == len(node.names):
        edits.remove(statement)
    else:
        remove_items(node, "names", goes, edits)


def remove_items(node: cst.CSTNode, field: str, goes: Sequence[cst.CSTNode], edits: Edits) -> None:
    """Take some items out of the comma-separated ones that a field of a node holds."""

    def without(updated: cst.CSTNode) -> cst.CSTNode:
        old = getattr(node, field)
        kept = [new for new, was in zip(getattr(updated, field), old, strict=True) if was not in goes]
        if kept and old[-1] in goes:
            kept[-1] = kept[-1].with_changes(comma=old[-1].comma)
        return updated.with_changes(**{field: kept})

    edits.transform(node, without)


def _operand(condition: cst.CSTNode, side: str, *, as_bool: bool) -> cst.CSTNode:
    """The one operand that stays, with what was edited in it."""
    assert isinstance(condition, cst.BooleanOperation)
    operand = condition.left if side == "left" else condition.right
    return cst.Call(cst.Name("bool"), [cst.Arg(operand)]) if as_bool else operand
