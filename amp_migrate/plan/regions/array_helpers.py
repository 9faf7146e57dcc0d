"""Functions that hand to NumPy what is computed of an argument: `def save(output): write(draw(output).numpy())`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import own_reads, writes
from amp_migrate.facts.tree import Function, called_name, names_in, walk
from amp_migrate.models import names, traits
from amp_migrate.models.queries import is_exact

_DEEPEST = 3  # functions that hand on what they are given


def leads_to_numpy(facts: Facts, load: cst.Name) -> bool:
    """True where a name is an argument, as it is, of a function of the unit that hands it to NumPy."""
    arg = facts.tree.parents.get(load)
    call = facts.tree.parents.get(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(call, cst.Call) and isinstance(arg, cst.Arg) and _leads(facts, call, {arg}, _DEEPEST)


def _leads(facts: Facts, call: cst.Call, given: set[cst.Arg], depth: int) -> bool:
    function = facts.objects.called_function(call)
    if function is None or function.name in ("__init__", "forward") or depth == 0:
        return False
    names = {param.name.value for param, arg in facts.objects.arguments(call, function) if arg in given}
    return bool(names) and _hands_on(facts, function, names, depth)


def _hands_on(facts: Facts, function: Function, names: set[str], depth: int) -> bool:
    """True where NumPy gets what a function computes of these parameters."""
    made = _made_of(function, names)
    for statement in function.descendants():
        for call in facts.tree.calls(statement):
            if called_name(call) == "numpy" and isinstance(call.func, cst.Attribute):
                if _is_made(call.func.value, made) and not _is_exact(call.func.value):
                    return True
            elif _leads(facts, call, {arg for arg in call.args if _is_made(arg.value, made)}, depth - 1):
                return True
    return False


def _made_of(function: Function, names: set[str]) -> set[str]:
    """The names of a function for what is computed of some of them."""
    made: set[str] = set()
    added = set(names)
    while added:
        made |= added
        found = [one for one in function.descendants() if any(path[0] in made for path in own_reads(one))]
        added = {path[0] for one in found for path in writes(one)} - made
    return made


def _is_made(node: cst.BaseExpression, made: set[str]) -> bool:
    return not made.isdisjoint(names_in(node))


def _is_exact(node: cst.BaseExpression) -> bool:
    """True for numbers of classes and the like, which are the same of half values."""
    exact = names(is_exact) | traits.named("leaves torch")
    return any(isinstance(part, cst.Call) and called_name(part) in exact for part in walk(node))
