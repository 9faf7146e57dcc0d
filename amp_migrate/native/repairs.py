"""How a computation is written that stays in float32, or takes the dtype of where it is stored."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.native.edits import Edits, Wrap
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.safety.repairs import Cast, Safety


class RepairWriter:
    """Writes repairs as edits, each once, whoever asks for it."""

    def __init__(self, facts: Facts, spellings: Spellings, edits: Edits) -> None:
        self.facts = facts
        self.spellings = spellings
        self.edits = edits
        self._floats: set[cst.BaseExpression] = set()
        self._islands: set[Statement] = set()

    def write(self, safety: Safety) -> None:
        """Everything that the scan asks for."""
        for call in safety.split:
            self._split(call)
        for node in safety.floats:
            self.float(node)
        for cast in safety.casts:
            self._cast(cast)
        for statement in safety.islands:
            self.island(statement)
        for statement, name in safety.rebound:
            self.edits.insert_before(statement, f"{name} = {name}.float()")
        for forward, backward in (*safety.guarded, *safety.recomputing):
            spelling = self.spellings.at(forward.node)
            in_float32 = (forward, backward) in safety.guarded
            self._decorate(forward, spelling.custom_fwd(in_float32=in_float32))
            self._decorate(backward, spelling.custom_bwd())

    def float(self, node: cst.BaseExpression) -> None:
        """`node.float()`"""
        if node in self._floats or (isinstance(node, cst.Call) and called_name(node) == "float"):
            return
        self._floats.add(node)
        self.edits.transform(node, lambda updated: cst.Call(cst.Attribute(_atom(updated), cst.Name("float"))))

    def island(self, statement: Statement) -> None:
        """The statement in `autocast(enabled=False)`."""
        if statement not in self._islands:
            self._islands.add(statement)
            autocast = self.spellings.at(statement.node).autocast("False")
            self.edits.wraps.append(Wrap(statement, statement, f"with {autocast}"))

    def _cast(self, cast: Cast) -> None:
        """`source.to(destination.dtype)`"""
        dtype = cst.parse_expression(f"{self.facts.text(cast.destination)}.dtype")
        self.edits.transform(
            cast.source, lambda updated: cst.Call(cst.Attribute(_atom(updated), cst.Name("to")), [cst.Arg(dtype)])
        )

    def _split(self, call: cst.Call) -> None:
        """`self.main[-1](self.main[:-1](x).float())`"""
        container = self.facts.text(call.func)
        self.edits.transform(call, lambda updated: _last_on_float32(updated, container))

    def _decorate(self, function: Function, text: str) -> None:
        decorator = cst.Decorator(cst.parse_expression(text))
        self.edits.transform(
            function.node,
            lambda updated: updated.with_changes(decorators=[*updated.decorators, decorator]),  # type: ignore[attr-defined]
        )


def _atom(node: cst.CSTNode) -> cst.BaseExpression:
    """An expression that an attribute can follow."""
    assert isinstance(node, cst.BaseExpression)
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _last_on_float32(node: cst.CSTNode, container: str) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    without_last = node.with_changes(func=cst.parse_expression(f"{container}[:-1]"), lpar=[], rpar=[])
    floated = cst.Call(cst.Attribute(without_last, cst.Name("float")))
    return cst.Call(cst.parse_expression(f"{container}[-1]"), [cst.Arg(floated)])
