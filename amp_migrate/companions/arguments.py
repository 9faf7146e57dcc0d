"""The arguments of one call: read by Apex's signature, written by torch's.

FusedAdam(params, lr, True, weight_decay=wd)        AdamW(params, lr, weight_decay=wd)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from amp_migrate.companions.table import Companion
from amp_migrate.facts.values import literal_value
from amp_migrate.rules.companions import NO_NATIVE_ARGUMENT, UNKNOWN_APEX_USE
from amp_migrate.rules.rule import Rule


class NoNativeFormError(Exception):
    """A call cannot be written natively; the rule, and what was found."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(f"{rule.code}: {message}")
        self.rule = rule
        self.message = message


@dataclasses.dataclass(frozen=True)
class NewArguments:
    """How the arguments of a call change.

    `kept` pairs the position of an argument that stays with the keyword that it gets, None for the one it has;
    `added` are those that are appended, `dropped` the names of those that say nothing natively.
    """

    kept: tuple[tuple[int, str | None], ...]
    added: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]

    def changes(self, call: cst.Call) -> bool:
        """False where every argument stays as it is."""
        as_they_are = tuple((position, None) for position in range(len(call.args)))
        return bool(self.added) or self.kept != as_they_are


def bound(call: cst.Call, companion: Companion) -> dict[str, cst.BaseExpression]:
    """The values of a call's arguments by Apex's names. Raises NoNativeFormError where they cannot be read."""
    return {name: call.args[position].value for position, name in enumerate(_names(call, companion))}


def new_arguments(call: cst.Call, companion: Companion) -> NewArguments:
    """The arguments as torch takes them. Raises NoNativeFormError for one that has no native form."""
    names = _names(call, companion)
    if not names:
        raise NoNativeFormError(UNKNOWN_APEX_USE, "apex raises without an argument")
    kept: list[tuple[int, str | None]] = []
    dropped = []
    for position, name in enumerate(names):
        arg = call.args[position]
        if name in companion.only and literal_value(arg.value) != companion.only[name]:
            value = cst.Module([]).code_for_node(arg.value)
            raise NoNativeFormError(NO_NATIVE_ARGUMENT, f"{name}={value} has no native form")
        if name in companion.gives:
            kept.append((position, None))
        elif name not in companion.only:
            dropped.append(name)
    plain = [position for position, _ in kept if call.args[position].keyword is None]
    plain.sort(key=lambda position: companion.gives.index(names[position]))
    first = [
        (position, None if companion.gives[index] == names[position] else names[position])
        for index, position in enumerate(plain)
    ]
    added = tuple((name, text) for name, text in companion.explicit.items() if name not in names)
    return NewArguments((*first, *kept[len(plain) :]), added, tuple(dropped))


def _names(call: cst.Call, companion: Companion) -> list[str]:
    """Apex's name for each argument of a call."""
    names: list[str] = []
    for position, arg in enumerate(call.args):
        if arg.star:
            raise NoNativeFormError(UNKNOWN_APEX_USE, "starred arguments cannot be read")
        if arg.keyword is None and position >= len(companion.takes):
            raise NoNativeFormError(UNKNOWN_APEX_USE, "there are more arguments than apex takes")
        name = arg.keyword.value if arg.keyword is not None else companion.takes[position]
        if name not in companion.takes or name in names:
            raise NoNativeFormError(UNKNOWN_APEX_USE, f"apex takes no argument {name} here")
        names.append(name)
    return names


def written(call: cst.Call, updated: cst.Call, arguments: NewArguments) -> list[cst.Arg]:
    """The new arguments, written as the author does: line breaks, spaces around `=`, a trailing comma.

    `updated` is the call with everything inside of it edited.
    """
    equal = next((arg.equal for arg in call.args if isinstance(arg.equal, cst.AssignEqual)), _TIGHT)
    args = []
    for position, keyword in arguments.kept:
        arg = updated.args[position]
        args.append(arg if keyword is None else arg.with_changes(keyword=cst.Name(keyword), equal=equal))
    for name, text in arguments.added:
        args.append(cst.Arg(cst.parse_expression(text), cst.Name(name), equal=equal))
    between, last = _separator(call), call.args[-1]
    for index, arg in enumerate(args):
        if index == len(args) - 1:
            args[index] = arg.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        elif index >= len(arguments.kept) or arguments.kept[index][0] == len(call.args) - 1:
            args[index] = arg.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    return args


def moved_along(args: Sequence[cst.Arg], column: int, indentation: int, width: int) -> list[cst.Arg]:
    """Arguments of which lines that begin at `column` or further right move by `width`.

    They are aligned with the first argument, before which the text grows. `indentation` is that of the statement.
    """
    moved = []
    for arg in args:
        changed = arg.visit(_Moved(column - indentation, width))
        assert isinstance(changed, cst.Arg)
        moved.append(changed)
    return moved


class _Moved(cst.CSTTransformer):
    def __init__(self, column: int, width: int) -> None:
        super().__init__()
        self._column = column
        self._width = width

    def leave_ParenthesizedWhitespace(
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.ParenthesizedWhitespace:
        blanks = updated_node.last_line.value
        if not updated_node.indent or "\t" in blanks or len(blanks) < self._column:
            return updated_node
        moved = cst.SimpleWhitespace(" " * (len(blanks) + self._width))
        return updated_node.with_changes(last_line=moved)


def _separator(call: cst.Call) -> cst.Comma:
    """What stands between the last two arguments, without a comment there."""
    comma = call.args[-2].comma if len(call.args) > 1 else None
    if not isinstance(comma, cst.Comma):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    blank = comma.whitespace_after
    if isinstance(blank, cst.ParenthesizedWhitespace) and blank.first_line.comment is not None:
        return comma.with_changes(whitespace_after=blank.with_changes(first_line=cst.TrailingWhitespace()))
    return comma


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
