"""Which forwards can run where apex was never set up? They ran in float32, and stay so (rule E5).

if args.mode == "train":
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
train(...)                      evaluate() in here ran in mixed precision
elif args.mode == "predict":
evaluate(...)                   and here it did not
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from amp_migrate.facts import Facts
from amp_migrate.facts.paths import Decide, Graph, Point
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.plan.model import Recognition


def reached_without_setup(
    facts: Facts, found: Recognition, statements: Iterable[Statement], decide: Decide
) -> set[Statement]:
    """Those of the statements that some path from the start of the program reaches around every setup."""
    setups = {setup.statement for setup in found.setups}
    homes = {setup.function for setup in setups}
    reached: set[Statement] = set()
    for root in facts.tree.functions:
        called = set(facts.calls.reachable(root))
        wanted = {statement for statement in statements if statement.function in called}
        if facts.calls.callers(root) or not homes & called or not wanted:
            continue
        busy = homes | {statement.function for statement in wanted}
        graph = Graph(facts, root, partial(facts.calls.reaches, holds=busy.__contains__), decide, called_again=False)
        for statement in wanted:  # one by one: a path ends at the first goal that it meets
            points = set(graph.at(statement))
            if graph.path_exists([graph.start], points.__contains__, lambda point: point.statement in setups):
                reached.add(statement)
    return reached


def runs_before_setup(facts: Facts, found: Recognition, statement: Statement, decide: Decide) -> bool:
    """True where somebody outside may call a function that runs the statement, and neither sets up nor trains: an
    attribute that `train()` sets is not there when `evaluate()` is called on a new trainer.
    """
    homes = {setup.statement.function for setup in found.setups}
    backwards = {backward.statement for backward in found.backwards}
    busy = {statement.function, *(backward.function for backward in backwards)}
    for root in facts.tree.functions:
        called = set(facts.calls.reachable(root))
        if not _is_entry(facts, root) or homes & called or statement.function not in called:
            continue
        graph = Graph(facts, root, partial(facts.calls.reaches, holds=busy.__contains__), decide, called_again=False)
        points = set(graph.reached([graph.start], lambda point: point.statement in {statement, *backwards}, _nowhere))
        if points and all(point.statement is statement for point in points):
            return True
    return False


def _is_entry(facts: Facts, function: Function) -> bool:
    """A function that nothing here calls, or a public method that evaluates."""
    if not facts.calls.callers(function):
        return True
    return function.is_method and any(word in function.name for word in ("eval", "valid", "test", "predict", "infer"))


def _nowhere(point: Point) -> bool:
    return False
