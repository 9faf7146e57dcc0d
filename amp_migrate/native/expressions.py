"""The edits of expressions, made in a statement or in its header."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import walk
from amp_migrate.native.edits import Edits
from amp_migrate.plain_attributes import parentheses


class Rewriter(cst.CSTTransformer):
    """Applies the edits of expressions; with `stop`, only those of a compound statement's header."""

    def __init__(self, edits: Edits, stop: bool) -> None:
        super().__init__()
        self._edits = edits
        self._stop = stop

    def on_visit(self, node: cst.CSTNode) -> bool:
        if self._stop and isinstance(node, (cst.BaseSuite, cst.Else, cst.Finally)):
            return False
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        change = self._edits.expressions.get(original_node)
        if change is None:
            return updated_node
        changed = change(updated_node)
        if isinstance(changed, cst.BaseExpression) and not isinstance(original_node, cst.Arg):
            changed = _with_parentheses_of(updated_node, changed)
        return changed  # type: ignore[return-value]


def _with_parentheses_of(old: cst.CSTNode, new: cst.BaseExpression) -> cst.BaseExpression:
    """Keep the parentheses around an expression, since they may hold its line breaks."""
    if any(part is old for part in walk(new)):
        return new  # they are in it
    lpar, rpar = parentheses(old) if isinstance(old, cst.BaseExpression) else ((), ())
    return new.with_changes(lpar=lpar, rpar=rpar) if lpar and not new.lpar else new
