"""Names that say nothing, for variables, attributes, functions, and classes.

A name is exchanged wherever it stands in the program, whatever it means there: the program cannot tell. So it must not be
a name that others know, and no text may hold it.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import FUNCTIONS, parameters

_READS_NAMES = {"locals", "globals", "vars", "eval", "exec", "__dict__", "dir"}


def variables(program: Program, random: Random) -> bool:
    """`v1 = v2(v3)` for `loss = criterion(out)`"""
    nodes = program.nodes()
    named = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    named |= {arg.arg for node in nodes if isinstance(node, (*FUNCTIONS, ast.Lambda)) for arg in parameters(node.args)}
    others = {*_imported(nodes), *_defined(nodes), *_keywords(nodes), *_in_class_bodies(nodes), "self", "cls"}
    if len(program.files) > 1:
        others |= _attributes(nodes)  # `config.size` may be a variable of the file config.py
    return _exchanged(program, named - others, "v")


def attributes(program: Program, random: Random) -> bool:
    """`self.a1` for `self.model`"""
    nodes = program.nodes()
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute) and _is_written_on_self(node)}
    others = {*_imported(nodes), *_defined(nodes), *_keywords(nodes), *_in_class_bodies(nodes), *_of_libraries()}
    return _exchanged(program, named - others - _names(nodes), "a")


def functions(program: Program, random: Random) -> bool:
    """`f1` for `train_one_epoch`, and for methods"""
    nodes = program.nodes()
    named = {node.name for node in nodes if isinstance(node, FUNCTIONS)}
    inherited = {
        one.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and not _is_known_class(node, nodes)
        for one in node.body
        if isinstance(one, FUNCTIONS)
    }
    others = {*_keywords(nodes), *_of_libraries(), *inherited, *_modules(program)}
    return _exchanged(program, named - others - _written(nodes), "f")


def classes(program: Program, random: Random) -> bool:
    """`C1` for `Net`"""
    nodes = program.nodes()
    named = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    return _exchanged(program, named - {*_keywords(nodes), *_modules(program)} - _written(nodes), "C")


def _exchanged(program: Program, names: set[str], letter: str) -> bool:
    """Exchanges those of the names that may be exchanged everywhere, in the order in which they stand."""
    nodes = program.nodes()
    if _READS_NAMES & {*_names(nodes), *_attributes(nodes)} or _has_star_of_others(program):
        return False
    allowed = {one for one in names if not one.startswith("__") and not hasattr(builtins, one)}
    if letter != "v" or "None" in _keywords(nodes):  # `f(**options)` names parameters
        allowed -= _in_texts(nodes)
    taken = {text for node in nodes for text in _identifiers(node)}
    numbers = (f"{letter}{number}" for number in count(1))
    fresh = (one for one in numbers if one not in taken and not keyword.iskeyword(one))
    new: dict[str, str] = {}
    for node in nodes:
        for name in [one for one in _identifiers(node) if one in allowed and one not in new]:
            new[name] = next(fresh)
    for node in nodes:
        _exchange(node, new, letter)
    return bool(new)


def _exchange(node: ast.AST, new: dict[str, str], letter: str) -> None:
    """Variables are no attributes: `model` becomes `v1`, and `self.model` stays."""
    if letter == "v" and isinstance(node, (ast.Attribute, ast.alias)):
        return
    if letter == "a" and not isinstance(node, ast.Attribute):
        return
    for field, value in ast.iter_fields(node):
        if field in ("kind", "type_comment") or isinstance(node, ast.Constant):
            continue
        if isinstance(value, str) and not isinstance(node, ast.ImportFrom):
            setattr(node, field, new.get(value, value))
        elif isinstance(value, list) and value and isinstance(value[0], str):
            setattr(node, field, [new.get(one, one) for one in value])


def _identifiers(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Constant):
        for _, value in ast.iter_fields(node):
            yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _attributes(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _keywords(nodes: Iterable[ast.AST]) -> set[str]:
    return {str(node.arg) for node in nodes if isinstance(node, ast.keyword)}


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    aliases = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    return {part for alias in aliases for part in f"{alias.name}.{alias.asname}".split(".")}


def _defined(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.name for node in nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef))}


def _in_class_bodies(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        one.id
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if not isinstance(statement, FUNCTIONS)
        for one in ast.walk(statement)
        if isinstance(one, ast.Name)
    }


def _written(nodes: Iterable[ast.AST]) -> set[str]:
    """The names and attributes that are bound: a function of the same name would be exchanged with them."""
    named = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return named | {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }


def _in_texts(nodes: Iterable[ast.AST]) -> set[str]:
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {
        word for text in texts if isinstance(text, str) for part in re.findall(r"\w+", text) for word in _parts(part)
    }


def _parts(word: str) -> set[str]:
    """`--no-cuda` is read as `no_cuda`, and `conv` may be looked for in the names of parameters."""
    return {word, *word.split("_")}


def _modules(program: Program) -> set[str]:
    return {part for name in program.module_names() for part in name.split(".")}


def _has_star_of_others(program: Program) -> bool:
    """True where names come from a package, nobody knows which: `from apex import *`"""
    stars = [node for node in program.nodes() if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    return any(not node.level and (node.module or "").rpartition(".")[2] not in _modules(program) for node in stars)


def _is_written_on_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_known_class(node: ast.ClassDef, nodes: list[ast.AST]) -> bool:
    own = {one.name for one in nodes if isinstance(one, ast.ClassDef)}
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bases <= {*own, "object", "Module", "Dataset", "Function"}


@cache
def _of_libraries() -> frozenset[str]:
    """The attributes of whatever a training script may hold: another object may have one of this name."""
    import argparse

    import numpy
    import torch
    from torch import nn, optim
    from torch.utils import data

    module, tensor = nn.Linear(1, 1), torch.zeros(1)
    optimizer = optim.SGD(module.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1)
    loader = data.DataLoader([1])
    kinds = [torch, nn, optim, data, data.Dataset, nn.functional, torch.cuda, torch.autograd, torch.autograd.Function]
    layers = [getattr(nn, name) for name in dir(nn) if name[0].isupper()]
    values = [module, tensor, optimizer, schedule, loader, "", [], {}, set(), 1.0, (), numpy, numpy.zeros(1)]
    known = {name for one in (*kinds, *layers, *values, argparse, argparse.ArgumentParser()) for name in dir(one)}
    known |= {*schedule.__dict__, *loader.__dict__, *optimizer.__dict__, "saved_tensors", "master_params", "module"}
    return frozenset(known)


REWRITES = {"variables": variables, "attributes": attributes, "functions": functions, "classes": classes}
