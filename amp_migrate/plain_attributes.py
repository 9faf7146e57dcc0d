"""`getattr(x, "name")` is read as the attribute `x.name`, and written back as it stood.

Who asks what a call runs, or what an attribute holds, has one spelling to know. In the tree it is an `Attribute`: what
stands around its value and its name are tokens of other text.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import libcst as cst

from amp_migrate.facts.tree import walk
from amp_migrate.files.syntax import is_attribute

_GETATTR = "getattr"


def with_plain_attributes(module: cst.Module) -> cst.Module:
    """The module with its calls of `getattr` as attributes; all calls stay where the module gives `getattr` another
    meaning.
    """
    calls, others = set[cst.Call](), set[cst.CSTNode]()
    for node in walk(module):
        if type(node) is cst.Name and node.value == _GETATTR:
            others.add(node)
        elif type(node) is cst.Call and type(node.func) is cst.Name and node.func.value == _GETATTR:
            calls.add(node)
    plain = {call: _attribute(call) for call in calls if _is_plain(call)}
    if not plain or not others <= {call.func for call in calls}:
        return module
    replaced = _Replaced(plain)
    return module.with_changes(
        body=[one.visit(replaced) if any(part in plain for part in walk(one)) else one for one in module.body]
    )


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without parentheses around the whole of it: `a + b` of `(a + b).backward()`."""
    left, right = parentheses(node)
    if not left or isinstance(node, cst.Tuple):
        return node
    return node.with_changes(
        lpar=[one for one in node.lpar if one not in left], rpar=[one for one in node.rpar if one not in right]
    )


def parentheses(node: cst.BaseExpression) -> tuple[list[cst.LeftParen], list[cst.RightParen]]:
    """Those around the whole of an expression; the one of `getattr(` is none of them."""
    left = [one for one in node.lpar if not isinstance(one, _Left)]
    return left, [one for one in node.rpar if not isinstance(one, _Right)]


class _Written:
    """A node that is written as another text."""

    text: str

    def _visit_and_replace_children(self, visitor: Any) -> Any:
        return self

    def _codegen_impl(self, state: Any, default_space: str = "") -> None:
        state.add_token(self.text)


@dataclasses.dataclass(frozen=True, eq=False)
class _Left(_Written, cst.LeftParen):
    text: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class _Right(_Written, cst.RightParen):
    text: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class _Dot(_Written, cst.Dot):
    text: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class _Quoted(_Written, cst.Name):
    text: str = ""


class _Replaced(cst.CSTTransformer):
    def __init__(self, attributes: dict[cst.Call, cst.Attribute]) -> None:
        super().__init__()
        self.attributes = attributes

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        made = self.attributes.get(original_node)
        return made.with_changes(value=updated_node.args[0].value) if made is not None else updated_node


def _is_plain(call: cst.Call) -> bool:
    """True for two arguments by place, the second of which is the text of a name, on one line."""
    if len(call.args) != 2 or any(arg.star or arg.keyword is not None for arg in call.args):
        return False
    name = call.args[1].value
    if not isinstance(name, cst.SimpleString) or name.lpar:
        return False
    text = name.evaluated_value
    return isinstance(text, str) and is_attribute(text) and "\n" not in "".join(_around(call))


def _around(call: cst.Call) -> tuple[str, str, str]:
    """What is written before the value, between it and the name, and behind the name."""
    first, second = call.args
    code = cst.Module([]).code_for_node
    before = f"{_GETATTR}{code(call.whitespace_after_func)}({code(call.whitespace_before_args)}"
    assert isinstance(first.comma, cst.Comma)
    between = f"{code(first.comma)}{code(first.whitespace_after_arg)}"
    comma = code(second.comma) if isinstance(second.comma, cst.Comma) else ""
    return before, between, f"{comma}{code(second.whitespace_after_arg)})"


def _attribute(call: cst.Call) -> cst.Attribute:
    before, between, behind = _around(call)
    name = call.args[1].value
    assert isinstance(name, cst.SimpleString)
    return cst.Attribute(
        value=call.args[0].value,
        attr=_Quoted(str(name.evaluated_value), text=name.value),
        dot=_Dot(text=between),
        lpar=[*call.lpar, _Left(text=before)],
        rpar=[_Right(text=behind), *call.rpar],
    )
