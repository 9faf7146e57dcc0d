"""What a program only says: what it prints and logs, the help of its options, the messages of assertions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from amp_migrate.check.proof.compare import Comparison, Parting
from amp_migrate.check.proof.nodes import changed, walk
from amp_migrate.check.proof.normal import is_pure

_LEVELS = frozenset("debug info warning warn error critical log".split())
_BLOCKS = ("body", "orelse", "finalbody")


def only_words_differ(comparison: Comparison, parting: Parting) -> bool:
    """True where both sides do the same at a difference, and say something else."""
    if not parting.lost and not parting.new:
        return False
    new = [one for one in parting.new if not _is_option(one)]  # who does not give a new option has the same program
    said = _only_said(comparison.before.node) & _only_said(comparison.after.node)
    lost = _silent(parting.lost, said)
    return any(comparison.block(lost, _silent(one, said)) is None for one in (parting.new, new))


def _only_said(function: ast.AST) -> set[str]:
    """The names that are read in what a function prints and logs, and in what they are given next, and nowhere else."""
    reads = Counter(_reads(function))
    said = Counter(name for one in walk(function) if isinstance(one, ast.Call) and _says(one) for name in _reads(one))
    for one in walk(function):
        target = one.targets[0] if isinstance(one, ast.Assign) else None
        if isinstance(one, ast.Assign) and isinstance(target, ast.Name):
            said.update(name for name in _reads(one.value) if name == target.id)
    return {name for name, count in said.items() if count == reads[name]}


def _reads(node: ast.AST) -> Iterator[str]:
    return (one.id for one in walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def _silent(statements: Sequence[ast.stmt], said: Collection[str]) -> list[ast.stmt]:
    """The statements without what they say, by the names that are only `said` as well."""
    return [silent for one in statements if (silent := _silent_one(one, said)) is not None]


def _silent_one(node: ast.stmt, said: Collection[str]) -> ast.stmt | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in said:
        return None if is_pure(node.value) else node
    if isinstance(node, ast.Assert):  # what may only be asked as long as there is Apex goes with it
        return None if "apex" in ast.unparse(node).lower() else changed(node, msg=None)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return None if _says(node.value) else changed(node, value=_without_help(node.value))
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        return changed(node, value=_without_help(node.value))
    if not isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
        return node
    blocks = {field: _silent(getattr(node, field), said) for field in _BLOCKS if getattr(node, field, None)}
    if isinstance(node, ast.If) and is_pure(node.test) and not any(blocks.values()):
        return None
    return changed(node, **blocks)


def _says(call: ast.Call) -> bool:
    """True for `print(...)`, `logger.info(...)` and the like: what they are given may be anything that is only read."""
    given = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(call.func, ast.Name):
        says = call.func.id == "print"
    else:
        base = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
        says = (
            isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS and ("log" in base or base == "warnings")
        )
    return says and all(map(_is_only_read, given))


def _is_only_read(node: ast.expr) -> bool:
    """True for values that are put into words: their calls are methods of strings and numbers, or pure."""
    inner = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    methods = frozenset(("format", "join", "item", "version", "strftime"))
    return all(is_pure(one) or (isinstance(one.func, ast.Attribute) and one.func.attr in methods) for one in inner)


def _is_option(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _adds_option(node.value)


def _adds_option(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "add_option", "option")


def _without_help(call: ast.Call) -> ast.Call:
    if not _adds_option(call):
        return call
    return changed(call, keywords=[one for one in call.keywords if one.arg not in ("help", "metavar")])
