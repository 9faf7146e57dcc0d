"""Files that call a method of an object that they are handed: they need not know its class.

    loss = make_loss(args)            in the script
    Evaluator(model, loss).run()      in another file: self.loss.optimize(data, model)

Whoever gets at the class may hand its instances to everything that it uses. A call counts that has the method's name
and as many arguments as the method takes.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.files.syntax import tree_of
from amp_migrate.units.sources import Node, Sources

_UNNAMED = re.compile(r"__\w+__|forward")  # called without their names


def receivers(sources: Sources, file: Path, name: str, members: Iterable[Path]) -> set[Path]:
    """The files outside of `members` with such calls of `Class.method`, defined in `file`, or that name an attribute
    of that name.
    """
    top, _, method = name.partition(".")
    if not method or _UNNAMED.fullmatch(method):
        return set()
    calling = {one for one in sources.files if one not in members and sources.mentions(one, method)}
    takes = _taken(sources.source(file), top, method) if calling else None
    if takes is not None:
        least, most = takes
        calling = {
            one for one in calling if any(least <= given <= most for given in _given(sources.source(one), method))
        }
    return calling & _used_with(sources, Node(file, top)) if calling else set()


def _taken(source: bytes, owner: str, method: str) -> tuple[int, float] | None:
    """How many arguments a method takes at least and at most, `self` left out."""
    for node in tree_of(source).body:
        for inner in node.body if isinstance(node, ast.ClassDef) and node.name == owner else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name == method:
                given = inner.args
                most = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
                is_open = given.vararg is not None or given.kwarg is not None
                return most - len(given.defaults) - len(given.kwonlyargs), math.inf if is_open else most
    return None


def _given(source: bytes, method: str) -> Iterator[int]:
    """How many arguments the calls of a method of that name have; none with stars, of which nobody knows."""
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            if not any(isinstance(arg, ast.Starred) for arg in node.args):
                yield len(node.args) + len(node.keywords)


def _used_with(sources: Sources, node: Node) -> set[Path]:
    """The files with definitions that what gets at a name uses, directly or through others."""
    seen = {node}
    waiting = [node]
    while waiting:
        new = set(sources.referring(waiting.pop(), loosely=True)) - seen
        seen |= new
        waiting += new
    waiting = list(seen)
    while waiting:
        used = set(sources.origins(sources.referred(waiting.pop()))) - seen
        seen |= used
        waiting += used
    return {one.file for one in seen}
