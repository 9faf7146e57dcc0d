"""Positional arguments by their names, and the other way."""

from __future__ import annotations

import ast
from collections import Counter
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import FUNCTIONS

_LOSSES = "cross_entropy mse_loss l1_loss smooth_l1_loss nll_loss binary_cross_entropy binary_cross_entropy_with_logits".split()
_TORCH = {  # parameters that each version has, by the last name of what is called
    **{name: ["input", "target"] for name in _LOSSES},
    **{name: ["params", "lr"] for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")},
    "Linear": ["in_features", "out_features"],
    "Conv2d": ["in_channels", "out_channels", "kernel_size"],
    "clip_grad_norm_": ["parameters", "max_norm"],
    "clip_grad_value_": ["parameters", "clip_value"],
    "initialize": ["models", "optimizers"],
    "scale_loss": ["loss", "optimizers"],
}
_OWNERS = (
    "F",
    "nn",
    "optim",
    "amp",
    "torch.optim",
    "torch.nn",
    "nn.utils",
    "torch.nn.utils",
    "torch.nn.functional",
    "nn.functional",
)


def by_name(program: Program, random: Random) -> bool:
    """`train(model=model, loader=loader)` for functions of the program"""
    return _named(program, _own(program))


def of_torch_by_name(program: Program, random: Random) -> bool:
    """`F.cross_entropy(input=out, target=y)`"""
    return _named(program, {}, _TORCH)


def by_place(program: Program, random: Random) -> bool:
    """`train(model, loader)` for `train(model=model, loader=loader)`"""
    done = False
    for call, names in _calls(program, _own(program), _TORCH):
        rest = names[len(call.args) :]
        while call.keywords and rest and call.keywords[0].arg == rest[0]:
            call.args.append(call.keywords.pop(0).value)
            rest, done = rest[1:], True
    return done


def _named(program: Program, own: dict[str, list[str]], of_torch: dict[str, list[str]] | None = None) -> bool:
    done = False
    for call, names in _calls(program, own, of_torch or {}):
        if len(call.args) > len(names) or any(isinstance(one, ast.Starred) for one in call.args):
            continue
        named = [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False)]
        if named:
            call.keywords, call.args, done = [*named, *call.keywords], [], True
    return done


def _calls(
    program: Program, own: dict[str, list[str]], of_torch: dict[str, list[str]]
) -> list[tuple[ast.Call, list[str]]]:
    found = []
    for call in [one for one in program.nodes() if isinstance(one, ast.Call)]:
        if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
            continue
        path, _, name = ast.unparse(call.func).rpartition(".")
        if not path and name in own:
            found.append((call, own[name]))
        elif path in _OWNERS and name in of_torch:
            found.append((call, of_torch[name]))
    return found


def _own(program: Program) -> dict[str, list[str]]:
    """The parameters of functions and classes at the top of a module whose names mean nothing else in the program."""
    nodes = program.nodes()
    bound = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    bound.update(arg.arg for arg in nodes if isinstance(arg, ast.arg))
    bound.update(node.name for node in nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
    bound.update(alias.asname for alias in nodes if isinstance(alias, ast.alias) and alias.asname)
    found = {}
    for tree in program.files.values():
        for node in [
            one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and bound[one.name] == 1
        ]:
            function = node if isinstance(node, ast.FunctionDef) else _init(node)
            if function is None or function.decorator_list or function.args.posonlyargs or function.args.vararg:
                continue
            names = [arg.arg for arg in function.args.args]
            found[node.name] = names[1:] if isinstance(node, ast.ClassDef) else names
    return found


def _init(node: ast.ClassDef) -> ast.FunctionDef | None:
    if node.decorator_list or any(
        isinstance(one, ast.FunctionDef) and one.name in ("__new__", "__call__") for one in node.body
    ):
        return None
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)


REWRITES = {"by name": by_name, "of torch by name": of_torch_by_name, "by place": by_place}
