"""The uses of the old names, in groups of which all members change or none does.

A group is one written-out use (`torch.cuda.amp.autocast()`), or a name that is imported or assigned with everything
that reads it: its calls cannot gain the device one by one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.exports import is_exported
from amp_migrate.facts.names import bound_name
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.rules.modernise import (
    CUSTOM_FUNCTIONS,
    DERIVED_CLASS,
    OLD_NAME_AS_VALUE,
    PRIVATE_NAME,
    SEVERAL_VERSIONS,
    TAKEN_BY_OTHERS,
)
from amp_migrate.rules.rule import Rule

OLD_MODULES = ("torch.cuda.amp", "torch.cpu.amp")
_NAME = re.compile(
    r"torch\.(?P<device>cuda|cpu)\.amp(?:\.autocast_mode|\.grad_scaler)?"
    r"\.(?P<name>autocast|GradScaler|custom_fwd|custom_bwd)\b"
)
_CUSTOM = ("custom_fwd", "custom_bwd")
_FIRST_TORCH_WITH_CUSTOM = (2, 4)
_ASKS_VERSION = re.compile(r"version|hasattr\(\s*torch\b|\bTORCH_", re.IGNORECASE)
_MISSING = frozenset("ImportError ModuleNotFoundError AttributeError".split())


@dataclasses.dataclass(frozen=True)
class Stays:
    """Why a group stays as it is: a rule, its place, what was found there, and the case of its rule."""

    rule: Rule
    node: cst.CSTNode
    message: str
    case: str = ""


@dataclasses.dataclass(frozen=True)
class Use:
    """A use of an old name, and how: called, decorator, partial, or respelled where it takes no arguments.

    `name` is autocast, GradScaler, custom_fwd or custom_bwd; `device` cuda or cpu.
    """

    node: cst.BaseExpression
    name: str
    device: str
    how: str


@dataclasses.dataclass
class Group:
    """Uses that change together, and the import that brings their name in, if it has to change with them."""

    uses: list[Use] = dataclasses.field(default_factory=list)
    binding: Binding | None = None
    alias: cst.ImportAlias | None = None
    stays: Stays | None = None


def find_groups(facts: Facts, torch: tuple[int, int]) -> list[Group]:
    """All groups of some files."""
    return _Finder(facts, torch).groups()


class _Finder:
    def __init__(self, facts: Facts, torch: tuple[int, int]) -> None:
        self.facts = facts
        self.torch = torch
        self._aliases: dict[Variable, str] = {}
        self._group_of: dict[Variable, Group] = {}

    def groups(self) -> list[Group]:
        groups = [*self._imported()]
        for node in list(self.facts.tree.parents):
            if isinstance(node, cst.Attribute) and self._is_read(node) and self._root_group(node) is None:
                path = self.facts.names.dotted(node) or ""
                if _is_old(path) and not _is_part(self.facts, node):
                    group = Group()
                    groups.append(group)
                    self._add(group, node, path)
        return groups

    # -- what is imported -------------------------------------------------------------------------------

    def _imported(self) -> Iterator[Group]:
        """Groups of the names that imports bind to old modules, or to what is in them."""
        for root, modules in self.facts.names.star_imports.items():
            if any(module in OLD_MODULES for module in modules):
                yield Group(stays=Stays(OLD_NAME_AS_VALUE, root.node, "a star import of torch.cuda.amp", "star"))
        for variable in list(self.facts.names.all_variables()):
            for binding in variable.bindings:
                if binding.kind == "import" and binding.path is not None and _is_old(binding.path):
                    yield self._of_import(variable, binding, binding.path)
                    break

    def _of_import(self, variable: Variable, binding: Binding, path: str) -> Group:
        group = Group(binding=binding, alias=_alias(binding, variable))
        self._group_of[variable] = group
        self._check_name(group, variable)
        assert binding.statement is not None
        if group.stays is None and self._asks_version(binding.statement, is_import=True):
            group.stays = Stays(
                SEVERAL_VERSIONS, binding.node, f"{variable.name} is imported under a test of the version"
            )
        for load in variable.loads:
            node = self._whole(load)
            self._add(group, node, self.facts.names.dotted(node) or path)
        return group

    def _check_name(self, group: Group, variable: Variable) -> None:
        """A name that is bound twice is a fall-back; one that others take from here cannot gain an argument."""
        node = variable.bindings[0].node
        if len(variable.bindings) > 1 and group.binding is None:
            group.stays = Stays(OLD_NAME_AS_VALUE, node, f"{variable.name} may be something else as well", "several")
        elif len(variable.bindings) > 1:
            group.stays = Stays(SEVERAL_VERSIONS, node, f"{variable.name} is bound in several places", "several")
        elif variable.importers or is_exported(self.facts, variable) or self._is_used_elsewhere(variable):
            group.stays = Stays(TAKEN_BY_OTHERS, node, f"other files take {variable.name} from here")

    def _is_used_elsewhere(self, variable: Variable) -> bool:
        owner = variable.scope.owner
        is_global = isinstance(owner, Function) and owner.is_module
        path = self.facts.file_of(variable.bindings[0].node).path
        return is_global and self.facts.elsewhere.use_function(path, variable.name)

    def _whole(self, load: cst.Name) -> cst.BaseExpression:
        """`amp.autocast` around the `amp` of an import."""
        node: cst.BaseExpression = load
        while isinstance(parent := self.facts.tree.parents.get(node), cst.Attribute) and parent.value is node:
            if _NAME.fullmatch(self.facts.names.dotted(node) or ""):
                break
            node = parent
        return node

    def _root_group(self, node: cst.BaseExpression) -> Group | None:
        while isinstance(node, cst.Attribute):
            node = node.value
        variable = self.facts.names.variable_at(node)
        return self._group_of.get(variable) if variable is not None else None

    # -- how it is used ---------------------------------------------------------------------------------

    def _add(self, group: Group, node: cst.BaseExpression, path: str) -> None:
        """Add a use, and those of a variable that is bound to it."""
        match = _NAME.fullmatch(path)
        how = self._how(node) if match is not None else None
        if match is None or how is None:
            name, device, how = path.rpartition(".")[2], "", "other"
        else:
            name, device = match["name"], match["device"]
        group.uses.append(Use(node, name, device, how))
        stays = self._stays(node, path, name, how)
        if group.stays is None and stays is not None:
            group.stays = stays
        alias = self._alias_of(node) if how == "respelled" else None
        if alias is not None:
            if group.stays is None:
                self._check_name(group, alias)
            known = self._group_of.setdefault(alias, group)
            for load in alias.loads if known is group else ():
                self._add(group, load, path)

    def _stays(self, node: cst.BaseExpression, path: str, name: str, how: str) -> Stays | None:
        text = self.facts.text(node)
        if self._asks_version(self.facts.tree.statement_of(node), is_import=False):
            return Stays(SEVERAL_VERSIONS, node, f"{text} stands under a test of the version")
        if path in OLD_MODULES:
            return Stays(OLD_NAME_AS_VALUE, node, f"the module {text} is used as a value", "module")
        if _NAME.fullmatch(path) is None:
            return Stays(PRIVATE_NAME, node, f"{text} is private")
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.Arg) and isinstance(self.facts.tree.parents.get(parent), cst.ClassDef):
            return Stays(DERIVED_CLASS, node, f"a class is derived from {text}")
        if how == "other":
            return Stays(OLD_NAME_AS_VALUE, node, f"{text} is used as a value")
        if name in _CUSTOM and self.torch < _FIRST_TORCH_WITH_CUSTOM:
            return Stays(CUSTOM_FUNCTIONS, node, f"{text} has its new name since torch 2.4")
        if not self._can_gain(node, name, how):
            return Stays(OLD_NAME_AS_VALUE, node, f"the arguments of {text} are not all written out here", "arguments")
        return None

    def _how(self, node: cst.BaseExpression) -> str | None:
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.Call) and parent.func is node:
            return "called"
        if isinstance(parent, cst.Decorator):
            dotted = self.facts.names.dotted(node) or ""
            return "decorator" if dotted.endswith(_CUSTOM) else None
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            if isinstance(call, cst.Call) and self.facts.objects.is_partial(call) and call.args[0] is parent:
                return "partial"
        if self._is_type(node) or self._alias_of(node) is not None:
            return "respelled"
        return None

    def _is_type(self, node: cst.CSTNode) -> bool:
        """True in annotations, and for the classes that isinstance asks for."""
        current: cst.CSTNode | None = node
        while isinstance(current, cst.BaseExpression | cst.Arg | cst.Element | cst.SubscriptElement | cst.Index):
            parent = self.facts.tree.parents.get(current)
            if isinstance(parent, cst.Call):
                return called_name(parent) in ("isinstance", "issubclass") and parent.args[1:2] == (current,)
            current = parent
        return isinstance(current, cst.Annotation)

    def _alias_of(self, node: cst.BaseExpression) -> Variable | None:
        """The variable in `autocast = torch.cuda.amp.autocast`."""
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
            target = parent.targets[0].target
            variable = self.facts.names.variable_at(target)
            if variable is not None and isinstance(variable.scope.owner, Function):
                return variable
        return None

    def _can_gain(self, node: cst.BaseExpression, name: str, how: str) -> bool:
        """True where all arguments can be given as the new function takes them."""
        call = self.facts.tree.parents.get(node)
        if how == "partial":
            partial = self.facts.tree.parents.get(call) if call is not None else None
            assert isinstance(partial, cst.Call)
            return _fits(partial.args[1:], name) and (name != "autocast" or self._is_fixed(partial))
        return how != "called" or (isinstance(call, cst.Call) and _fits(call.args, name))

    def _is_fixed(self, partial: cst.Call) -> bool:
        """True where no call of a partial can give `enabled` by its position, which is that of the dtype now."""
        if len(partial.args) > 1 and (
            partial.args[1].keyword is None or any(_keyword(arg) == "enabled" for arg in partial.args)
        ):
            return True
        variable = self._alias_of(partial)
        if variable is None or len(variable.bindings) > 1 or self._is_used_elsewhere(variable):
            return False
        calls = [self.facts.tree.parents.get(load) for load in variable.loads]
        return all(
            isinstance(call, cst.Call) and call.func is load and all(_keyword(arg) for arg in call.args)
            for call, load in zip(calls, variable.loads, strict=True)
        )

    # -- versions ---------------------------------------------------------------------------------------

    def _asks_version(self, statement: Statement, *, is_import: bool) -> bool:
        """True below `if hasattr(...)`, a test of a version, or in a `try` for names that may be missing."""
        for outer in self._around(statement):
            if isinstance(outer.node, cst.If) and _ASKS_VERSION.search(self.facts.text(outer.node.test)):
                return True
            if isinstance(outer.node, cst.Try) and outer is not statement:
                caught = {name for handler in outer.node.handlers for name in _caught(handler)}
                if caught & _MISSING or (is_import and not caught <= {"KeyboardInterrupt"}):
                    return True
        return any(
            isinstance(part, cst.IfExp) and _ASKS_VERSION.search(self.facts.text(part.test))
            for part in self.facts.tree.expressions(statement)
        )

    def _around(self, statement: Statement) -> Iterator[Statement]:
        """The statement and all that it stands in, out of its functions."""
        current: Statement | None = statement
        while current is not None:
            yield current
            current = self.facts.tree.owner_of(current.block)

    def _is_read(self, node: cst.CSTNode) -> bool:
        return not isinstance(self.facts.tree.statement_of(node).node, (cst.Import, cst.ImportFrom))


def _is_old(path: str) -> bool:
    return path in OLD_MODULES or path.startswith(tuple(f"{module}." for module in OLD_MODULES))


def _is_part(facts: Facts, node: cst.Attribute) -> bool:
    """True for `torch.cuda.amp` in `torch.cuda.amp.autocast`, and for what stands behind that name."""
    if _NAME.match(facts.names.dotted(node.value) or ""):
        return True
    parent = facts.tree.parents.get(node)
    is_name = _NAME.fullmatch(facts.names.dotted(node) or "") is not None
    return isinstance(parent, cst.Attribute) and parent.value is node and not is_name


def _alias(binding: Binding, variable: Variable) -> cst.ImportAlias | None:
    node = binding.node
    if not isinstance(node, (cst.Import, cst.ImportFrom)) or isinstance(node.names, cst.ImportStar):
        return None
    return next((alias for alias in node.names if bound_name(alias).value == variable.name), None)


def _fits(args: object, name: str) -> bool:
    assert isinstance(args, (list, tuple))
    if name == "autocast":
        positional = [arg for arg in args if _keyword(arg) is None]
        return len(positional) <= 3 and not any(arg.star for arg in positional)
    return True


def _keyword(arg: cst.Arg) -> str | None:
    """The keyword of an argument; `**` for those of a dict."""
    if arg.star == "**":
        return arg.star
    return arg.keyword.value if arg.keyword is not None else None


def _caught(handler: cst.ExceptHandler) -> Iterator[str]:
    if handler.type is None:
        yield "BaseException"
        return
    elements = [one.value for one in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    for element in elements:
        yield element.value if isinstance(element, cst.Name) else "Exception"
