"""Where the files of a unit build torch optimizers, and which models they train."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.models.traits import named


def find_optimizers(facts: Facts) -> list[tuple[Statement, cst.Call]]:
    """Every call that makes an optimizer which some statement steps, with the statement that holds it."""
    stepped = _stepped(facts)
    return [(statement, call) for call, statement in facts.tree.every(cst.Call) if _makes_one_of(facts, call, stepped)]


def parameters_of(facts: Facts, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The expressions X of every `X.parameters()` that an expression is made of, through the names in it."""
    waiting: list[cst.CSTNode] = [node]
    seen: set[cst.CSTNode] = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for part in walk(current):
            if isinstance(part, (cst.Name, cst.Attribute)) and not facts.tree.is_label(part):
                waiting += facts.objects.values_of(part)
            elif isinstance(part, cst.Call):
                if isinstance(part.func, cst.Attribute) and part.func.attr.value in named("parameters"):
                    yield part.func.value
                function = facts.objects.called_function(part)
                if function is not None and function.name != "__init__":
                    waiting += _returned(facts, function.body.statements)


def _returned(facts: Facts, statements: list[Statement]) -> Iterator[cst.CSTNode]:
    for statement in statements:
        for inner in statement.descendants():
            if isinstance(inner.node, cst.Return) and inner.node.value is not None:
                yield inner.node.value


def _stepped(facts: Facts) -> ObjectSet:
    """What `x.step()` is called on: optimizers, and schedulers."""
    found: set[Object] = set()
    for part, _ in facts.tree.every(cst.Call):
        if called_name(part) == "step" and isinstance(part.func, cst.Attribute):
            found |= facts.objects.objects(part.func.value)
            found |= facts.objects.elements(part.func.value)
    return frozenset(found)


def _makes_one_of(facts: Facts, call: cst.Call, stepped: ObjectSet) -> bool:
    """True for a call of an optimizer's class: what it makes is stepped, and it is given parameters."""
    if not call.args or facts.objects.objects(call).isdisjoint(stepped):
        return False
    return _is_optimizer_class(facts, call)


def _is_optimizer_class(facts: Facts, call: cst.Call) -> bool:
    if any("torch.optim" in path for path in facts.objects.import_paths(call.func)):
        return not makes_scheduler(facts, call)
    made = facts.objects.classes_made(call)
    if made:
        return any(
            facts.text(base.value).endswith("Optimizer")
            for one in made
            for ancestor in facts.objects.ancestors(one)
            for base in ancestor.node.bases
        )
    name = called_name(call)
    if not name[:1].isupper() or _is_scheduler_name(name):
        return False
    return any(True for arg in call.args for _ in parameters_of(facts, arg.value))


def makes_scheduler(facts: Facts, call: cst.Call) -> bool:
    """True for a call of one of torch's classes of schedulers."""
    return any("lr_scheduler" in path for path in facts.objects.import_paths(call.func))


def _is_scheduler_name(name: str) -> bool:
    """True for `WarmupLinearSchedule` and the like, which are given an optimizer with its parameters."""
    return "Schedule" in name or name.endswith("LR")
