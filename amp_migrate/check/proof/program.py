"""The files of a program as the proof reads them: syntax, scopes, and what a name stands for. Python's `ast` only."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from amp_migrate.check.proof.nodes import children, handler, walk
from amp_migrate.files.syntax import parsed

Def = (ast.FunctionDef, ast.AsyncFunctionDef)
BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__path__", "__class__"}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_MODERN = (2, 4)  # the torch in whose world both programs run


class Signature(NamedTuple):
    """The parameters of a function by their names; the `required` ones have no default."""

    positional: list[str]
    keywords: list[str]
    required: frozenset[str]
    more_args: bool
    more_keywords: bool


class References:
    """The names and attributes in some code."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        parts = [one for node in nodes for one in walk(node)]
        self.names = frozenset([one.id for one in parts if isinstance(one, ast.Name)])
        self.attributes = [one for one in parts if isinstance(one, ast.Attribute)]


class Scope:
    """One namespace: a module, class, function, lambda or comprehension.

    `bound` has for each name what gives it a value: the dotted path of an import, a definition, a parameter, the
    expression that is assigned, or a statement where the value is not written down (a loop, an unpacking).
    """

    def __init__(self, file: File, node: ast.AST, parent: Scope | None, name: str) -> None:
        self.file = file
        self.node = node
        self.parent = parent
        self.name = name  # qualified; empty for the module
        self.bound: dict[str, list[str | ast.AST]] = defaultdict(list)
        self.elsewhere: dict[str, Scope] = {}  # names that are declared global or nonlocal

    def binding(self, name: str) -> Scope | None:
        """The scope that a name belongs to when it is read here; None for builtins and what a star import brings."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.elsewhere:
                return scope.elsewhere[name]
            if name in scope.bound and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope = scope.parent
        return None

    def sole(self, node: ast.AST) -> tuple[Scope, ast.AST] | None:
        """What alone gives a name that is read here its value, with the scope that the name belongs to; None for what
        is no name, for one with several values, and for imports.
        """
        home = self.binding(node.id) if isinstance(node, ast.Name) else None
        bound = home.bound[node.id] if home is not None and isinstance(node, ast.Name) else []
        value = bound[0] if len(bound) == 1 else None
        return (home, value) if home is not None and isinstance(value, ast.AST) else None

    @property
    def owner(self) -> Scope | None:
        """The class whose body this scope stands in, at whatever depth."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope

    @property
    def function(self) -> Scope:
        """The function or module around; itself for these."""
        scope = self
        while scope.parent is not None and not isinstance(scope.node, Def):
            scope = scope.parent
        return scope

    @cached_property
    def signature(self) -> Signature:
        """What a function or lambda takes."""
        args: ast.arguments = self.node.args  # type: ignore[attr-defined]
        positional = [one.arg for one in (*args.posonlyargs, *args.args)]
        keywords = [one.arg for one in args.kwonlyargs]
        required = frozenset(one for one in [*positional, *keywords] if default_of(self.node, one) is None)
        return Signature(positional, keywords, required, args.vararg is not None, args.kwarg is not None)

    @cached_property
    def references(self) -> References:
        """What this scope, and those inside of it, refer to."""
        return References([self.node])

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of a function or module."""
        return self.node.body  # type: ignore[attr-defined,no-any-return]


class File:
    """One file: `path` as people know it, `module` its dotted name from the root of the tree."""

    def __init__(self, program: Program, path: str, source: bytes) -> None:
        self.program = program
        self.path = path
        self.source = source
        parts = re.sub(r"\.(py|ipynb)$", "", path.replace("\\", "/")).strip("/").split("/")
        self.package = ".".join(parts[:-1])
        self.module = self.package if parts[-1] == "__init__" else ".".join(parts)
        self.scope_of: dict[ast.AST, Scope] = {}  # of a name where it stands; of what makes a scope, that scope
        self.functions: dict[str, Scope] = {}  # by qualified name; the module is ""
        self.classes: list[Scope] = []
        self.stars: list[str] = []  # what it imports everything from
        self.calls: list[tuple[Scope, ast.Call]] = []  # each with the scope that it stands in
        self.assigned: list[tuple[Scope, ast.expr, ast.expr]] = []  # scope, target, value
        self.returned: list[tuple[Scope, ast.expr]] = []
        self._dotted: dict[ast.AST, str | None] = {}

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax, all names bound; None where Python cannot parse it."""
        try:
            tree = parsed(self.source)
            _Binder(self).module(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return tree

    @cached_property
    def lines(self) -> list[str]:
        return self.source.decode("utf-8", "replace").split("\n")

    def dotted(self, node: ast.AST) -> str | None:
        """The full name of what an expression refers to, by way of imports and of definitions at the top of a file;
        None for everything else.
        """
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        if node not in self._dotted:
            self._dotted[node] = self._found(node)
        return self._dotted[node]

    def _found(self, node: ast.Name | ast.Attribute) -> str | None:
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return self.program.full_name(f"{base}.{node.attr}", self) if base is not None else None
        scope = self.scope_of.get(node)
        if scope is None:
            return None
        home = scope.binding(node.id)
        if home is None:
            return self.of_star(node.id) if self.stars and node.id not in BUILTINS else None
        for one in home.bound[node.id]:
            if isinstance(one, str):
                return self.program.full_name(one, self)
            if isinstance(one, (ast.ClassDef, *Def)) and home.parent is None:
                return f"{self.module}.{node.id}"
        return None

    def called(self, func: ast.AST) -> str | None:
        """The full name of what is called, by a variable as well: `autocast = torch.cuda.amp.autocast`."""
        scope = self.scope_of.get(func)
        sole = scope.sole(func) if scope is not None else None
        return self.dotted(sole[1] if sole is not None and isinstance(sole[1], ast.Attribute) else func)

    def base_of(self, node: ast.ImportFrom) -> str:
        """The full name of the module that a `from` import is about."""
        return self.absolute("." * node.level + (node.module or ""))

    def absolute(self, dotted: str) -> str:
        """The full name of a module as an import of this file writes it, with a dot for each level."""
        bare = dotted.lstrip(".")
        level = len(dotted) - len(bare)
        package = self.package.split(".") if self.package else []
        above = package[: len(package) - level + 1] if level else []
        return ".".join([*above, *([bare] if bare else [])])

    def of_star(self, name: str) -> str:
        """What a name means that a star import brings: of a file at hand that binds it, else of the last one."""
        files = [(star, self.program.module(star, self)) for star in self.stars]
        for star, file in files:
            if file is not None and self.program.definition(f"{star}.{name}", self) is not None:
                return self.program.full_name(f"{star}.{name}", self)
        for _, file in files:  # what a file at hand has from star imports of its own
            if file is not None and file is not self and file.tree is not None and file.stars:
                return file.of_star(name)
        outside = [star for star, file in files if file is None]
        return f"{(outside or self.stars)[-1]}.{name}"


class Program:
    """Some files, and the definitions in them by dotted name. Files that do not parse have none.

    `with_apex` is false for the world in which every `import apex` fails.
    """

    def __init__(self, sources: Mapping[str, bytes], *, with_apex: bool = True) -> None:
        self.with_apex = with_apex
        self.files = {path: File(self, path, source) for path, source in sources.items()}
        self._by_last: dict[str, list[File]] = defaultdict(list)  # the files by the last part of their names
        for file in self.files.values():
            self._by_last[file.module.rpartition(".")[2]].append(file)
        self._modules: dict[tuple[str, str], File | None] = {}
        self._definitions: dict[tuple[str, str], tuple[Scope, str] | None] = {}

    def module(self, dotted: str, near: File) -> File | None:
        """The file of a module as `near` imports it: below one of its own folders, else by the end of its name, where
        only one has that, or one is nearer than the others.
        """
        key = dotted, near.package
        if key not in self._modules:
            files = {file.module: file for file in self._by_last.get(dotted.rpartition(".")[2], ())}
            above = (
                [near.package.rsplit(".", depth)[0] for depth in range(near.package.count(".") + 1)] if files else []
            )
            here = (files.get(f"{folder}.{dotted}".strip(".")) for folder in [*above, ""])
            ending = [file for name, file in files.items() if name.endswith(f".{dotted}")]
            shared = [_in_common(file.package.split("."), near.package.split(".")) for file in ending]
            nearest = [file for file, count in zip(ending, shared, strict=True) if count == max(shared)]
            self._modules[key] = next(filter(None, here), nearest[0] if len(nearest) == 1 else None)
        return self._modules[key]

    def full_name(self, dotted: str, near: File) -> str:
        """A name by where it is defined: files of the program that only hand an import on are passed through."""
        found = self.definition(dotted, near)
        bound = found[0].bound[found[1]][0] if found is not None else None
        return bound if isinstance(bound, str) else dotted

    def definition(self, dotted: str, near: File) -> tuple[Scope, str] | None:
        """Where a dotted name is bound: the scope of a module or class of these files, and its name there; of a name
        that is imported from outside the last file that does so.
        """
        key = dotted, near.package
        if key not in self._definitions:
            self._definitions[key] = None  # for files that import a name from each other
            parts = dotted.split(".")
            for cut in range(len(parts) - 1, 0, -1):
                file = self.module(".".join(parts[:cut]), near)
                if file is not None:  # the longest module has it, or nothing has
                    self._definitions[key] = self._member(file, parts[cut:], set())
                    break
        return self._definitions[key]

    def _member(self, file: File, names: list[str], seen: set[File]) -> tuple[Scope, str] | None:
        """A name, or a name in a class, of a file or of what it imports everything from."""
        if file in seen or file.tree is None:
            return None
        seen.add(file)
        scope = file.functions[""]
        while len(names) > 1 and (below := _class_in(scope, names[0])) is not None:
            scope, names = below, names[1:]
        bound = scope.bound.get(names[0], [])
        here = (scope, names[0]) if bound and len(names) == 1 else None
        if bound and isinstance(bound[0], str):
            return self.definition(".".join([bound[0], *names[1:]]), file) or here
        others = (self.module(star, file) for star in file.stars) if here is None else ()
        return here or next(filter(None, (self._member(one, names, seen) for one in others if one is not None)), None)


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths begin with together."""
    pairs = list(zip(one, other, strict=False))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))


def _class_in(scope: Scope, name: str) -> Scope | None:
    classes = [one for one in scope.bound.get(name, ()) if isinstance(one, ast.ClassDef)]
    return scope.file.scope_of[classes[0]] if classes else None


def parameters(function: ast.AST) -> list[ast.arg]:
    """The parameters of a function or lambda in their order, starred ones included."""
    args: ast.arguments = function.args  # type: ignore[attr-defined]
    stars = [one for one in (args.vararg,) if one is not None]
    last = [one for one in (args.kwarg,) if one is not None]
    return [*args.posonlyargs, *args.args, *stars, *args.kwonlyargs, *last]


def default_of(function: ast.AST, name: str) -> ast.expr | None:
    """The default of a parameter; None where it has none."""
    args: ast.arguments = function.args  # type: ignore[attr-defined]
    pairs = [*zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value is not None]
    return next((value for one, value in pairs if one.arg == name), None)


def imports_of(node: ast.AST, *packages: str) -> bool:
    """True for an import of one of these packages."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] in packages
    return isinstance(node, ast.Import) and any(one.name.partition(".")[0] in packages for one in node.names)


def imports_amp(file: File, node: ast.AST) -> bool:
    """True for an import of Apex for its amp, or to know whether it is there; what it has besides may be kept."""
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{one.name}" for one in node.names]
    elif isinstance(node, ast.Import):
        names = [one.name for one in node.names]
    else:
        return False
    if any(f"{name}.".startswith(("apex.amp.", "apex.fp16_utils.")) for name in names):
        return True
    used = re.findall(rb"\bapex\.(\w+)", file.source) if "apex" in names else []
    return "apex" in names and (not used or bool({b"amp", b"fp16_utils"} & set(used)))


def is_modern(test: ast.expr) -> bool | None:
    """The answer of a test of torch's version where native AMP is there; None for other tests."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = is_modern(test.operand)
        return None if answer is None else not answer
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or "torch.__version__" not in ast.unparse(test.left):
        return None
    asked = [int(one) for one in re.findall(r"\d+", ast.unparse(test.comparators[0]))]
    is_newer = isinstance(test.ops[0], (ast.Gt, ast.GtE))
    return ((*asked, 0)[:2] < _MODERN) == is_newer if asked else None


class _Binder:
    """Fills in the scopes of a file. The names of a scope are known before a function in it is entered, as Python has
    it, so that what a function reads may be bound below it.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.scope = Scope(file, ast.Module([], []), None, "")
        self.waiting: list[tuple[list[ast.AST], Scope]] = []
        self.depth = 0  # of statements that may not run

    def module(self, tree: ast.Module) -> None:
        self.scope.node = tree
        self.file.functions[""] = self.file.scope_of[tree] = self.scope
        self._visit_all(tree.body)
        while self.waiting:
            nodes, self.scope = self.waiting.pop()
            self._visit_all(nodes)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        known = handler(_Binder, type(node))
        if known is not None:
            known(self, node)
        else:
            self._visit_all(children(node))

    def _perhaps(self, nodes: Sequence[ast.AST]) -> None:
        self.depth += 1
        self._visit_all(nodes)
        self.depth -= 1

    def _aside(self, nodes: Sequence[ast.AST]) -> None:
        """Statements of another program than the one that is looked at: what they bind is not seen from outside."""
        outer, self.scope = self.scope, Scope(self.file, self.scope.node, self.scope, self.scope.name)
        self._visit_all(nodes)
        self.scope = outer

    # -- what binds a name ------------------------------------------------------------------------------

    def _bind(self, target: ast.AST | None, value: ast.AST) -> None:
        """A name gets a value; elements of an unpacking get theirs where it is written down."""
        if isinstance(target, ast.Name):
            bound = self._home(target.id).bound[target.id]
            if not self.depth and self.scope.parent is None and all(isinstance(one, ast.Constant) for one in bound):
                bound.clear()  # a flag of the module that is certainly set once more
            bound.append(value)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            same = len(values) == len(target.elts) and not any(isinstance(one, ast.Starred) for one in values)
            for index, one in enumerate(target.elts):
                self._bind(one, values[index] if same else self._part(value, index) or target)

    def _part(self, value: ast.AST, index: int) -> ast.AST | None:
        """What is unpacked from an entry of a table: `TRAINERS[name][0]` of `train, test = TRAINERS[name]`."""
        if isinstance(value, (ast.Subscript, ast.IfExp)):
            return ast.copy_location(ast.Subscript(value, ast.Constant(index), ast.Load()), value)
        return None

    def _home(self, name: str) -> Scope:
        scope = self.scope
        while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None and name not in scope.bound:
            scope = scope.parent  # a walrus in a comprehension binds outside of it
        return scope.elsewhere.get(name, scope)

    def _give(self, name: str, value: str | ast.AST) -> None:
        self._home(name).bound[name].append(value)

    def _Name(self, node: ast.Name) -> None:
        self.file.scope_of[node] = self.scope

    def _Call(self, node: ast.Call) -> None:
        self.file.calls.append((self.scope, node))
        self._visit_all(children(node))

    def _Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.file.returned.append((self.scope, node.value))
            self._visit(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
            self.file.assigned.append((self.scope, target, node.value))
        self._visit_all([node.value, *node.targets])

    def _AnnAssign(self, node: ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._bind(node.target, node.value)
            self.file.assigned.append((self.scope, node.target, node.value))
        self._visit_all([node.value, node.target])

    _NamedExpr = _AnnAssign

    def _AugAssign(self, node: ast.AugAssign) -> None:
        self._bind(node.target, node)
        self._visit_all([node.value, node.target])

    def _For(self, node: ast.For) -> None:
        self._bind(node.target, node)
        self._visit_all([node.iter, node.target])
        self._perhaps([*node.body, *node.orelse])

    _AsyncFor = _For

    def _While(self, node: ast.While) -> None:
        self._visit(node.test)
        self._perhaps([*node.body, *node.orelse])

    def _If(self, node: ast.If) -> None:
        self._visit(node.test)
        answer = is_modern(node.test)
        if answer is None:
            self._perhaps([*node.body, *node.orelse])
        else:
            self._visit_all(node.body if answer else node.orelse)
            self._aside(node.orelse if answer else node.body)

    def _Try(self, node: ast.Try) -> None:
        """Where Apex is imported, its handlers run in the world without it, what follows the import in the others."""
        if any(imports_of(one, "apex", "torch") for one in node.body):
            gone = not self.file.program.with_apex and any(imports_amp(self.file, one) for one in node.body)
            self._aside([*node.body, *node.orelse] if gone else node.handlers)
            self._visit_all(node.handlers if gone else [*node.body, *node.orelse])
        else:
            self._visit_all([*node.body, *node.orelse])
            self._perhaps(node.handlers)
        self._visit_all(node.finalbody)

    def _withitem(self, node: ast.withitem) -> None:
        self._bind(node.optional_vars, node)
        self._visit_all([node.context_expr, node.optional_vars])

    def _ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._give(node.name, node)
        self._visit_all([node.type, *node.body])

    def _MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._give(node.name, node)
        self._visit_all(children(node))

    _MatchStar = _MatchAs

    def _Import(self, node: ast.Import) -> None:
        for one in node.names:
            name = one.asname or one.name.partition(".")[0]
            self._give(name, one.name if one.asname else name)

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.file.base_of(node)
        for one in node.names:
            if one.name == "*":
                self.file.stars.append(base)
            else:
                self._give(one.asname or one.name, f"{base}.{one.name}" if base else one.name)

    def _Global(self, node: ast.Global) -> None:
        """An import may stand before it: `from apex import amp`, then `global amp`."""
        home = self.file.functions[""]
        for name in node.names:
            self.scope.elsewhere[name] = home
            if self.scope is not home and self.scope.bound.get(name):
                home.bound[name] += self.scope.bound.pop(name)

    def _Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            home = self.scope.parent.binding(name) if self.scope.parent is not None else None
            if home is not None:
                self.scope.elsewhere[name] = home

    # -- what makes a scope -----------------------------------------------------------------------------

    def _below(self, node: ast.AST, name: str) -> Scope:
        scope = Scope(self.file, node, self.scope, f"{self.scope.name}.{name}" if self.scope.name else name)
        self.file.scope_of[node] = scope
        return scope

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        self._give(node.name, node)
        around = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns]
        self._visit_all([*around, *(one.annotation for one in parameters(node))])
        scope = self._below(node, node.name)
        while scope.name in self.file.functions:
            scope.name += "'"  # defined once more
        self.file.functions[scope.name] = scope
        self._enter(scope, node, node.body)

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda) -> None:
        self._visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._enter(self._below(node, "<lambda>"), node, [node.body])

    def _enter(self, scope: Scope, node: ast.AST, body: Sequence[ast.AST]) -> None:
        for one in parameters(node):
            scope.bound[one.arg].append(one)
        self.waiting.append((list(body), scope))

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self._give(node.name, node)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        outer, self.scope = self.scope, self._below(node, node.name)
        self.file.classes.append(self.scope)
        self._visit_all(node.body)
        self.scope = outer

    def _elements(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        outer, self.scope = self.scope, self._below(node, "<comprehension>")
        for one in node.generators:
            for name in walk(one.target):
                if isinstance(name, ast.Name):
                    self.scope.bound[name.id].append(one)
        self._visit_all(children(node))
        self.scope = outer

    _ListComp = _SetComp = _GeneratorExp = _DictComp = _elements
