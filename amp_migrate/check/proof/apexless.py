"""The world without Apex: what a migrated program does where every `import apex` fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.check.proof.flow import Flow
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import File, Program, Scope, imports_amp, imports_of
from amp_migrate.check.proof.result import Assumption, Breach
from amp_migrate.check.proof.worlds import Keys, World

_EXITS = ("exit", "quit", "sys.exit", "os._exit")


def without_apex(before: Program, there: Program, gone: Program, changed: set[str]) -> Iterator[Breach | Assumption]:
    """What stops the programs of the changed files: imports, raises, assertions, exits, and names that are missing.
    What Apex has beside amp may be needed on purpose: that is assumed. So may its amp be in a file that stays, where
    none of the changed ones had it, or has native AMP.
    """
    paths = _imported(gone, changed)
    has_own = any(file.module.partition(".")[0] == "apex" for file in gone.files.values())
    if has_own or not any(b"apex" in gone.files[path].source for path in paths):
        return
    files = [before.files[path] for path in changed & before.files.keys()]
    nodes = ((file, node) for file in files if file.tree is not None for node in walk(file.tree))
    has_amp = any(imports_amp(*one) for one in nodes) or any(b"autocast" in gone.files[path].source for path in changed)
    run = _Walk(gone, there, paths, None if has_amp else changed)
    for scope in run.live(changed):
        yield from run.function(scope)


def _imported(program: Program, start: set[str]) -> set[str]:
    """The files that some files import, directly or through others; themselves included."""
    found, waiting = set(start), list(start)
    while waiting:
        file = program.files[waiting.pop()]
        for scope in file.functions.values() if file.tree is not None else ():
            for names in list(scope.bound.values()):
                for full in (one for one in names if isinstance(one, str)):
                    for end in range(full.count(".") + 1):
                        there = program.module(full.rsplit(".", end)[0], file)
                        if there is not None and there.path not in found:
                            found.add(there.path)
                            waiting.append(there.path)
        for star in file.stars:
            there = program.module(star, file)
            if there is not None and there.path not in found:
                found.add(there.path)
                waiting.append(there.path)
    return found


class _Walk:
    """Statements as they run where Apex is not there; only the files that are `freed` have to do without its amp."""

    def __init__(self, gone: Program, there: Program, paths: set[str], freed: set[str] | None) -> None:
        self.flow = Flow(gone, paths)
        self.world = World(Keys(self.flow), {}, lambda scope, node: "", None)
        self.with_apex = World(Keys(Flow(there, paths)), {}, lambda scope, node: "", None)
        self.there = there
        self.freed = paths if freed is None else freed

    def live(self, changed: set[str]) -> list[Scope]:
        """The modules, the functions of the changed files, and what these call themselves."""
        found = [one for one in self.flow.functions if not one.name or one.file.path in changed]
        calls = [one for file in self.flow.files if file.path in changed for one in file.calls]
        return list(dict.fromkeys([*found, *(callee for one in calls for callee in self.flow.certain(*one))]))

    def function(self, scope: Scope) -> Iterator[Breach | Assumption]:
        yield from self._block(scope, scope.body if hasattr(scope.node, "body") else [], because=False)

    def _block(self, scope: Scope, statements: Sequence[ast.stmt], *, because: bool) -> Iterator[Breach | Assumption]:
        for one in statements:
            yield from self._statement(scope, one, because)
            if isinstance(one, (ast.Return, ast.Raise)):
                break

    def _statement(self, scope: Scope, node: ast.stmt, because: bool) -> Iterator[Breach | Assumption]:
        """`because` says that the statement runs since Apex is not there."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if imports_of(node, "apex"):
                yield self._import(scope, node)
        elif isinstance(node, ast.If):
            answer = self.world.truth(scope, node.test)
            yield from self._names(scope, node.test)
            other = None if answer is None else self._truth_with_apex(scope, node)
            if answer is not False:
                yield from self._block(scope, node.body, because=because or (answer is True and other is False))
            if answer is not True:
                yield from self._block(scope, node.orelse, because=because or (answer is False and other is True))
        elif isinstance(node, ast.Try):
            tries = any(imports_amp(scope.file, one) for one in node.body)
            yield from self._block(scope, [] if tries else [*node.body, *node.orelse], because=because)
            for handler in node.handlers if tries else ():
                yield from self._block(scope, handler.body, because=True)
            yield from self._block(scope, node.finalbody, because=because)
        elif isinstance(node, ast.Assert):
            if self.world.truth(scope, node.test) is False and self._truth_with_apex(scope, node) is not False:
                yield self._breach(scope, node, "this assertion fails where Apex is not installed")
        else:
            if because and _stops(node):
                yield self._breach(scope, node, "this runs where Apex is not installed, and stops the program")
            for field, value in ast.iter_fields(node):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    yield from self._block(scope, value, because=because)
                elif field not in ("body", "orelse", "finalbody", "handlers"):
                    for part in value if isinstance(value, list) else [value]:
                        if isinstance(part, ast.AST):
                            yield from self._names(scope, part)

    def _truth_with_apex(self, scope: Scope, node: ast.If | ast.Assert) -> bool | None:
        """The answer of the same test where Apex is there."""
        file = self.there.files[scope.file.path]
        twin = file.functions.get(scope.name) if file.tree is not None else None
        for one in walk(twin.node) if twin is not None else ():
            if twin is not None and isinstance(one, (ast.If, ast.Assert)) and one.lineno == node.lineno:
                return self.with_apex.truth(twin, one.test)
        return None

    def _names(self, scope: Scope, node: ast.AST) -> Iterator[Breach | Assumption]:
        """Names that only the import of Apex, or what stands beside it, would bind; not in arms that do not run."""
        if isinstance(node, ast.IfExp) and (answer := self.world.truth(scope, node.test)) is not None:
            yield from self._names(scope, node.body if answer else node.orelse)
            return
        if isinstance(node, ast.BoolOp):
            for one in node.values:
                yield from self._names(scope, one)
                if self.world.truth(scope, one) == isinstance(node.op, ast.Or):
                    return
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node in scope.file.scope_of:
            if scope.file.scope_of[node].binding(node.id) is None and self._is_bound_with_apex(scope.file, node):
                yield self._breach(scope, node, f"`{node.id}` is not defined where Apex is not installed")
        for child in ast.iter_child_nodes(node):
            yield from self._names(scope, child)

    def _is_bound_with_apex(self, file: File, node: ast.Name) -> bool:
        other = self.there.files[file.path]
        return (
            other.tree is not None and node.id in other.functions[""].bound and node.id not in file.functions[""].bound
        )

    def _import(self, scope: Scope, node: ast.Import | ast.ImportFrom) -> Breach | Assumption:
        names = [one.name for one in node.names]
        if imports_amp(scope.file, node):
            return self._breach(scope, node, "this import fails where Apex is not installed", ", ".join(names))
        return Assumption(scope.file.path, node.lineno, f"Apex is installed, for {', '.join(names)}")

    def _breach(self, scope: Scope, node: ast.AST, message: str, needed: str = "amp") -> Breach | Assumption:
        line: int = node.lineno  # type: ignore[attr-defined]
        if scope.file.path not in self.freed:
            return Assumption(scope.file.path, line, f"Apex is installed, for {needed}")
        return Breach(
            "needs Apex", scope.file.path, scope.name, None, (line, scope.file.lines[line - 1].strip()), message
        )


def _stops(node: ast.stmt) -> bool:
    """True for a raise, and for a call that ends the program."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.Raise) or (isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS)
