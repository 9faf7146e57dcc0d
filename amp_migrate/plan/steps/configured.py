"""Backwards that the configuration switches on: `if args.mlm_loss:` around one of several losses.

Where a step's losses all stand under such switches, there is a path past all of them, which nobody takes: a training
without any loss. It is no reason to refuse, unlike a path that the data decides about.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, overlaps, reads, writes
from amp_migrate.facts.paths import Point
from amp_migrate.facts.tree import walk
from amp_migrate.plan.steps.step_graph import StepGraph

_SETTINGS = frozenset(
    "args arg opt opts cfg config conf configs hparams hp hps params paras flags FLAGS settings".split()
)


class Configured:
    """Tests for the `if` statements of one training step that the configuration decides."""

    def __init__(self, facts: Facts, graph: StepGraph) -> None:
        self.facts = facts
        self.graph = graph
        self._written = [
            path
            for point in graph.live
            if point.statement is not None and self._is_repeated(point)
            for path in writes(point.statement)
        ]

    def _is_repeated(self, point: Point) -> bool:
        """False for what runs once, before the loop over the batches."""
        if self.graph.called_again:
            return True
        return any(outer.is_loop for outer in point.trail())

    def skips_backward(self, point: Point) -> bool:
        """True at an `if` with a scaled backward in its body that runs by configuration alone."""
        statement = point.statement
        if statement is None or not isinstance(statement.node, cst.If):
            return False
        return self._is_configuration(statement.node.test) and self.graph.holds_backward(statement)

    def asks_for_gradients(self, point: Point) -> bool:
        """True at `if loss.requires_grad:` around a scaled backward: it tells training from evaluation."""
        statement = point.statement
        if statement is None or not isinstance(statement.node, cst.If):
            return False
        test = statement.node.test
        asks = isinstance(test, cst.Attribute) and test.attr.value == "requires_grad"
        return asks and self.graph.holds_backward(statement)

    def _is_configuration(self, test: cst.BaseExpression) -> bool:
        if any(isinstance(part, cst.Call) for part in walk(test)):
            return False
        paths = list(reads(test))
        return bool(paths) and all(self._is_setting(path) for path in paths)

    def _is_setting(self, path: Path) -> bool:
        """`args.x`, `self.args.x`, `config["x"]`, or `self.x` that only `__init__` sets; never written in a step."""
        if any(overlaps(path, written) for written in self._written):
            return False
        if _SETTINGS & set(path[:-1]):
            return True
        stores = self.facts.objects.stores_of(path[-1])
        return (
            len(path) == 2
            and path[0] == "self"
            and bool(stores)
            and all(store.statement.function.name == "__init__" for store in stores)
        )
