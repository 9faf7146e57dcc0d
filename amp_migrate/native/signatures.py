"""The scaler as a parameter: in the signatures of the functions that need it, and at their calls."""

from __future__ import annotations

import libcst as cst

from amp_migrate.native.edits import Edits
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.scaler.binding import NewArgument, NewParameter
from amp_migrate.plan.training_plan import Scaler


def add_parameters(scaler: Scaler, spellings: Spellings, edits: Edits) -> None:
    """Give the functions between creation and use the parameters that they need."""
    for new in scaler.binding.parameters:
        default = _default(new, spellings) if new.is_optional else None
        edits.transform(
            new.function.node,
            lambda node, new=new, default=default: _with_parameters(  # type: ignore[misc]
                node, new, scaler.names_for(new.function), default
            ),
        )


def add_arguments(scaler: Scaler, edits: Edits) -> None:
    """Pass the scaler at every call of those functions."""
    for new in scaler.binding.arguments:
        names = scaler.names_for(new.function)
        texts = ["None" if new.is_none else scaler.binding.expression(new.caller, name) for name in names]
        values = [text for text in texts if text is not None]
        edits.transform(
            new.call,
            lambda node, new=new, names=names, values=values: _with_arguments(node, new, names, values),  # type: ignore[misc]
        )


def _with_parameters(node: cst.CSTNode, new: NewParameter, names: list[str], default: str | None) -> cst.CSTNode:
    assert isinstance(node, cst.FunctionDef)
    params = list(node.params.params)
    original = new.function.node
    assert isinstance(original, cst.FunctionDef)
    if new.replaces is not None:
        index = list(original.params.params).index(new.replaces)
        kept = params[index]
        replaced = kept.with_changes(name=cst.Name(names[0]), annotation=None)
        if default is not None:
            replaced = replaced.with_changes(default=cst.parse_expression(default))
        else:
            replaced = replaced.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT)
        params[index : index + 1] = [replaced]
        index += 1
        names = names[1:]
    else:
        index = list(original.params.params).index(new.after) + 1 if new.after is not None else 0
    for name in reversed(names):
        params = _inserted(params, index, _parameter(name, new.after, default))
    return node.with_changes(params=node.params.with_changes(params=params))


def _default(new: NewParameter, spellings: Spellings) -> str:
    return "None" if new.replaces is None else spellings.at(new.function.node).grad_scaler("False")


def _parameter(name: str, before: cst.Param | None, default: str | None) -> cst.Param:
    """A parameter; with a default it is written as the one before it, which has one."""
    if before is None or default is None:
        return cst.Param(cst.Name(name))
    return cst.Param(cst.Name(name), default=cst.parse_expression(default), equal=before.equal)


def _with_arguments(node: cst.CSTNode, new: NewArgument, names: list[str], values: list[str]) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    args = list(node.args)
    if new.replaces is not None:
        index = list(new.call.args).index(new.replaces)
        keyword = cst.Name(names[0]) if new.keyword else None
        args[index] = args[index].with_changes(value=cst.parse_expression(values[0]), keyword=keyword)
        index += 1
        pairs = list(zip(names, values, strict=True))[1:]
    else:
        index = new.index
        pairs = list(zip(names, values, strict=True))
    for name, value in reversed(pairs):
        arg = cst.Arg(cst.parse_expression(value))
        if new.keyword:
            no_space = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            arg = cst.Arg(cst.parse_expression(value), keyword=cst.Name(name), equal=no_space)
        args = _inserted(args, index, arg)
    return node.with_changes(args=args)


def _inserted(items: list, index: int, new: cst.CSTNode) -> list:  # type: ignore[type-arg]
    """Insert into a comma-separated list, in the layout of its neighbours."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    items = list(items)
    if index < len(items):
        before = items[index - 1].comma if index else comma
        if index >= 2 and _ends_line(before) and not _ends_line(items[index - 2].comma):
            items[index - 1] = items[index - 1].with_changes(comma=comma)  # several on a line: it joins the last
        items.insert(index, new.with_changes(comma=before))
        return items
    if items:
        last = items[-1]
        space = "whitespace_after_arg" if isinstance(new, cst.Arg) else "whitespace_after_param"
        if isinstance(last.comma, cst.Comma):
            new = new.with_changes(comma=last.comma)
        else:  # the bracket may close on a line of its own
            new = new.with_changes(**{space: getattr(last, space)})
            last = last.with_changes(**{space: cst.SimpleWhitespace("")})
        if len(items) > 1 and all(_ends_line(one.comma) for one in items[:-1]):
            comma = items[-2].comma
        items[-1] = last.with_changes(comma=comma)
    items.append(new)
    return items


def _ends_line(comma: cst.Comma | cst.MaybeSentinel) -> bool:
    return isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)
