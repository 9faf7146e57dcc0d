"""How torch's classes are called where they are written: by names that the file has already (rule J1)."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.facts.variables import Variable

# The same under two names.
_SAME = {"torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel"}


def torch_path(facts: Facts, node: cst.BaseExpression) -> str | None:
    """The dotted name of an imported thing, torch's classes by the name that they are documented under."""
    path = facts.names.dotted(node)
    return _SAME.get(path, path) if path is not None else None


def spelled(facts: Facts, target: str, at: cst.CSTNode) -> str:
    """How a class of torch can be written at a node: `AdamW`, `optim.AdamW`; in full where nothing is bound."""
    function = facts.tree.function_of(at)
    parts = target.split(".")
    for end in range(len(parts), 0, -1):
        name = name_of(facts, ".".join(parts[:end]), function)
        if name is not None:
            return ".".join([name, *parts[end:]])
    return target


def name_of(facts: Facts, path: str, function: Function) -> str | None:
    """What a module calls something that it imports, where `function` can see that name."""
    for variable in facts.names.scope_of(function.root).variables.values():
        if _SAME.get(variable.import_path or "", variable.import_path) == path and _is_certain(variable):
            if facts.names.visible(variable.name, function) is variable:
                return variable.name
    return None


def _is_certain(variable: Variable) -> bool:
    """True for what is bound by imports alone, at the top of the module."""
    return all(
        binding.kind == "import" and binding.statement is not None and binding.statement.block.owner is None
        for binding in variable.bindings
    )
