"""What is trained: models whose parameters an optimizer is made of."""

from __future__ import annotations

import ast

from amp_migrate.check.proof.flow import Carriers, Flow, key_of
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Scope


def trained_models(flow: Flow) -> Carriers:
    """What may hold a model whose parameters an optimizer is made of."""
    found: set[object] = set()
    for scope, call in (one for file in flow.files for one in file.calls):
        if _is_optimizer(scope, call):
            given = [
                one for arg in [*call.args, *(each.value for each in call.keywords)] for one in _made_of(scope, arg)
            ]
            for part in (part for one in given for part in walk(one)):
                if isinstance(part, ast.Attribute) and part.attr.endswith("parameters"):
                    if isinstance(part.value, (ast.Name, ast.Attribute)):
                        found.add(key_of(scope, part.value))
    return Carriers(flow, lambda file, node: False, found)


def _made_of(scope: Scope, node: ast.expr) -> list[ast.expr]:
    """An expression, and the values of the names in it, and so on; each name once."""
    found, seen = [node], set[str]()
    for one in found:
        for name in dict.fromkeys(part.id for part in walk(one) if isinstance(part, ast.Name) and part.id not in seen):
            seen.add(name)
            home = scope.binding(name)
            found += [value for value in (home.bound[name] if home is not None else ()) if isinstance(value, ast.expr)]
    return found


def _is_optimizer(scope: Scope, call: ast.Call) -> bool:
    """True for an optimizer of torch or Apex, and for what is called like one: BertAdam, Ranger, LAMB."""
    full = scope.file.dotted(call.func) or ""
    last = full.rpartition(".")[2]
    return full.startswith(("torch.optim.", "apex.optimizers.")) or last.lower().endswith(
        ("adam", "adamw", "optimizer")
    )
