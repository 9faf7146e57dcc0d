"""Writing groups of uses in the new spelling: names, their imports, and the device that calls have to give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.names import dotted_text
from amp_migrate.facts.torch_name import torch_name
from amp_migrate.facts.tree import Statement
from amp_migrate.modernise.groups import OLD_MODULES, Group, Use
from amp_migrate.native.cleanup import remove_aliases
from amp_migrate.native.edits import Edits

# The positional parameters of torch.cuda.amp.autocast since 1.10 and of torch.cpu.amp.autocast.
_OF_AUTOCAST = ("enabled", "dtype", "cache_enabled")
_NEW_OF = {"torch.cuda": "torch", "torch.cpu": "torch"}


def rewrite(facts: Facts, groups: Sequence[Group]) -> Edits:
    """The edits that change all uses of the groups that do not stay, with their imports."""
    return _Rewriter(facts, groups).edits


class _Rewriter:
    def __init__(self, facts: Facts, groups: Sequence[Group]) -> None:
        self.facts = facts
        self.edits = Edits()
        imports: dict[Statement, list[cst.ImportAlias]] = {}
        for group in groups:
            if group.stays is not None:
                continue
            if group.binding is not None and group.alias is not None and group.binding.statement is not None:
                imports.setdefault(group.binding.statement, []).append(group.alias)
            for use in group.uses:
                self._respell(use)
                self._give_device(use)
        for statement, aliases in imports.items():
            self._import(statement, aliases)
        if groups and all(group.stays is None for group in groups):
            self._import_whole()

    # -- names ------------------------------------------------------------------------------------------

    def _respell(self, use: Use) -> None:
        """`torch.cuda.amp.autocast` -> `torch.amp.autocast`; what an import binds is called as before."""
        node = use.node
        while isinstance(node, cst.Attribute) and self.facts.names.dotted(node) not in OLD_MODULES:
            node = node.value
        if isinstance(node, cst.Attribute):
            self._shorten(node)

    def _shorten(self, module: cst.Attribute) -> None:
        """`torch.cuda.amp` -> `torch.amp`, `cuda.amp` -> `torch.amp`."""
        if isinstance(module.value, cst.Attribute):
            self.edits.transform(module, _without_device)
            return
        root = self.facts.tree.root_of(module)
        name = torch_name(self.facts, root)
        if name is None:
            name = "torch"
            variable = self.facts.names.variable_at(module.value)
            statement = variable.bindings[0].statement if variable is not None else None
            if statement is not None and statement.node not in self.edits.before:
                self.edits.insert_before(statement, "import torch")
        self.edits.replace(module.value, name)

    def _import(self, statement: Statement, aliases: Sequence[cst.ImportAlias]) -> None:
        node = statement.node
        assert isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar)
        if isinstance(node, cst.Import):
            for alias in aliases:
                self.edits.transform(alias.name, _without_device)
        elif len(aliases) == len(node.names):
            assert node.module is not None
            self.edits.transform(node.module, _shortened_module)
        else:
            assert node.module is not None
            module = dotted_text(_shortened_module(node.module))
            names = [source_key(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for alias in aliases]
            self.edits.insert_before(statement, f"from {module} import {', '.join(names)}")
            remove_aliases(statement, aliases, self.edits)

    def _import_whole(self) -> None:
        """`import torch.cuda.amp`, which binds nothing but `torch`, where no old name is left."""
        for statement in self.facts.tree.all_statements():
            for alias in statement.node.names if isinstance(statement.node, cst.Import) else ():
                if alias.asname is None and dotted_text(alias.name) in OLD_MODULES:
                    self.edits.transform(alias.name, _without_device)

    # -- arguments --------------------------------------------------------------------------------------

    def _give_device(self, use: Use) -> None:
        device = cst.Arg(cst.SimpleString(f"{self.facts.quote(use.node)}{use.device}{self.facts.quote(use.node)}"))
        named = device.with_changes(keyword=cst.Name("device_type"), equal=_EQUAL)
        is_custom = use.name.startswith("custom")
        parent = self.facts.tree.parents[use.node]
        change: Callable[[cst.CSTNode], cst.CSTNode]
        if use.how == "decorator":
            self.edits.transform(use.node, partial(_called, arg=named))
        elif use.how == "called":
            change = partial(_with_keyword, device=named) if is_custom else partial(_with_first, device=device, use=use)
            self.edits.transform(parent, change)
        elif use.how == "partial":
            call = self.facts.tree.parents[parent]
            change = partial(_with_keyword, device=named) if is_custom else partial(_with_first, device=device, use=use)
            self.edits.transform(call, change)


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _without_device(updated: cst.CSTNode) -> cst.CSTNode:
    """`torch.cuda.amp` -> `torch.amp`."""
    assert isinstance(updated, cst.Attribute) and isinstance(updated.value, cst.Attribute)
    return updated.with_changes(value=updated.value.value)


def _shortened_module(updated: cst.CSTNode) -> cst.BaseExpression:
    """The same in `torch.cuda.amp.autocast_mode`, and `torch.cuda` -> `torch`, of which `amp` is imported."""
    assert isinstance(updated, cst.Attribute)
    if dotted_text(updated) in _NEW_OF:
        return updated.value
    if dotted_text(updated) in OLD_MODULES:
        return cst.ensure_type(_without_device(updated), cst.Attribute)
    return updated.with_changes(value=_shortened_module(updated.value))


def _called(updated: cst.CSTNode, arg: cst.Arg) -> cst.Call:
    assert isinstance(updated, cst.BaseExpression)
    return cst.Call(updated, [arg])


def _with_first(updated: cst.CSTNode, device: cst.Arg, use: Use) -> cst.CSTNode:
    """The device before all other arguments of autocast and GradScaler, behind the first of a partial."""
    assert isinstance(updated, cst.Call)
    start = 1 if use.how == "partial" else 0
    given = list(updated.args[start:])
    if use.name == "autocast":
        given = [
            arg if arg.keyword is not None or arg.star else arg.with_changes(keyword=cst.Name(name), equal=_EQUAL)
            for arg, name in zip(given, (*_OF_AUTOCAST, *("" for _ in given)), strict=False)
        ]
    return _with_args(updated, [*updated.args[:start], device, *given], start)


def _with_keyword(updated: cst.CSTNode, device: cst.Arg) -> cst.CSTNode:
    """The device behind the positional arguments of custom_fwd and custom_bwd."""
    assert isinstance(updated, cst.Call)
    at = sum(1 for arg in updated.args if arg.keyword is None and not arg.star)
    return _with_args(updated, [*updated.args[:at], device, *updated.args[at:]], at)


def _with_args(call: cst.Call, args: list[cst.Arg], at: int) -> cst.Call:
    """A call with one argument more, at a place; what separates the others separates it."""
    last = call.args[-1].comma if call.args else cst.MaybeSentinel.DEFAULT
    between = cst.Comma(whitespace_after=call.whitespace_before_args)
    if not isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if at == len(args) - 1:
        if at:
            args[at - 1] = args[at - 1].with_changes(comma=between)
        args[at] = args[at].with_changes(
            comma=last if call.args else cst.MaybeSentinel.DEFAULT,
            whitespace_after_arg=call.args[-1].whitespace_after_arg if call.args else cst.SimpleWhitespace(""),
        )
        if at:
            args[at - 1] = args[at - 1].with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    else:
        args[at] = args[at].with_changes(comma=between)
    return call.with_changes(args=args)
