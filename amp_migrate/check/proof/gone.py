"""Resolution over the tree: what the change removed, renamed or gave another signature is used nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.check.proof.flow import Flow, fits, is_bound, is_partial, written_out
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import BUILTINS, File, Program, Scope
from amp_migrate.check.proof.result import Breach
from amp_migrate.check.proof.worlds import Keys

Lost = dict[str, set[str]]  # names at the top of a file, by its path


def resolution(before: Program, after: Program, changed: set[str]) -> Iterator[Breach]:
    """Uses in all files of what the changed ones do not have any more."""
    yield from _unbound(before, after, changed)
    lost = {path: _tops(before, path) - _tops(after, path) for path in changed}
    words = {name for names in lost.values() for name in names} | {
        after.files[path].module.rpartition(".")[2] for path in lost
    }
    for file in _with_words(after, words) if any(lost.values()) else ():
        yield from _of_modules(file, after, lost)
    yield from _members(before, after, changed)
    yield from _signatures(before, after, changed)


def _with_words(program: Program, words: set[str]) -> Iterator[File]:
    """The files that hold one of some words, and parse; none holds the name of a module that is no UTF-8."""
    encoded = (re.escape(word.encode("utf-8", "surrogatepass")) for word in sorted(words))
    pattern = re.compile(rb"(?<![\w\x80-\xff])(?:%s)(?![\w\x80-\xff])" % b"|".join(encoded))  # \b is for ASCII only
    for file in program.files.values():
        if words and pattern.search(file.source) and file.tree is not None:
            yield file


def _tops(program: Program, path: str) -> set[str]:
    file = program.files.get(path)
    return set(file.functions[""].bound) if file is not None and file.tree is not None else set()


def _unbound(before: Program, after: Program, changed: set[str]) -> Iterator[Breach]:
    """Names in the changed files that nothing binds any more; what only a star import may have brought, one of Apex has
    if it is among its exports.
    """
    for path in changed:
        old, new = before.files.get(path), after.files[path]
        known = {name for name, _ in _free(old)} if old is not None else set()
        if old is not None and old.stars:
            known -= {name for star in old.stars for name in APEX_EXPORTS.get(star, ())}
        for name, node in _free(new) if not new.stars else ():
            if name not in known:
                known.add(name)
                yield _breach(new, node, f"`{name}` is not defined")


def _free(file: File) -> Iterator[tuple[str, ast.Name]]:
    for node, scope in file.scope_of.items() if file.tree is not None else ():
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            if node.id not in BUILTINS and scope.binding(node.id) is None:
                yield node.id, node


def _of_modules(file: File, after: Program, lost: Lost) -> Iterator[Breach]:
    """`from module import name` and `module.name` of names that are lost."""
    assert file.tree is not None
    names = {name for missing in lost.values() for name in missing}
    for node in walk(file.tree):
        if isinstance(node, ast.ImportFrom) and not names.isdisjoint(one.name for one in node.names):
            base = file.base_of(node)
            there = after.module(base, file) if base else None
            missing = lost.get(there.path, ()) if there is not None else ()
            for one in node.names:
                if there is not None and one.name in missing and not after.module(f"{base}.{one.name}", file):
                    yield _breach(file, node, f"{there.path} has no `{one.name}` any more")
        elif isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load):
            there = after.module(file.dotted(node.value) or "", file)
            if there is not None and node.attr in lost.get(there.path, ()):
                yield _breach(file, node, f"{there.path} has no `{node.attr}` any more")


def _members(before: Program, after: Program, changed: set[str]) -> Iterator[Breach]:
    """Methods and attributes that nothing has any more, where something still reads them of an object of the files."""
    gone = _set_in(before, changed) - _set_in(after, changed)
    gone = {
        attr for attr in gone if not _is_set_elsewhere(after, attr) and not _is_only_replaced(before, attr, changed)
    }
    files = list(_with_words(after, gone))
    keys = Keys(Flow(after, {file.path for file in files} | changed)) if files else None
    for file in files:
        for node, scope in [(one, file.scope_of.get(_root(one))) for one in walk(file.functions[""].node)]:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and node.attr in gone
                and scope is not None
            ):
                if ast.unparse(node.value) == "self" or _is_made_in(keys, scope, node.value, changed):
                    yield _breach(file, node, f"nothing has an attribute `{node.attr}` any more")


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def _is_made_in(keys: Keys | None, scope: Scope, node: ast.expr, changed: set[str]) -> bool:
    """True for an object that a class of the changed files makes, as far as that is written down."""
    meant = keys.meant(scope, node) if keys is not None else None
    if meant is None or not isinstance(meant[1], ast.Call):
        return False
    full = meant[0].file.dotted(meant[1].func)
    found = meant[0].file.program.definition(full, meant[0].file) if full is not None else None
    return found is not None and found[0].file.path in changed


def _set_in(program: Program, paths: set[str]) -> set[str]:
    """The methods, and attributes of `self`, of the classes in some files."""
    files = (program.files[path] for path in paths if path in program.files)
    return {name for file in files if file.tree is not None for name in _members_of(file)}


def _members_of(file: File) -> set[str]:
    return {name for scope in file.classes for name in scope.bound} | _stored(file)


def _stored(file: File) -> set[str]:
    """The attributes that a file gives a value, alone or among others."""
    return {attr for _, target, _ in file.assigned for attr in _attributes_in(target)}


def _attributes_in(node: ast.AST) -> Iterator[str]:
    return (one.attr for one in walk(node) if isinstance(one, ast.Attribute))


def _is_set_elsewhere(after: Program, attr: str) -> bool:
    """True where something may have an attribute of that name: a class or a file sets it, or an option is called so."""
    text = attr.encode()
    pattern = re.compile(rb"\.%b\s*=[^=]|--%b\b|^\s*%b\s*[:=]" % (text, text.replace(b"_", b"[-_]"), text), re.M)
    files = [file for file in after.files.values() if text in file.source]
    return any(
        pattern.search(file.source) or (attr in _members_of(file) if file.tree is not None else b"def " in file.source)
        for file in files
    )


def _is_only_replaced(before: Program, attr: str, changed: set[str]) -> bool:
    """True for `self.net, self.opt = prepare(self.net, self.opt)`, where a base class out of sight has set them."""
    assigned = (one for path in changed if path in before.files for one in before.files[path].assigned)
    values = [value for _, target, value in assigned if attr in _attributes_in(target)]
    return bool(values) and all(attr in _attributes_in(value) for value in values)


def _signatures(before: Program, after: Program, changed: set[str]) -> Iterator[Breach]:
    """Calls of functions with other parameters than before that do not fit them."""
    names: set[str] = set()
    for path in changed & before.files.keys():
        old, new = before.files[path], after.files[path]
        if old.tree is not None and new.tree is not None:
            for name, scope in new.functions.items():
                if name and name in old.functions and _shape(scope) != _shape(old.functions[name]):
                    last = name.rpartition(".")[2]
                    names.add(name.split(".")[-2] if last == "__init__" else last)
    if not names:
        return
    found = _misfits(after, names, changed)
    had = _misfits(before, names, changed) if found else {}
    for place, node in found.items():
        if place not in had:
            yield _breach(after.files[place[0]], node, f"this call does not fit `{place[2]}`")


def _shape(scope: Scope) -> str:
    return ast.dump(scope.node.args)  # type: ignore[attr-defined]


def _misfits(program: Program, names: set[str], changed: set[str]) -> Mapping[tuple[str, str, str], ast.Call]:
    flow = Flow(program, {file.path for file in _with_words(program, names)} | changed)
    found: dict[tuple[str, str, str], ast.Call] = {}
    for file in flow.files:
        for scope, call in file.calls:
            for callee in flow.certain(scope, call):
                if callee.file.path not in changed or is_partial(scope, call):
                    continue
                whole = written_out(scope, call)
                if not fits(whole, callee, is_bound=is_bound(scope, whole.func, callee)):
                    found[file.path, scope.name, callee.name] = call
    return found


def _breach(file: File, node: ast.AST, message: str) -> Breach:
    line = getattr(node, "lineno", 1)
    return Breach("name", file.path, "", None, (line, file.lines[line - 1].strip()), message)
