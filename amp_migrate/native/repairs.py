"""How a computation is written that stays in float32, or takes the dtype of where it is stored."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, atom, called_name
from amp_migrate.interp.containers import run_by
from amp_migrate.native.edits import Edits, Wrap
from amp_migrate.native.nodes import floated
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.model import CastFunction
from amp_migrate.plan.safety.repairs import Cast, Safety, TypeTest


class RepairWriter:
    """Writes repairs as edits, each once, whoever asks for it."""

    def __init__(self, facts: Facts, spellings: Spellings, edits: Edits) -> None:
        self.facts = facts
        self.spellings = spellings
        self.edits = edits
        self._floats: set[cst.BaseExpression] = set()
        self._islands: dict[Statement, None] = {}

    def write(self, safety: Safety) -> None:
        """Everything that the scan asks for, and the islands that anybody has asked for."""
        for call in safety.split:
            self._split(call)
        for node in safety.floats:
            self.float(node)
        for cast in safety.casts:
            self._cast(cast)
        for test in safety.type_tests:
            self._take_half(test)
        for statement in safety.islands:
            self.island(statement)
        for statement, name in safety.rebound:
            self.edits.insert_before(statement, f"{name} = {name}.float()")
        for forward, backward in (*safety.guarded, *safety.recomputing):
            spelling = self.spellings.at(forward.node)
            casts = "float32" if (forward, backward) in safety.guarded else None
            self._decorate(forward, spelling.custom_fwd(casts))
            self._decorate(backward, spelling.custom_bwd())
        self._write_islands()

    def cast_functions(self, casts: list[CastFunction]) -> None:
        """What the source form did with the arguments of functions, by custom_fwd."""
        for one in casts:
            spelling = self.spellings.at(one.node if one.adds is None else one.adds.node)
            around = self.facts.text(one.around) if one.around is not None else None
            text = spelling.custom_bwd() if one.dtype == "backward" else spelling.custom_fwd(one.dtype, around)
            if one.adds is not None:
                self._decorate(one.adds, text)
            elif one.goes_from is not None:
                self._undecorate(one.goes_from, one.node)
            else:
                self.edits.replace(one.node, text)

    def float(self, node: cst.BaseExpression) -> None:
        """`node.float()`"""
        if node in self._floats or (isinstance(node, cst.Call) and called_name(node) == "float"):
            return
        self._floats.add(node)
        self.edits.transform(node, floated)

    def island(self, statement: Statement) -> None:
        """The statement in `autocast(enabled=False)`, with its neighbours where they are islands, too."""
        self._islands[statement] = None

    def _write_islands(self) -> None:
        waiting = dict(self._islands)
        while waiting:
            first = last = next(iter(waiting))
            while (before := _sibling(first, -1)) in waiting and not self._is_edge(before, first):
                first = before
            while (after := _sibling(last, 1)) in waiting and not self._is_edge(last, after):
                last = after
            for statement in first.block.statements[first.index : last.index + 1]:
                del waiting[statement]
            autocast = self.spellings.at(first.node).autocast("False")
            self.edits.wraps.insert(0, Wrap(first, last, f"with {autocast}"))  # in a region of the same statements

    def _is_edge(self, one: Statement, following: Statement) -> bool:
        """True where a region ends between two statements."""
        return any(wrap.last is one or wrap.first is following for wrap in self.edits.wraps)

    def _cast(self, cast: Cast) -> None:
        """`source.to(destination.dtype)`"""
        dtype = cst.parse_expression(f"{self.facts.text(cast.destination)}.dtype")
        self.edits.transform(
            cast.source, lambda updated: cst.Call(cst.Attribute(atom(updated), cst.Name("to")), [cst.Arg(dtype)])
        )

    def _take_half(self, test: TypeTest) -> None:
        """`isinstance(x, (float32, half))`, `x.type() in (float32, half)`"""
        single = self.facts.text(test.kind)
        half = single.replace("FloatTensor", "BFloat16Tensor" if self.spellings.dtype == "bfloat16" else "HalfTensor")
        both = cst.parse_expression(f"({single}, {half})")
        element = self.facts.tree.parents[test.kind]
        if isinstance(element, cst.Element):
            kinds = self.facts.tree.parents[element]
            self.edits.transform(kinds, lambda updated: _with_element(updated, half))
        else:
            self.edits.transform(test.kind, lambda updated: both)
        if isinstance(test.node, cst.Comparison):
            self.edits.transform(test.node, _membership)

    def _split(self, call: cst.Call) -> None:
        """`self.main[-1](self.main[:-1](x).float())`"""
        container = self.facts.text(run_by(call))
        self.edits.transform(call, lambda updated: _last_on_float32(updated, container))

    def _decorate(self, function: Function, text: str) -> None:
        decorator = cst.Decorator(cst.parse_expression(text))
        self.edits.transform(
            function.node,
            lambda updated: updated.with_changes(decorators=[*updated.decorators, decorator]),  # type: ignore[attr-defined]
        )

    def _undecorate(self, function: Function, decorator: cst.BaseExpression) -> None:
        assert isinstance(function.node, cst.FunctionDef)
        index = [one.decorator for one in function.node.decorators].index(decorator)

        def without(updated: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(updated, cst.FunctionDef)
            decorators = [one for position, one in enumerate(updated.decorators) if position != index]
            return updated.with_changes(decorators=decorators)

        self.edits.transform(function.node, without)


def _sibling(statement: Statement, step: int) -> Statement | None:
    index = statement.index + step
    return statement.block.statements[index] if 0 <= index < len(statement.block.statements) else None


def _with_element(node: cst.CSTNode, text: str) -> cst.CSTNode:
    assert isinstance(node, cst.Tuple)
    return node.with_changes(elements=[*node.elements, cst.Element(cst.parse_expression(text))])


def _membership(node: cst.CSTNode) -> cst.CSTNode:
    """`x in y` for `x == y`, `x not in y` for `x != y`"""
    assert isinstance(node, cst.Comparison)
    target = node.comparisons[0]
    operator = cst.NotIn() if isinstance(target.operator, cst.NotEqual) else cst.In()
    return node.with_changes(comparisons=[target.with_changes(operator=operator)])


def _last_on_float32(node: cst.CSTNode, container: str) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    others = cst.parse_expression(f"{container}[:-1]")
    if called_name(node) == "data_parallel":
        first = node.args[0].with_changes(value=others)
        without_last = node.with_changes(args=[first, *node.args[1:]], lpar=[], rpar=[])
    else:
        without_last = node.with_changes(func=others, lpar=[], rpar=[])
    return cst.Call(cst.parse_expression(f"{container}[-1]"), [cst.Arg(floated(without_last))])
