"""Small changes of nodes that more than one writer makes."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import atom


def alone(arg: cst.Arg) -> cst.Arg:
    """An argument without the comma and the line break after it."""
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))


def floated(node: cst.CSTNode) -> cst.Call:
    """`x.float()` of an expression."""
    return cst.Call(cst.Attribute(atom(node), cst.Name("float")))


def over_parameters(facts: Facts, optimizer: cst.BaseExpression, at: cst.CSTNode) -> str:
    """The loops of a generator over the parameters `p` of an optimizer, with the quotes of the file around `at`."""
    quote = facts.quote(at)
    return f"for group in {facts.text(optimizer)}.param_groups for p in group[{quote}params{quote}]"


def named_in(node: cst.BaseExpression) -> tuple[str | None, cst.BaseExpression]:
    """The name and the value of `(loss := f(x))`; of other expressions None and themselves."""
    match node:
        case cst.NamedExpr(target=cst.Name(value=name), value=value):
            return name, value
    return None, node
