"""Worlds: what the conditions for mixed precision answer when it is on, and when it is off."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from amp_migrate.check.proof.flow import Flow
from amp_migrate.check.proof.nodes import is_none
from amp_migrate.check.proof.program import Def, Scope, default_of, imports_of, is_modern
from amp_migrate.files.syntax import names_in


class _Special:
    """A value that is true, and equal to nothing but itself."""


UNKNOWN: Any = _Special()
SOMETHING: Any = _Special()
_MOST_HOPS = 6
INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.NotIn: ast.In,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.Is: lambda left, right: left is right,
    ast.In: lambda left, right: left in right,
    ast.Gt: lambda left, right: left > right,
    ast.Lt: lambda left, right: left < right,
}
_SYMMETRIC = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"bool": bool, "str": str, "int": int, "float": float}


class Keys:
    """One text for one condition, by whatever name a function knows it: parameters are followed to their arguments,
    variables and attributes with one value to that value.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._stores: dict[str, list[tuple[Scope, ast.expr]]] = {}
        self._meant: dict[tuple[Scope, str], tuple[Scope, ast.expr] | None] = {}
        self._given_back: set[ast.AST] = set()  # what amp.initialize returns is what it was given
        for scope, target, value in (one for file in flow.files for one in file.assigned):
            if isinstance(target, ast.Attribute):
                self._stores.setdefault(target.attr, []).append((scope, value))
            if isinstance(value, ast.Call) and scope.file.dotted(value.func) == "apex.amp.initialize":
                self._given_back |= {target, value}
        for scope, value in (one for file in flow.files for one in file.returned):
            if any(ast.unparse(one) == "property" for one in getattr(scope.node, "decorator_list", ())):
                self._stores.setdefault(scope.name.rpartition(".")[2], []).append((scope, value))

    def key(self, scope: Scope, node: ast.expr, hops: int = 0) -> str:
        """The text of an expression; of what is given a name on the way, `(on := fp16)`, that of its value."""
        node = _unnamed(node)
        if hops < _MOST_HOPS and isinstance(node, (ast.Name, ast.Attribute)):
            meant = self.meant(scope, node)
            if meant is not None and isinstance(meant[1], (ast.Name, ast.Attribute, ast.Compare, ast.Subscript)):
                return self.key(*meant, hops + 1)
        if isinstance(node, ast.Attribute):
            return f"{self.key(scope, node.value, hops)}.{node.attr}"
        if isinstance(node, ast.Name):
            return scope.file.dotted(node) or node.id
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = [node.left, node.comparators[0]]
            if isinstance(node.ops[0], _SYMMETRIC):
                sides.sort(key=lambda one: isinstance(one, ast.Constant))
            return f" {type(node.ops[0]).__name__} ".join(self.key(scope, one, hops) for one in sides)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool" and node.args:
            return self.key(scope, node.args[0], hops)
        return ast.unparse(node)

    def meant(self, scope: Scope, node: ast.expr) -> tuple[Scope, ast.expr] | None:
        """The one expression, with its scope, whose value a name, a module's attribute or one of `self` has; None where
        there are several, or none is written down.
        """
        if isinstance(node, ast.Name):
            return self._of_name(scope, node.id)
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            stores = self._stores.get(node.attr, [])
            own = [one for one in stores if self.flow.are_related(one[0].owner, scope.owner)]
            bound = scope.owner.bound.get(node.attr, []) if scope.owner is not None else []
            own += [(scope, one) for one in bound if isinstance(one, ast.expr)]
            return _only([(at, one) for at, one in own or stores if not is_none(one)])
        full = scope.file.dotted(node)
        there = self.flow.program.definition(full, scope.file) if full is not None else None
        return self._of_name(*there) if there is not None else None

    def _of_name(self, scope: Scope, name: str) -> tuple[Scope, ast.expr] | None:
        home = scope.binding(name)
        if home is None:
            return None
        if (home, name) not in self._meant:
            self._meant[home, name] = None
            given = [one for one in home.bound[name] if one not in self._given_back]
            self._meant[home, name] = self._bound(home, name, given or home.bound[name])
        return self._meant[home, name]

    def _bound(self, home: Scope, name: str, found: list[str | ast.AST]) -> tuple[Scope, ast.expr] | None:
        values = [(home, one) for one in found if isinstance(one, ast.expr)]
        if len(values) == len(found):
            return _only(values)
        if len(found) == 1 and isinstance(found[0], ast.arg) and isinstance(home.node, Def):
            callers = self.flow.callers.get(home, [])
            given = [(at, self.flow.given(at, call, home).get(name)) for at, call in callers]
            if any(one is None and _spreads(call) for (_, one), (_, call) in zip(given, callers, strict=True)):
                return None  # it may be among what is spread
            filled = [(at, one if one is not None else default_of(home.node, name)) for at, one in given]
            known = [(at, one) for at, one in filled if one is not None]
            return _only(known) if len(known) == len(filled) else None
        if len(found) == 1 and isinstance(found[0], str):
            there = self.flow.program.definition(found[0], home.file)
            return self._of_name(*there) if there is not None and there[0] is not home else None
        return None

    def number_of_level(self, scope: Scope, node: ast.expr) -> tuple[Scope, ast.expr] | None:
        """`n` with its scope, where a level is made of it: `"O%d" % n`, and `f"O{n}"` of an option of type int."""
        meant = self.meant(scope, node)
        home = meant[0] if meant is not None else scope
        match _unnamed(meant[1] if meant is not None else node):
            case ast.BinOp(ast.Constant("O%d" | "O%i"), ast.Mod(), ast.Tuple([number]) | number):
                return home, number
            case ast.JoinedStr([ast.Constant("O"), ast.FormattedValue(number)]) if self._is_int_option(number):
                return home, number
        return None

    def _is_int_option(self, node: ast.expr) -> bool:
        flag = f"--{getattr(node, 'attr', None)}".replace("_", "-")
        made = [
            one for file in self.flow.files for _, one in file.calls if getattr(one.func, "attr", "") == "add_argument"
        ]
        own = [one for one in made if any(_constant(arg).replace("_", "-") == flag for arg in one.args)]
        types = [[ast.unparse(given.value) for given in one.keywords if given.arg == "type"] for one in own]
        return bool(own) and all(one == ["int"] for one in types)


def _constant(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _unnamed(node: ast.expr) -> ast.expr:
    """`fp16` for `(on := fp16)`, which has the same value; not where it reads the name that it sets."""
    while isinstance(node, ast.NamedExpr) and node.target.id not in names_in(node.value):
        node = node.value
    return node


def _spreads(call: ast.Call) -> bool:
    """True for a call with `*given` or `**given`."""
    return any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords)


def _only(values: list[tuple[Scope, ast.expr]]) -> tuple[Scope, ast.expr] | None:
    return values[0] if len({ast.dump(one) for _, one in values}) == 1 else None


class World:
    """The answers of tests in one world, where `values` has those of the conditions by their keys.

    What holds a scaler or Apex's handle, as `carried` tells, is there where mixed precision `is_on`, and always where
    it is never None. With `is_on` None that is open. Where it `marks`, what a scaler scales and steps is told from the
    rest.
    """

    def __init__(
        self,
        keys: Keys,
        values: dict[str, Any],
        carried: Callable[[Scope, ast.expr], str],
        is_on: bool | None,
        marks: bool = False,
    ) -> None:
        self.keys = keys
        self.values = values
        self.carried = carried
        self.is_on = is_on
        self.marks = marks

    def without(self, key: str) -> World:
        """The same with one condition left open."""
        values = {text: one for text, one in self.values.items() if text != key}
        return World(self.keys, values, self.carried, self.is_on, self.marks)

    def truth(self, scope: Scope, test: ast.expr) -> bool | None:
        """The answer of a test; None where it has no one answer here."""
        value = self.value(scope, test)
        return None if value is UNKNOWN else bool(value)

    def value(self, scope: Scope, node: ast.expr, hops: int = 0) -> Any:
        """What an expression is in this world, UNKNOWN where that is open; a name of torch or Apex is `<its path>`."""
        node = _unnamed(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.value(scope, node.operand, hops)
            return UNKNOWN if inner is UNKNOWN else not inner
        if isinstance(node, ast.BoolOp):
            return self._bool_op(scope, node, hops)
        if isinstance(node, ast.IfExp):
            test = self.value(scope, node.test, hops)
            arms = [node.body, node.orelse] if test is UNKNOWN else [node.body if test else node.orelse]
            values = [self.value(scope, one, hops) for one in arms]
            return values[0] if values[0] == values[-1] else UNKNOWN
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compare(scope, node, hops)
        if (number := self.keys.number_of_level(scope, node)) is not None:
            is_zero = self.value(number[0], ast.Compare(number[1], [ast.Eq()], [ast.Constant(0)]), hops)
            return UNKNOWN if is_zero is UNKNOWN else "O0" if is_zero else "O1"
        if isinstance(node, ast.Call):
            return self._call(scope, node, hops)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._reference(scope, node, hops)
        return self.values.get(self.keys.key(scope, node), UNKNOWN)

    def _reference(self, scope: Scope, node: ast.Name | ast.Attribute | ast.Subscript, hops: int) -> Any:
        key = self.keys.key(scope, node)
        if key in self.values:
            return self.values[key]
        if isinstance(node, ast.Attribute) and self.carried(scope, node.value):
            return SOMETHING
        carried = self.carried(scope, node)
        if carried:
            return SOMETHING if carried == "always" or self.is_on else UNKNOWN if self.is_on is None else None
        full = scope.file.dotted(node) or ""
        if full.partition(".")[0] in ("apex", "torch"):
            return f"<{full}>"
        meant = self.keys.meant(scope, node) if hops < _MOST_HOPS else None
        if meant is None or (isinstance(meant[1], ast.Constant) and not isinstance(meant[1].value, bool | None)):
            return UNKNOWN  # a size or a kind decides on no precision
        return self.value(*meant, hops + 1)

    def _bool_op(self, scope: Scope, node: ast.BoolOp, hops: int) -> Any:
        key = self.keys.key(scope, node)
        if key in self.values:
            return self.values[key]
        values = [self.value(scope, one, hops) for one in node.values]
        decisive = isinstance(node.op, ast.Or)
        if any(value is not UNKNOWN and bool(value) == decisive for value in values):
            return decisive
        return UNKNOWN if any(value is UNKNOWN for value in values) else values[-1]

    def _compare(self, scope: Scope, node: ast.Compare, hops: int) -> Any:
        modern = is_modern(node)
        if modern is not None:
            return modern
        op = type(node.ops[0])
        plain, is_turned = (INVERSE[op], True) if op in INVERSE else (op, False)
        key = self.keys.key(scope, ast.Compare(node.left, [plain()], node.comparators))
        if key in self.values:
            return self.values[key] != is_turned
        left, right = self.value(scope, node.left, hops), self._elements(scope, node.comparators[0], hops)
        if plain is ast.In and right is SOMETHING:
            return not is_turned  # `"state_dict" in amp.__dict__`
        if left is UNKNOWN or right is UNKNOWN or plain not in _COMPARE:
            return UNKNOWN
        try:
            return _COMPARE[plain](left, right) != is_turned
        except TypeError:
            return UNKNOWN

    def _elements(self, scope: Scope, node: ast.expr, hops: int) -> Any:
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            values = [self.value(scope, one, hops) for one in node.elts]
            return UNKNOWN if UNKNOWN in values else values
        return self.value(scope, node, hops)

    def _call(self, scope: Scope, node: ast.Call, hops: int) -> Any:
        func, first = node.func, node.args[0] if node.args else None
        if isinstance(func, ast.Attribute) and func.attr == "is_enabled" and self.carried(scope, func.value):
            return UNKNOWN if self.is_on is None else self.is_on
        if isinstance(func, ast.Attribute) and func.attr == "get_scale" and self.carried(scope, func.value):
            return 1.0 if self.is_on is False else UNKNOWN
        if self.values and (key := ast.unparse(node)) in self.values:
            return self.values[key]
        if isinstance(func, ast.Name) and func.id == "hasattr" and first is not None and self.carried(scope, first):
            return True
        if (scope.file.dotted(func) or "").rpartition(".")[2] == "is_apex_available":
            return self.keys.flow.program.with_apex
        for callee in self.keys.flow.certain(scope, node) if hops < _MOST_HOPS else ():
            return self._returned(callee, hops + 1)
        if isinstance(func, ast.Name) and func.id in _CONVERSIONS and first is not None:
            value = self.value(scope, first, hops)
            try:
                return UNKNOWN if isinstance(value, _Special) else _CONVERSIONS[func.id](value)
            except (TypeError, ValueError):
                return UNKNOWN
        return UNKNOWN

    def _returned(self, callee: Scope, hops: int) -> Any:
        """What a function returns that only looks whether Apex is there, or only names a condition."""
        body = [one for one in getattr(callee.node, "body", []) if not isinstance(one, ast.Expr)]
        if body and isinstance(body[0], ast.Try) and any(imports_of(one, "apex") for one in body[0].body):
            arm = [*body[0].body, *body[0].orelse] if callee.file.program.with_apex else body[0].handlers[0].body
            body = [one for one in [*arm, *body[1:]] if not imports_of(one, "apex")]
        if body and isinstance(body[0], ast.Return) and body[0].value is not None:
            return self.value(callee, body[0].value, hops)
        return UNKNOWN


def literals(test: ast.expr, holds: bool, truth: Callable[[ast.expr], bool | None]) -> Iterator[tuple[ast.expr, bool]]:
    """The parts of a test that `truth` leaves open, each with its answer where the test `holds`, or does not. Where a
    part may answer either way then, the test itself stands for its parts.
    """
    test = _unnamed(test)
    if truth(test) is not None:
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from literals(test.operand, not holds, truth)
    elif isinstance(test, ast.BoolOp):
        undecided = [one for one in test.values if truth(one) is None]
        if len(undecided) == 1 or isinstance(test.op, ast.And) == holds:
            for one in undecided:
                yield from literals(one, holds, truth)
        else:
            yield test, holds
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in INVERSE:
        yield ast.Compare(test.left, [INVERSE[type(test.ops[0])]()], test.comparators), not holds
    else:
        yield test, holds
