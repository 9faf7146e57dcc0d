"""Forwards of the same weights without gradients, and then with them, inside of what a region calls.

    with torch.no_grad():
        scores = super().forward(batch)
    return super().forward(hardest(batch, scores))

    online = self.base(batch)
    vector_to_parameters(self.average, self.parameters())
    target = self.base(batch)

Autocast keeps the casts of weights until the region ends. Torch before the end of 2025 hands the second forward those
that the first made without a graph, and its weights are not trained ([T] pytorch#65766). Forwards beside each other get
regions of their own (`training.py`); where both are behind one call, or in an arm of an `if`, the region is told not to
keep casts. Nor does one keep them in which a module gets other weights: the casts would be those of the first ([run]).
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, called_name
from amp_migrate.files.definitions import lineage
from amp_migrate.files.syntax import tree_of
from amp_migrate.findings import Finding
from amp_migrate.models import traits
from amp_migrate.plan.regions.forwards import Forwards, has_no_gradients, is_no_grad
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.plan.training_plan import AutocastRegion
from amp_migrate.rules.regions import UNCACHED_CASTS

_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")
_FORWARDS = ("forward", "__call__")
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def keep_no_stale_casts(
    facts: Facts, forwards: Forwards, regions: list[AutocastRegion], reach: Reach
) -> Iterator[Finding]:
    """Note the regions that may not keep casts, and say so. `reach` is what runs in all of them."""
    within = {
        function
        for function in reach.functions
        if _function_runs_both_ways(facts, function) or _helped_without_gradients(facts, forwards, function)
    }
    swaps = {one.function for one in reach.statements if _swaps_weights(facts, one)}
    for found in regions:
        behind = Reach(facts, forwards, [found.region]).functions if within or swaps else frozenset()
        if swaps & {found.region.function, *behind}:
            why = "modules get other weights in it"
        elif behind & within or _needs_no_cache(facts, forwards, found.region):
            why = "a forward without gradients comes before one with gradients"
        else:
            continue
        found.cached = False
        yield facts.finding(found.region.first.node, UNCACHED_CASTS, f"{why}: no cast of a weight is kept")


def _swaps_weights(facts: Facts, statement: Statement) -> bool:
    return any(called_name(call) in traits.named("other weights") for call in facts.tree.calls(statement))


def _needs_no_cache(facts: Facts, forwards: Forwards, region: Region) -> bool:
    """True where the weights of one model run both ways, behind a call in the region."""
    inside = [inner for one in region.statements() for inner in one.descendants()]
    if _runs_both_ways_itself(facts, forwards, region, inside):
        return True
    return any(_family_runs_both_ways(family) for family in _families(facts, forwards, inside))


def _function_runs_both_ways(facts: Facts, function: Function) -> bool:
    tree = _parsed(facts, function)
    methods = function.owner.methods if function.owner is not None else ()
    return tree is not None and _runs_both_ways(tree, [one for one in methods if one not in _FORWARDS])


def _helped_without_gradients(facts: Facts, forwards: Forwards, function: Function) -> bool:
    """True for `labels = guess(model, x)` before `model(x)`, where `guess` is decorated with `torch.no_grad()`."""
    inside = list(function.descendants())
    for statement in inside:
        helpers = [site.callee for site in facts.calls.in_statement(statement) if has_no_gradients(facts, site.callee)]
        before = forwards.models_run([statement, *(one for helper in helpers for one in helper.descendants())])
        later = [one for one in inside if one.order > statement.order]
        if helpers and before & forwards.models_run(later):
            return True
    return False


def _runs_both_ways_itself(facts: Facts, forwards: Forwards, region: Region, inside: list[Statement]) -> bool:
    """An arm of an `if` with `teacher = model(x)` under no_grad, and then `loss = f(model(x), teacher)`."""
    outside = region.first.path()[:-1]
    around = {one: [outer for outer in one.path() if outer not in outside] for one in inside}
    without = [
        one
        for one in inside
        if any(is_no_grad(facts, outer) for outer in around[one]) or _calls_without_gradients(facts, one)
    ]
    return any(
        one.order < other.order
        and not _are_apart(around[one], around[other])
        and forwards.models_run([one]) & forwards.models_run([other])
        for one in without
        for other in inside
        if other not in without
    )


def _calls_without_gradients(facts: Facts, statement: Statement) -> bool:
    """True for `labels = guess(model, x)` of a function that runs without gradients."""
    functions = (facts.objects.called_function(call) for call in facts.tree.calls(statement))
    return any(one is not None and has_no_gradients(facts, one) for one in functions)


def _are_apart(path: list[Statement], other: list[Statement]) -> bool:
    """True for the arms of an `if`, and for a block that is left at its end."""
    for outer in path:
        block = outer.block
        if any(one.block is block for one in other):
            continue
        if block.owner in other and isinstance(block.owner.node, cst.If):
            return True
        if block.statements[-1].leaves:
            return True
    return False


def _parsed(facts: Facts, function: Function) -> ast.AST | None:
    """A function that may run something without gradients."""
    if not isinstance(function.node, cst.FunctionDef) or not function.node.body.body:
        return None
    text = facts.text(function.node)
    if not any(word in text for word in _WITHOUT_GRADIENTS):  # hardly any function has one, and parsing is slow
        return None
    return tree_of(textwrap.dedent(text))  # nothing, for texts of several lines that start left of the code


def _families(facts: Facts, forwards: Forwards, inside: list[Statement]) -> Iterator[list[ast.ClassDef]]:
    """The classes of other files that each model in the region is made of, with all that they inherit from."""
    for model in forwards.models_run(inside):
        for path in {path for named in _class_names(facts, model.source.origin) for path in named}:
            yield [definition for _, definition in lineage(path)]


def _class_names(facts: Facts, made: object) -> Iterator[list[str]]:
    """What a call makes an instance of; for a class of the unit, the bases that it has elsewhere."""
    if isinstance(made, cst.Call):
        makers = (made.func, made.func.value) if isinstance(made.func, cst.Attribute) else (made.func,)
        yield from map(facts.objects.import_paths, makers)
    if isinstance(made, Class):
        family = (owner for owner in facts.objects.derived(made))
        yield from (facts.objects.import_paths(base.value) for owner in family for base in owner.node.bases)


def _family_runs_both_ways(family: list[ast.ClassDef]) -> bool:
    methods = [one for owner in family for one in owner.body if isinstance(one, ast.FunctionDef)]
    names = [one.name for one in methods if one.name not in _FORWARDS]
    return any(_runs_both_ways(one, names) for one in methods)


def _runs_both_ways(function: ast.AST, methods: list[str]) -> bool:
    calls = [(call, path) for call, path in _calls(function, ()) if _may_be_forward(call, function, methods)]
    without = [(call, path) for call, path in calls if any(_is_no_grad(one) for one in path)]
    return any(
        ast.unparse(call.func) == ast.unparse(other.func) and call.lineno < other.lineno
        for call, path in without
        for other, others in calls
        if not any(_is_no_grad(one) for one in others) and not _exclude(path, others)
    )


def _calls(node: ast.AST, path: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    """The calls below a node, each with the nodes around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, (*path, node)
        yield from _calls(child, (*path, node))


def _may_be_forward(call: ast.Call, function: ast.AST, methods: list[str]) -> bool:
    """True for `model(x)` of a parameter, `self.encoder(x)` of an attribute, and `super().forward(x)`."""
    func = call.func
    if isinstance(func, ast.Name):
        return func.id in {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    if not isinstance(func, ast.Attribute):
        return False
    if isinstance(func.value, ast.Call):
        return ast.unparse(func.value.func) == "super" and func.attr in _FORWARDS
    on_self = isinstance(func.value, ast.Name) and func.value.id == "self"
    return on_self and bool(call.args or call.keywords) and func.attr not in methods


def _is_no_grad(node: ast.AST) -> bool:
    items = node.items if isinstance(node, ast.With) else []
    calls = [one.context_expr for one in items if isinstance(one.context_expr, ast.Call)]
    return any(ast.unparse(call.func).rpartition(".")[2] in _WITHOUT_GRADIENTS for call in calls)


def _exclude(path: tuple[ast.AST, ...], others: tuple[ast.AST, ...]) -> bool:
    """True for the arms of an `if`, and where a block of the first is left at its end, before the other."""
    for outer, inner in itertools.pairwise(path):
        for block in (getattr(outer, "body", None), getattr(outer, "orelse", None)):
            if not isinstance(block, list) or inner not in block or any(one in block for one in others):
                continue
            if isinstance(outer, ast.If) and outer in others:
                return True
            if isinstance(block[-1], _ENDS) and not isinstance(outer, (ast.FunctionDef, ast.Module)):
                return True
    return False
