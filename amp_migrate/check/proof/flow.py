"""Who is called, and what may hold a value of some kind: a scaler, Apex's handle, a wrapped optimizer."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from itertools import islice

from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Def, File, Program, Scope, default_of, parameters

_MOST_HOPS = 6
_MOST_NAMESAKES = 8  # methods of one name that a call on an unknown object may mean
_PARTIAL = ("functools.partial", "partial")


class Flow:
    """The calls between the functions of some files of a program."""

    def __init__(self, program: Program, paths: Collection[str]) -> None:
        self.program = program
        self.files = [file for path, file in program.files.items() if path in paths and file.tree is not None]
        self.functions = [scope for file in self.files for scope in file.functions.values()]
        self._certain: dict[ast.Call, list[Scope]] = {}

    @cached_property
    def options(self) -> set[str]:
        """The names of options of command lines."""
        found = (name for file in self.files for name in re.findall(rb"""["']--([\w-]+)["']""", file.source))
        return {name.decode().replace("-", "_") for name in found}

    @cached_property
    def methods(self) -> dict[str, list[Scope]]:
        """The methods of all classes by their names."""
        found: dict[str, list[Scope]] = defaultdict(list)
        for scope in self.functions:
            if scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef):
                found[scope.name.rpartition(".")[2].rstrip("'")].append(scope)
        return found

    @cached_property
    def _training(self) -> list[Scope]:
        """The forwards with a backward in them: calls of a module that trains itself enter it."""
        forwards = self.methods.get("forward", [])
        return [
            one
            for one in forwards
            if any(isinstance(part, ast.Attribute) and part.attr == "backward" for part in walk(one.node))
        ]

    @cached_property
    def callers(self) -> dict[Scope, list[tuple[Scope, ast.Call]]]:
        """The calls of each function, each with the scope that it stands in."""
        found: dict[Scope, list[tuple[Scope, ast.Call]]] = defaultdict(list)
        for file in self.files:
            for scope, call in file.calls:
                for callee in self.callees(scope, call):
                    found[callee].append((scope, call))
        return found

    def callees(self, scope: Scope, call: ast.Call) -> list[Scope]:
        """The functions that a call may enter; a class stands for its constructor."""
        return self.certain(scope, call) or ([] if _is_super(call.func) else self._namesakes(scope, call))

    def certain(self, scope: Scope, call: ast.Call) -> list[Scope]:
        """The functions that a call enters by their own names; none where it is of an object that may be anything."""
        if call not in self._certain:
            self._certain[call] = self.meant(scope, written_out(scope, call).func)
        return self._certain[call]

    def _namesakes(self, scope: Scope, call: ast.Call) -> list[Scope]:
        """The methods of a name that a call of an unknown object may mean."""
        func = call.func
        if scope.file.dotted(func) is not None:
            return []
        name = func.attr if isinstance(func, ast.Attribute) else "__call__"
        is_of_object = name == "__call__" or name not in self.methods
        found = [*self.methods.get(name, ()), *(self._training if is_of_object else ())]
        fit = (one for one in found if fits(call, one, is_bound=is_bound(scope, func, one)))
        fitting = list(islice(fit, _MOST_NAMESAKES + 1))
        return fitting if len(fitting) <= _MOST_NAMESAKES else []

    def meant(self, scope: Scope, func: ast.expr, hops: int = 0) -> list[Scope]:
        """The functions that an expression stands for; of `self.method` those of the whole hierarchy."""
        if isinstance(func, ast.IfExp):
            arms = (func.body, func.orelse) if hops < _MOST_HOPS else ()
            return [one for arm in arms for one in self.meant(scope, arm, hops + 1)]
        if isinstance(func, ast.Name):
            home = scope.binding(func.id)
            for one in home.bound[func.id] if home is not None else ():
                if isinstance(one, (ast.ClassDef, *Def)):
                    return self.entered(scope.file.scope_of[one])
                if isinstance(one, (ast.IfExp, ast.Subscript, ast.Call)) and home is not None:
                    return self.meant(home, one, hops + 1) if hops < _MOST_HOPS else []
        if isinstance(func, (ast.Subscript, ast.Call)) and hops < _MOST_HOPS:
            return [one for at, part in self._entries(scope, func) for one in self.meant(at, part, hops + 1)]
        full = scope.file.dotted(func)
        if full is not None:
            return [one for there in self.defined(full, scope.file) for one in self.entered(there)]
        if isinstance(func, ast.Attribute) and scope.owner is not None:
            if _is_super(func):
                return self._inherited(scope.owner, func.attr)
            if ast.unparse(func.value) in ("self", "cls"):
                return [one for one in self.methods.get(func.attr, []) if self.are_related(one.parent, scope.owner)]
        return []

    def _entries(self, scope: Scope, lookup: ast.expr, hops: int = 0) -> Iterator[tuple[Scope, ast.expr]]:
        """What `TABLE[key]` and `TABLE.get(key)` may be, where all of the table is written down in one place."""
        table, key = None, None
        if isinstance(lookup, ast.Subscript):
            table, key = lookup.value, lookup.slice
        elif isinstance(lookup, ast.Call) and isinstance(lookup.func, ast.Attribute) and lookup.func.attr == "get":
            table = lookup.func.value
        for at, one in self._tables(scope, table, hops) if table is not None else ():
            parts = (
                one.values if isinstance(one, ast.Dict) else one.elts if isinstance(one, (ast.Tuple, ast.List)) else []
            )
            index = key.value if isinstance(key, ast.Constant) and not isinstance(one, ast.Dict) else None
            yield from ((at, part) for place, part in enumerate(parts) if index in (None, place))

    def _tables(self, scope: Scope, node: ast.expr, hops: int) -> Iterator[tuple[Scope, ast.expr]]:
        if isinstance(node, ast.Name) and hops < _MOST_HOPS:
            full = scope.file.dotted(node)
            there = self.program.definition(full, scope.file) if full is not None else None
            bound = there[0].bound[there[1]] if there is not None else []
            found = (there[0], bound[0]) if there is not None and len(bound) == 1 else scope.sole(node)
            if found is not None and isinstance(found[1], ast.expr):
                yield from self._tables(found[0], found[1], hops + 1)
        elif isinstance(node, (ast.Subscript, ast.Call)) and hops < _MOST_HOPS:
            for at, part in self._entries(scope, node, hops + 1):
                yield from self._tables(at, part, hops + 1)
        elif isinstance(node, ast.IfExp):
            yield from self._tables(scope, node.body, hops + 1)
            yield from self._tables(scope, node.orelse, hops + 1)
        else:
            yield scope, node

    def of_object(self, scope: Scope, call: ast.Call) -> list[Scope]:
        """The one method that a call of an object enters, where its class is certain; none where it may be another."""
        if not isinstance(call.func, ast.Attribute):
            return []
        made = self._class_of(scope, call.func.value)
        return self._method_of(made, call.func.attr) if made is not None else []

    def _class_of(self, scope: Scope, node: ast.expr) -> Scope | None:
        """The class that a variable is certainly an object of: all that it ever holds is what a call of the class has
        made, and the class makes objects as Python does.
        """
        home, made = scope.sole(node) or (None, None)
        full = home.file.dotted(made.func) if home is not None and isinstance(made, ast.Call) else None
        found = self.defined(full, home.file) if full is not None and home is not None else []
        return found[0] if len(found) == 1 and self._is_plain(found[0]) else None

    def _is_plain(self, scope: Scope) -> bool:
        """True for a class that is called for an object of it, and that looks methods up as Python does."""
        node = scope.node
        is_class = isinstance(node, ast.ClassDef) and not node.decorator_list and not node.keywords
        return is_class and not {"__new__", "__getattribute__"} & scope.bound.keys()

    def _method_of(self, made: Scope, name: str) -> list[Scope]:
        """The method of a name that an object of exactly this class has; none where another one may be in its place."""
        seen: set[Scope] = set()
        while name not in self._set_attributes and made not in seen and self._is_plain(made):
            seen.add(made)
            defined = made.bound.get(name, [])
            if defined:
                only = defined[0] if len(defined) == 1 else None
                return [made.file.scope_of[only]] if isinstance(only, Def) and not only.decorator_list else []
            above = [*self.bases(made)]
            if len(above) != 1 or len(made.node.bases) != 1:  # type: ignore[attr-defined]
                return []
            (made,) = above
        return []

    @cached_property
    def _set_attributes(self) -> set[str]:
        """The attributes that some object is given a value for; `setattr` may give any that a string names."""
        trees = [file.tree for file in self.files if file.tree is not None]
        stored = {
            one.attr
            for tree in trees
            for one in walk(tree)
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
        }
        setting = (file.source for file in self.files if b"setattr(" in file.source or b"__dict__" in file.source)
        return stored.union(*(re.findall(r"\w+", source.decode("utf-8", "replace")) for source in setting))

    def defined(self, full: str, near: File) -> list[Scope]:
        """The functions and classes of a dotted name."""
        found = self.program.definition(full, near)
        bound = found[0].bound[found[1]] if found is not None else []
        return [found[0].file.scope_of[one] for one in bound if found and isinstance(one, (ast.ClassDef, *Def))]

    def entered(self, scope: Scope) -> list[Scope]:
        """What a call of a function or class enters: of a class its constructor, or that of the first base with one."""
        if not isinstance(scope.node, ast.ClassDef):
            return [scope]
        own = scope.file.functions.get(f"{scope.name}.__init__")
        return [own] if own is not None else self._inherited(scope, "__init__")

    def _inherited(self, scope: Scope, name: str) -> list[Scope]:
        """The method of a name that the first of the base classes with one has, in depth."""
        waiting, seen = [*self.bases(scope)], {scope}
        while waiting:
            base = waiting.pop(0)
            own = base.file.functions.get(f"{base.name}.{name}")
            if own is not None:
                return [own]
            if base not in seen:
                seen.add(base)
                waiting[:0] = self.bases(base)
        return []

    def bases(self, scope: Scope) -> Iterator[Scope]:
        """The base classes of a class that are in the program."""
        for base in scope.node.bases:  # type: ignore[attr-defined]
            full = scope.file.dotted(base)
            for one in self.defined(full, scope.file) if full is not None else ():
                if isinstance(one.node, ast.ClassDef) and one is not scope:
                    yield one

    @cached_property
    def _families(self) -> dict[Scope, Scope]:
        """One class of each hierarchy, for all classes of it."""
        root: dict[Scope, Scope] = {}

        def find(one: Scope) -> Scope:
            while root.setdefault(one, one) is not one:
                one = root[one]
            return one

        for scope in (one for file in self.files for one in file.classes):
            for base in self.bases(scope):
                root[find(scope)] = find(base)
        return {one: find(one) for one in list(root)}

    def are_related(self, one: Scope | None, other: Scope | None) -> bool:
        """True for classes of one hierarchy."""
        if one is None or other is None:
            return False
        return self._families.get(one, one) is self._families.get(other, other)

    def given(self, scope: Scope, call: ast.Call, callee: Scope) -> dict[str, ast.expr]:
        """The arguments of a call by the names of the callee's parameters, as far as they are written down."""
        whole = written_out(scope, call)
        names = [one.arg for one in parameters(callee.node)][is_bound(scope, whole.func, callee) :]
        found: dict[str, ast.expr] = {}
        for name, arg in zip(names, whole.args, strict=False):
            if isinstance(arg, ast.Starred):
                break
            found[name] = arg
        return found | {one.arg: one.value for one in whole.keywords if one.arg is not None}


def written_out(scope: Scope, call: ast.Call) -> ast.Call:
    """`f(x, y)` for `part(y)` after `part = partial(f, x)`, and `f(x)` for that `partial(f, x)`; other calls as they
    are.
    """
    bound = _bound_by_partial(scope, call.func)
    if bound is not None:
        return ast.Call(bound.args[0], [*bound.args[1:], *call.args], [*bound.keywords, *call.keywords])
    return ast.Call(call.args[0], call.args[1:], call.keywords) if is_partial(scope, call) else call


def _bound_by_partial(scope: Scope, func: ast.expr) -> ast.Call | None:
    """The `partial(f, x)` that is all that a name is given, in the same function."""
    home, made = scope.sole(func) or (None, None)
    return made if home is scope and isinstance(made, ast.Call) and is_partial(scope, made) else None


def is_partial(scope: Scope, call: ast.Call) -> bool:
    """True for `partial(f, x)`."""
    return bool(call.args) and scope.file.dotted(call.func) in _PARTIAL


def is_bound(scope: Scope, func: ast.expr, callee: Scope) -> bool:
    """True where Python itself gives the first parameter of a callee."""
    if callee.parent is None or not isinstance(callee.parent.node, ast.ClassDef):
        return False
    kinds = {ast.unparse(one) for one in getattr(callee.node, "decorator_list", ())}
    if "staticmethod" in kinds:
        return False
    by_class = isinstance(func, ast.Attribute) and scope.file.dotted(func.value) is not None
    return "classmethod" in kinds or callee.name.endswith("__init__") or not by_class


def _is_super(func: ast.expr) -> bool:
    """True for `super().method`, which is never the class's own."""
    base = func.value if isinstance(func, ast.Attribute) else None
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"


def fits(call: ast.Call, callee: Scope, *, is_bound: bool) -> bool:
    """True where a function takes the arguments of a call; starred ones may be anything."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return True
    takes = callee.signature
    positional = takes.positional[is_bound:]
    by_place, names = positional[: len(call.args)], {one.arg for one in call.keywords}
    return (
        (len(call.args) <= len(positional) or takes.more_args)
        and (takes.more_keywords or names <= {*positional, *takes.keywords})
        and names.isdisjoint(by_place)
        and takes.required - set(takes.positional[:is_bound]) <= {*by_place, *names}
    )


class Carriers:
    """What may hold a value of one kind: names, attributes, keys of dicts, and the results of functions.

    `is_source` tells for an expression whether it makes such a value; a name is asked for only where `by_name`.
    `is_empty` says that nothing makes one.
    """

    def __init__(
        self,
        flow: Flow,
        is_source: Callable[[File, ast.expr], bool],
        found: Collection[object] = (),
        *,
        by_name: bool = False,
    ) -> None:
        self.flow = flow
        self.is_source = is_source
        self.by_name = by_name
        self.found: set[object] = set()  # (scope, name), an attribute's name, [key], (scope, index) of a result
        self._words: set[object] = set()  # the names and attributes among them
        self._add(found)
        calls = ((file, call) for file in flow.files for _, call in file.calls)
        self.is_empty = not (self.found or by_name or any(is_source(*one) for one in calls))
        before = -1
        while not self.is_empty and before != (before := len(self.found)):
            self._grow()

    def holds(self, scope: Scope, node: ast.expr) -> bool:
        """True where an expression may be such a value."""
        if self.is_empty:
            return False
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if self.by_name and self.is_source(scope.file, node):
                return True
            word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "[]"
            return word in self._words and key_of(scope, node) in self.found and not self._is_option(node)
        if isinstance(node, ast.IfExp):
            return self.holds(scope, node.body) or self.holds(scope, node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(self.holds(scope, one) for one in node.values)
        if isinstance(node, ast.NamedExpr):
            return self.holds(scope, node.value)
        if isinstance(node, ast.Call):
            return self.is_source(scope.file, node) or self._results(scope, node, None)
        return False

    def _add(self, keys: Iterable[object]) -> None:
        for key in keys:
            self.found.add(key)
            is_item = isinstance(key, str) and key.startswith("[")
            self._words.add("[]" if is_item else key[1] if isinstance(key, tuple) else key)

    @property
    def words(self) -> set[str]:
        """The identifiers in what holds such a value; of the result of a function its name."""
        keys = [one if isinstance(one, tuple) else (None, one) for one in self.found]
        texts = [
            word if isinstance(word, str) else scope.name for scope, word in keys if scope or isinstance(word, str)
        ]
        return {word for text in texts for word in re.findall(r"\w+", text)}

    def _is_option(self, node: ast.expr) -> bool:
        """True for `args.amp` where there is an option of that name, and the value is kept in another object."""
        if not isinstance(node, ast.Attribute) or node.attr not in self.flow.options:
            return False
        base = ast.unparse(node.value)
        return base != "self" and (base, node.attr) not in self.found

    def _results(self, scope: Scope, call: ast.Call, index: int | None) -> bool:
        return bool(self.found) and any((one, index) in self.found for one in self.flow.callees(scope, call))

    def _grow(self) -> None:
        for file in self.flow.files:
            for scope, target, value in file.assigned:
                self._assign(scope, target, value)
            for scope, value in file.returned:
                elements = list(enumerate(value.elts)) if isinstance(value, ast.Tuple) else []
                self._add((scope.function, at) for at, one in [(None, value), *elements] if self.holds(scope, one))
            for scope, call in file.calls:
                if any(self.holds(scope, one) for one in [*call.args, *(one.value for one in call.keywords)]):
                    for callee in self.flow.callees(scope, call):
                        given = self.flow.given(scope, call, callee).items()
                        self._add((callee, name) for name, arg in given if self.holds(scope, arg))

    def _assign(self, scope: Scope, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, its in zip(target.elts, value.elts, strict=True):
                    self._assign(scope, one, its)
            elif isinstance(value, ast.Call):
                held = [one for at, one in enumerate(target.elts) if self._results(scope, value, at)]
                self._add(key_of(scope, one) for one in held)
        elif self.holds(scope, value):
            self._add([key_of(scope, target)])
            if isinstance(target, ast.Attribute):
                self._add([(ast.unparse(target.value), target.attr)])
        elif isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            self._add(f"[{ast.unparse(key)}]" for key, one in pairs if key is not None and self.holds(scope, one))

    # -- what may be None as well -----------------------------------------------------------------------

    def may_be_none(self, scope: Scope, node: ast.expr) -> bool:
        """True where what may hold such a value is given None somewhere, or nothing where it need not be."""
        return key_of(scope, node) in self._optional

    @cached_property
    def _optional(self) -> set[object]:
        found: set[object] = set()
        before = -1
        while before != (before := len(found)):
            for file in self.flow.files:
                for scope, target, value in file.assigned:
                    if _is_optional(scope, value, found) and self.holds(scope, target):
                        found.add(key_of(scope, target))
                for scope, call in file.calls:
                    for callee in self.flow.callees(scope, call):
                        given = self.flow.given(scope, call, callee)
                        for name in callee.bound if isinstance(callee.node, Def) else ():
                            if (callee, name) in self.found:
                                held = given.get(name) or default_of(callee.node, name)
                                if held is not None and _is_optional(scope, held, found):
                                    found.add((callee, name))
        return found


def key_of(scope: Scope, node: ast.expr) -> object:
    """What tells one variable, attribute or key of a dict from others; None for other expressions."""
    if isinstance(node, ast.Name):
        return scope.binding(node.id), node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return f"[{ast.unparse(node.slice)}]" if isinstance(node, ast.Subscript) else None


def _is_optional(scope: Scope, node: ast.expr, found: set[object]) -> bool:
    if isinstance(node, ast.IfExp):
        return any(_is_optional(scope, one, found) for one in (node.body, node.orelse))
    if isinstance(node, ast.Constant):
        return node.value is None
    return isinstance(node, (ast.Name, ast.Attribute)) and key_of(scope, node) in found
