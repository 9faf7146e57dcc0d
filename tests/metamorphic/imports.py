"""The same things of torch and Apex, imported in other ways."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import FUNCTIONS, parameters
from tests.metamorphic.walk import fresh, start_of

_PACKAGES = ("torch", "apex")
_WORDS = {"torch": "backend", "nn": "layers", "F": "func", "optim": "updates", "amp": "precision"}


def other_names(program: Program, random: Random) -> bool:
    """`from apex import amp as precision`, `import torch.nn.functional as func`"""
    done = False
    for tree in _importing(program):
        for _, alias in _aliases(tree):
            bound = alias.asname or alias.name
            if "." in bound:
                continue
            alias.asname = fresh(program, _WORDS.get(bound, f"its_{bound}"))
            _rename(tree, bound, alias.asname)
            done = True
    return done


def modules_from_packages(program: Program, random: Random) -> bool:
    """`from torch import nn` for `import torch.nn as nn`, and the other way"""
    done = False
    for tree in _importing(program):
        for node in [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]:
            made = _other_form(node)
            if made is not None:
                tree.body[tree.body.index(node)] = made
                done = True
    return done


def by_whole_paths(program: Program, random: Random) -> bool:
    """`import apex.amp` and `apex.amp.scale_loss` for `from apex import amp` and `amp.scale_loss`"""
    done = False
    for tree in _importing(program):
        for node in [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]:
            made = _whole_path(node)
            if made is None or _is_bound(tree, made[1].partition(".")[0]):
                continue
            bound, path = made
            tree.body[tree.body.index(node)] = ast.Import([ast.alias(path)])
            _replace(tree, bound, path)
            done = True
    return done


def functions_alone(program: Program, random: Random) -> bool:
    """`from torch.nn.functional import cross_entropy` for `F.cross_entropy`

    Apex puts functions of its own in the place of torch's: who imported one before that keeps torch's.
    """
    if any(b"apex" in source for source in program.sources.values()):
        return False
    done = False
    for tree in _importing(program):
        found: dict[str, str] = {}
        for _, alias, module in _modules(tree):
            name = alias.asname or alias.name
            for node in [one for one in ast.walk(tree) if isinstance(one, ast.Attribute)]:
                if isinstance(node.value, ast.Name) and node.value.id == name and node.attr.islower():
                    found.setdefault(node.attr, module)
        taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | _imported(tree)
        for attribute in [one for one in found if one in taken or _is_bound(tree, one)]:
            del found[attribute]
        _take_alone(tree, found)
        done = done or bool(found)
    return done


def _take_alone(tree: ast.Module, found: dict[str, str]) -> None:
    names = {alias.asname or alias.name: module for _, alias, module in _modules(tree)}
    for parent in [*ast.walk(tree)]:
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                value[:] = [_alone(one, names, found) for one in value]
            elif isinstance(value, ast.AST):
                setattr(parent, field, _alone(value, names, found))
    for module in dict.fromkeys(found.values()):
        aliases = [ast.alias(name) for name, one in found.items() if one == module]
        tree.body.insert(start_of(tree), ast.ImportFrom(module, aliases, 0))


def _alone(node: ast.AST, names: dict[str, str], found: dict[str, str]) -> ast.AST:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
        module = names.get(node.value.id)
        if module is not None and found.get(node.attr) == module:
            return ast.Name(node.attr, ast.Load())
    return node


def _modules(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.alias, str]]:
    """The modules of functions that a file imports under a plain name."""
    known = ("torch.nn.functional", "torch.nn.utils")
    for node, alias in _aliases(tree):
        path = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"  # type: ignore[attr-defined]
        if path in known and "." not in (alias.asname or alias.name):
            yield node, alias, path


def _other_form(node: ast.Import | ast.ImportFrom) -> ast.stmt | None:
    if len(node.names) != 1:
        return None
    (alias,) = node.names
    if isinstance(node, ast.Import):
        package, dot, name = alias.name.rpartition(".")
        if not dot or alias.asname is None or package.partition(".")[0] not in _PACKAGES:
            return None
        return ast.ImportFrom(package, [ast.alias(name, None if alias.asname == name else alias.asname)], 0)
    if _path_of_module(node, alias) is None:
        return None
    return ast.Import([ast.alias(f"{node.module}.{alias.name}", alias.asname or alias.name)])


def _whole_path(node: ast.Import | ast.ImportFrom) -> tuple[str, str] | None:
    """The name that an import of one module binds, and the module."""
    if len(node.names) != 1:
        return None
    (alias,) = node.names
    if isinstance(node, ast.ImportFrom):
        path = _path_of_module(node, alias)
        return None if path is None else (alias.asname or alias.name, path)
    is_named = alias.asname is not None and "." in alias.name and alias.name.partition(".")[0] in _PACKAGES
    return (str(alias.asname), alias.name) if is_named else None


def _path_of_module(node: ast.ImportFrom, alias: ast.alias) -> str | None:
    """`torch.nn` of `from torch import nn`; None for functions and classes."""
    path = f"{node.module}.{alias.name}"
    known = "torch.nn torch.optim torch.nn.functional torch.autograd torch.distributed apex.amp apex.optimizers apex.fp16_utils"
    return path if node.level == 0 and path in known.split() else None


def _importing(program: Program) -> Iterator[ast.Module]:
    """The files whose names are their own: no other file takes them from there, no function exchanges them."""
    nodes = program.nodes()
    own = {name.rpartition(".")[2] for name in program.module_names()}
    for tree in program.files.values():
        passed_on = {
            alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").rpartition(".")[2] in own)
            for alias in node.names
        }
        names = {alias.asname or alias.name for _, alias in _aliases(tree)}
        accessed = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own
        }
        if names and not names & (passed_on | accessed) and "*" not in passed_on and not _rebound(tree, names):
            yield tree


def _aliases(tree: ast.Module) -> list[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    """What a file imports of torch and Apex, at its top."""
    return [
        (node, alias)
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in _PACKAGES and alias.name != "*"
    ]


def _rebound(tree: ast.Module, names: set[str]) -> bool:
    every = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        for alias in getattr(node, "names", [])
        if isinstance(alias, ast.alias)
    ]
    return any(_is_bound(tree, name) or every.count(name) > 1 for name in names)


def _is_bound(tree: ast.Module, name: str) -> bool:
    """True where a name is bound by something else than an import, or said to be global."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, (*FUNCTIONS, ast.Lambda)) and name in {one.arg for one in parameters(node.args)}:
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
    return False


def _imported(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _rename(tree: ast.Module, old: str, new: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def _replace(tree: ast.Module, name: str, path: str) -> None:
    value = ast.parse(path, mode="eval").body
    for parent in [*ast.walk(tree)]:
        for field, one in ast.iter_fields(parent):
            if isinstance(one, list):
                one[:] = [value if isinstance(part, ast.Name) and part.id == name else part for part in one]
            elif isinstance(one, ast.Name) and one.id == name:
                setattr(parent, field, value)


REWRITES = {
    "other names": other_names,
    "modules from packages": modules_from_packages,
    "by whole paths": by_whole_paths,
    "functions alone": functions_alone,
}
