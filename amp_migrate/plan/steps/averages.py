"""Gradients that are averaged over processes between backward and step, where the unit does it itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.files.as_ast import as_ast
from amp_migrate.files.averaging import SUMS, averages_gradients, only_averages, sums_over_processes
from amp_migrate.findings import Refusal
from amp_migrate.rules.steps import GRADIENTS_IN_USE

_SUMMING = re.compile(r"reduce|average|avg|sync", re.IGNORECASE)
_GRADIENTS = re.compile(r"\.grad\b|\bgrads?\b|\bgradients\b")


class Averages:
    """Tells which loops and functions of the unit do nothing but that."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[cst.CSTNode, bool] = {}
        self._parsed: dict[cst.CSTNode, ast.AST] = {}

    @cached_property
    def _summing(self) -> set[Function]:
        """The modules in which something is summed over processes."""
        return {
            statement.function.root for part, statement in self.facts.tree.every(cst.Call) if called_name(part) in SUMS
        }

    @cached_property
    def are_made(self) -> bool:
        """True where something averages gradients, here or in an imported function."""
        imported = [
            path for call, _ in self.facts.tree.every(cst.Call) for path in self.facts.names.imported_as(call.func)
        ]
        return any(map(averages_gradients, imported)) or any(map(self.are_made_in, self._reads))

    @cached_property
    def _reads(self) -> list[Statement]:
        return [one for node, one in self.facts.tree.every(cst.Attribute) if node.attr.value == "grad"]

    def are_made_by(self, functions: Collection[Function]) -> bool:
        """True where every function that a call may mean only averages. Raises Refusal for one that does more."""
        return bool(functions) and all(self._only_averages(one.node) for one in functions)

    def are_made_in(self, statement: Statement) -> bool:
        """True in a loop over parameters that averages their gradients, in a function that does, and for a list of
        gradients that is made for it. Raises Refusal for a loop that does more.
        """
        if self._is_list_for_it(statement):
            return True
        if statement.function.root not in self._summing:
            return False
        if self._only_averages(statement.function.node):
            return True
        loops = [outer for outer in statement.path() if isinstance(outer.node, cst.For)]
        if not loops or self._only_averages(loops[-1].node):
            return bool(loops)
        self._check(loops[-1].node, "this loop")
        return False

    def check(self, functions: Collection[Function]) -> None:
        """Raises Refusal where a function sums gradients over processes, and does something else with them, too."""
        for function in (one for one in functions if one.root in self._summing):
            reads = [one for one in self._reads if one.function is function]
            if not reads or not all(map(self.are_made_in, reads)):
                self._check(function.node, f"{function.name}()")

    def _check(self, node: cst.CSTNode, what: str) -> None:
        inside = [part for part in ast.walk(self._ast(node)) if isinstance(part, ast.Call)]
        sums = [part for part in inside if sums_over_processes(part)]
        if any(_GRADIENTS.search(ast.unparse(arg)) for part in sums for arg in part.args):
            message = f"{what} sums gradients over processes, and does more with them than to average them"
            raise Refusal(GRADIENTS_IN_USE, node, message, case="sums")

    def _is_list_for_it(self, statement: Statement) -> bool:
        """True for `grads = [p.grad for p in params]`, where nothing but `all_reduce` and its like reads the list.
        Raises Refusal where something does that by its name, and cannot be read, or does more.
        """
        node = statement.node
        if not isinstance(node, cst.Assign) or not isinstance(node.value, (cst.ListComp, cst.List)):
            return False
        variable = self.facts.names.variable_at(node.targets[0].target)
        if variable is None or not variable.loads:
            return False
        reads = [self.facts.tree.statement_of(load) for load in variable.loads]
        others = [read for read in reads if not self._hands_on(read)]
        codes = [self._ast(read.node) for read in others]
        is_averaged = len(others) < len(reads) or any(map(sums_over_processes, codes))
        return is_averaged and all(
            only_averages(code, {}) or (not sums_over_processes(code) and self._scales(code)) for code in codes
        )

    def _hands_on(self, read: Statement) -> bool:
        """True for `reduce_all(grads)` that does nothing but average. Raises Refusal for one that may do more."""
        calls = self.facts.tree.calls(read)
        if not isinstance(read.node, cst.Expr) or not calls or called_name(calls[0]) in SUMS:
            return False
        call = calls[0]
        own = self.facts.objects.candidates(call)
        paths = [] if own else self.facts.names.imported_as(call.func)
        if self.are_made_by(own) or any(map(averages_gradients, paths)):
            return True
        if _SUMMING.search(called_name(call)):
            text = self.facts.text(call)
            message = f"{text} seems to sum gradients over processes, and may do more with them"
            raise Refusal(GRADIENTS_IN_USE, call, message, case="sums")
        return False

    def _scales(self, code: ast.AST) -> bool:
        """True for `for grad in grads: grad /= world_size`."""
        return isinstance(code, ast.Module) and only_averages(ast.Module([*code.body, _SUM], []), {})

    def _only_averages(self, node: cst.CSTNode) -> bool:
        root = self.facts.tree.root_of(node)
        if root not in self._summing:
            return False
        if node not in self._known:
            functions = {
                one.name: self._ast(one.node)
                for one in self.facts.tree.functions
                if isinstance(one.node, cst.FunctionDef) and self.facts.tree.root_of(one.node) is root
            }
            self._known[node] = only_averages(self._ast(node), functions)
        return self._known[node]

    def _ast(self, node: cst.CSTNode) -> ast.AST:
        if node not in self._parsed:
            self._parsed[node] = ast.Module([], []) if isinstance(node, cst.Module) else as_ast(node)
        return self._parsed[node]


_SUM = ast.parse("all_reduce()").body[0]
