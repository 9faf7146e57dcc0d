"""Writing a Lowering: the plain program inside of a source form, with a mark where the form was in use."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import Statement
from amp_migrate.line_matcher import LineMatcher
from amp_migrate.native.edits import Edits
from amp_migrate.native.nodes import floated
from amp_migrate.plan.model import Lowering

# The intermediate program is never shown and never written, so any name will do that no script has.
MARK = "__mixed_precision_is_on__"
SCALE = "__loss_scale_is__"
SCALE_NOW = "__loss_scale_now__"
STEPPED = "__a_step_was_taken__"
EDITED = "__an_arm_was_edited__"


def lower(lowering: Lowering) -> Edits:
    """The edits that make the plain program."""
    edits = Edits()
    for call in lowering.receivers:
        edits.transform(call, _receiver)
    for call in lowering.arguments:
        edits.transform(call, _first_argument)
    for attribute, name in lowering.renamed.items():
        edits.transform(attribute, lambda updated, name=name: updated.with_changes(attr=cst.Name(name)))  # type: ignore[misc]
    for node, text in lowering.replaced.items():
        edits.replace(node, text)
    for call, arg in lowering.dropped.items():
        index = call.args.index(arg)
        edits.transform(call, lambda updated, index=index: _without_argument(updated, index))  # type: ignore[misc]
    for call in lowering.floated:
        edits.transform(call, floated)
    for statement, arm in lowering.arms.items():
        edits.keep_arm(statement.node, arm)
    for statement, test in lowering.marks:
        edits.insert_before(statement, MARK if test is None else f"if {test}:\n    {MARK}")
    for statement, scale in lowering.scales:
        edits.insert_before(statement, f"{SCALE}({scale})")
    for statement in lowering.edited:
        edits.insert_before(statement, EDITED)
    for statement, code in lowering.added:
        edits.insert_after(statement, code)
    for statement in lowering.removed:
        edits.remove(statement)
    return edits


def is_mark(statement: Statement) -> bool:
    """True for what `lower` put in the program for a mark."""
    return _is_name(statement, MARK)


def is_of_lowering(statement: Statement) -> bool:
    """True for everything that `lower` put in the program: none of it may be left."""
    return is_mark(statement) or is_edited_next(statement) or scale_at(statement) is not None


def is_edited_next(statement: Statement) -> bool:
    """True for what `lower` put in the program before an `if` with an arm that it edited."""
    return _is_name(statement, EDITED)


def _is_name(statement: Statement, name: str) -> bool:
    node = statement.node
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.Name) and node.value.value == name


def scale_at(statement: Statement) -> cst.BaseExpression | None:
    """The loss scale that `lower` put in the program, for its statement."""
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == SCALE:
        return call.args[0].value
    return None


def scale_settings(statement: Statement) -> dict[str, cst.BaseExpression]:
    """What a loss scale that moves is to be told GradScaler by, where `lower` put that in the program."""
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    if scale_at(statement) is None or not isinstance(call, cst.Call):
        return {}
    return {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}


def lines_before(before: str, after: str) -> tuple[int, ...]:
    """For each line of `after`, the line (from 1) of `before` that it was, or that stood in its place."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[int] = []
    matcher = LineMatcher(old, new)
    for _, first, last, start, end in matcher.get_opcodes():
        for offset in range(end - start):
            lines.append(min(first + offset, max(first, last - 1)) + 1)
    return tuple(lines)


def _receiver(call: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    return call.func.value


def _first_argument(call: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(call, cst.Call)
    return call.args[0].value


def _without_argument(call: cst.CSTNode, index: int) -> cst.CSTNode:
    """A call with one argument less; where none is left, what it is called on."""
    assert isinstance(call, cst.Call)
    args = [arg for number, arg in enumerate(call.args) if number != index]
    if not args:
        return _receiver(call)
    args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=args)
