"""The scaler in checkpoints, and wherever its state or its scale is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import libcst as cst

from amp_migrate.facts.conditions import source_key
from amp_migrate.native.writer import Writer
from amp_migrate.plain_attributes import bare, parentheses
from amp_migrate.plan.model import FormatTest

_Item = TypeVar("_Item", bound=cst.CSTNode)


class StateWriter(Writer):
    def write(self) -> None:
        """What apex saved and loaded, and the states that are added beside those of optimizers."""
        self._checkpoints()
        self._added_states()

    def _checkpoints(self) -> None:
        found = self.plan.found
        for access in found.saves:
            self.edits.replace(access.node, f"{self.scaler(access.statement.function)}.state_dict()")
        for access in found.loads:
            assert access.state is not None
            scaler = self.scaler(access.statement.function)
            self.edits.replace(access.node, f"{scaler}.load_state_dict({self.facts.text(access.state)})")
            if access.format_test is not None:
                self._format_test(access.format_test)
        for read in found.scale_reads:
            self.edits.replace(read.node, f"{self.scaler(read.statement.function)}.get_scale()")
        for one in found.handed:
            self.edits.replace(one.node, self.scaler(one.statement.function))
        for node in found.received:
            self.edits.replace(node, self.scaler(self.facts.tree.function_of(node)))

    def _added_states(self) -> None:
        """The scaler's state beside the optimizer's, and a load that old checkpoints pass by (rule F)."""
        for one in self.plan.found.added:
            scaler = self.scaler(one.statement.function)
            quote = self.facts.quote(one.statement.node)
            state = f"{scaler}.state_dict()"
            if one.checkpoint is not None:
                checkpoint = self.facts.text(one.checkpoint)
                load = f"{scaler}.load_state_dict({checkpoint}[{quote}{one.key}{quote}])"
                line = f"if {checkpoint}.get({quote}{one.key}{quote}):\n    {load}"
                self.edits.insert_after(one.statement, line)
            elif isinstance(one.saved_in, cst.Assign):
                target = one.saved_in.targets[0].target
                assert isinstance(target, cst.Subscript)
                holder = self.facts.text(target.value)
                self.edits.insert_after(one.statement, f"{holder}[{quote}{one.key}{quote}] = {state}")
            elif isinstance(one.saved_in, cst.DictElement):
                self._add_entry(one.saved_in, one.key, state)
            else:
                assert one.saved_in is not None
                self._add_keyword(one.saved_in, one.key, state)

    def _add_entry(self, element: cst.DictElement, key: str, state: str) -> None:
        """An entry after another one, in its style: its quotes, and its spaces around the colon."""
        quote = element.key.quote if isinstance(element.key, cst.SimpleString) else self.facts.quote(element)
        whole = self.facts.tree.parents[element]
        assert isinstance(whole, cst.Dict)
        index = whole.elements.index(element)
        added = element.with_changes(key=cst.SimpleString(f"{quote}{key}{quote}"), value=cst.parse_expression(state))
        self.edits.transform(whole, lambda node: _with_element(node, index, added))

    def _add_keyword(self, arg: cst.Arg, key: str, state: str) -> None:
        whole = self.facts.tree.parents[arg]
        assert isinstance(whole, cst.Call)
        index = whole.args.index(arg)
        added = arg.with_changes(keyword=cst.Name(key), value=cst.parse_expression(state))
        self.edits.transform(whole, lambda node: _with_arg(node, index, added))

    def _format_test(self, test: FormatTest) -> None:
        """A state that apex wrote counts as none: GradScaler cannot load it. It is asked about last: where the other
        tests are false, there may be None in its place.
        """
        quote = self.facts.quote(test.node)
        written, loaded = self.facts.text(test.node), self.facts.text(test.state)
        if test.says_missing:
            text = f"{written} or {quote}scale{quote} not in {loaded}"
            self.edits.replace(test.node, f"({text})" if test.is_negated else text)
            return
        there = f"{quote}scale{quote} in {loaded}"
        whole = self._whole_conjunction(test.node)
        if whole is test.node:
            text = f"{written} and {there}"
            self.edits.replace(test.node, f"({text})" if test.is_negated else text)
        else:
            self.edits.transform(whole, lambda updated: _and(updated, there))

    def _whole_conjunction(self, part: cst.BaseExpression) -> cst.BaseExpression:
        """`a and b and c`, for one of its parts."""
        parent = self.facts.tree.parents.get(part)
        while isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.And):
            part, parent = parent, self.facts.tree.parents.get(parent)
        return part

    def drop(self) -> None:
        """Without a scaler there is no state to save: the entries go."""
        found = self.plan.found
        for access in found.saves:
            element = self.facts.tree.parents.get(access.node)
            if isinstance(access.statement.node, cst.Assign) and access.statement.node.value is access.node:
                self.edits.remove(access.statement)
            elif isinstance(element, cst.DictElement):
                whole = self.facts.tree.parents[element]
                self.edits.transform(whole, lambda node, key=element.key: _without_key(node, key))  # type: ignore[misc]
            else:
                self.edits.replace(access.node, "None")
        for access in found.loads:
            self.edits.remove(access.statement)
        for read in found.scale_reads:
            self.edits.replace(read.node, "1.0")
        for skip in self.plan.skips:
            self.edits.replace(skip.node, "True" if skip.taken else "False")


def _without_key(node: cst.CSTNode, key: cst.BaseExpression) -> cst.CSTNode:
    """A dict display with one entry gone."""
    assert isinstance(node, cst.Dict)
    wanted = source_key(key)
    kept = [e for e in node.elements if not isinstance(e, cst.DictElement) or source_key(e.key) != wanted]
    if kept and node.elements[-1] not in kept:
        kept[-1] = kept[-1].with_changes(comma=node.elements[-1].comma)
    return node.with_changes(elements=kept)


def _with_element(node: cst.CSTNode, index: int, added: cst.DictElement) -> cst.CSTNode:
    assert isinstance(node, cst.Dict)
    return node.with_changes(elements=_inserted(node.elements, index, added))


def _with_arg(node: cst.CSTNode, index: int, added: cst.Arg) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    return node.with_changes(args=_inserted(node.args, index, added))


def _inserted(items: Sequence[_Item], index: int, added: _Item) -> list[_Item]:
    """A list with one more item after `index`; commas as between the items before, the last one's as it was."""
    before: Any = items[index]
    if index + 1 < len(items):
        added = added.with_changes(comma=before.comma)
        return [*items[: index + 1], added, *items[index + 1 :]]
    previous: Any = items[index - 1]
    between = previous.comma if index else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if isinstance(before, cst.Arg):  # the line end before the bracket goes with the last argument
        before = before.with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    return [*items[:index], before.with_changes(comma=between), added.with_changes(comma=before.comma)]


def _and(node: cst.CSTNode, text: str) -> cst.CSTNode:
    """One more operand of a conjunction, inside of its parentheses."""
    assert isinstance(node, cst.BaseExpression)
    lpar, rpar = parentheses(node)
    return cst.BooleanOperation(bare(node), cst.And(), cst.parse_expression(text), lpar=lpar, rpar=rpar)
