"""Small changes of nodes that more than one writer makes."""

from __future__ import annotations

import libcst as cst


def alone(arg: cst.Arg) -> cst.Arg:
    """An argument without the comma and the line break after it."""
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))
