"""Guarded arms: where both arms of a guard are the same step up to mixed precision, one is enough (rule B3).

    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        clip_grad_norm_(amp.master_params(optimizer), 1.0)
    else:
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)

The arms are compared as syntax, with the scaled loss put back to the loss and the optimizer's parameters
written alike, wherever a parameter list is proven to be the optimizer's.
"""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Block, Statement, walk
from amp_migrate.plan.model import Backward, ParameterAccess, Recognition
from amp_migrate.plan.parameters import Models, Parameters
from amp_migrate.plan.purity import only_looks
from amp_migrate.plan.scaler.given_guards import is_left_out


@dataclasses.dataclass(frozen=True)
class Collapse:
    """An `if` (or a conditional expression) of which only `arm` remains."""

    statement: Statement
    node: cst.If | cst.IfExp
    arm: str


def find_collapses(facts: Facts, found: Recognition, parameters: Parameters) -> list[Collapse]:
    """The guards whose two arms are the same step; sets the replacement of the accesses in them."""
    comparer = _Comparer(facts, found, parameters)
    collapses = [*comparer.statements(), *comparer.expressions()]
    collapsed = {collapse.node for collapse in collapses}
    for backward in found.backwards:
        backward.collapsed = backward.guard is not None and backward.guard.statement.node in collapsed
    return collapses


class _Comparer:
    def __init__(self, facts: Facts, found: Recognition, parameters: Parameters) -> None:
        self.facts = facts
        self.found = found
        self.parameters = parameters
        self._scaled = {backward.statement: backward for backward in found.backwards}

    def statements(self) -> Iterator[Collapse]:
        for statement in self._guards():
            arms = {block.arm: block for block in statement.blocks}
            if set(arms) != {"body", "else"} or not isinstance(statement.node, cst.If):
                continue
            if self._asks_for_optimizer(statement, statement.node.test):
                continue
            for arm, other in (("body", "else"), ("else", "body")):
                if self._holds_form(arms[arm]) and not self._holds_form(arms[other]):
                    if self._equal(arms[arm], arms[other]):
                        yield Collapse(statement, statement.node, arm)

    def expressions(self) -> Iterator[Collapse]:
        """`amp.master_params(optimizer) if args.fp16 else model.parameters()`."""
        for access in self.found.parameters:
            node = self.facts.tree.parents.get(access.node)
            if not isinstance(node, cst.IfExp):
                continue
            arm, other = ("body", node.orelse) if node.body is access.node else ("else", node.body)
            if node.test is not access.node and self._same_parameters(access, other):
                access.replacement = self.facts.text(other)
                yield Collapse(access.statement, node, arm)

    def _guards(self) -> list[Statement]:
        """Every `if` with a part of the form in an arm, the innermost first."""
        places = [backward.statement for backward in self.found.backwards]
        places += [access.statement for access in self.found.parameters]
        guards: list[Statement] = []
        for place in places:
            for outer in reversed(place.path()[:-1]):
                if isinstance(outer.node, cst.If) and outer not in guards:
                    guards.append(outer)
        return guards

    def _asks_for_optimizer(self, statement: Statement, test: cst.BaseExpression) -> bool:
        """True for `if optimizer is not None:` where some call gives none: it says who trains, not in which precision,
        and without an optimizer nobody would unscale the gradients.
        """
        function = statement.function
        asked = {self.facts.names.variable_at(node) for node in walk(test) if isinstance(node, cst.Name)}
        given = [one.name for one in function.parameters if self.facts.names.variable_at(one.name) in asked - {None}]
        optimizers = [one for backward in self.found.backwards for one in backward.optimizers]
        if not any(self._may_be_optimizer(one, optimizers) for one in given):
            return False
        scaled = [one for one in self._scaled if one.inside(statement)]
        asking = (
            one for one in self.facts.calls.callers(function) if not is_left_out(self.facts, statement, one, function)
        )
        return any(is_left_out(self.facts, one, site, function) for site in asking for one in scaled)

    def _may_be_optimizer(self, name: cst.Name, optimizers: list[cst.BaseExpression]) -> bool:
        """True for a parameter that is one of the optimizers, or reads the same where no call gives one."""
        named = {self.facts.names.variable_at(one) for one in optimizers if isinstance(one, cst.Name)}
        objects = frozenset(one for optimizer in optimizers for one in self.facts.objects.objects(optimizer))
        return self.facts.names.variable_at(name) in named or self.facts.objects.may_be(name, objects)

    def _holds_form(self, block: Block) -> bool:
        places = {backward.statement for backward in self.found.backwards}
        places |= {access.statement for access in self.found.parameters}
        return any(inner in places for statement in block.statements for inner in statement.descendants())

    # -- comparison -----------------------------------------------------------------------------------

    def _equal(self, block: Block, plain: Block) -> bool:
        """Compare the arms; on success every access in `block` takes the plain arm's expression."""
        wanted = self._plain_lists(plain)
        accesses = [
            access
            for access in self.found.parameters
            if any(access.statement.inside(statement) for statement in block.statements)
        ]
        matches: dict[ParameterAccess, str] = {}
        for access in accesses:
            models = self.parameters.models_of_optimizer(access.optimizer)
            text = next((text for text, found in wanted if models is not None and found == models), None)
            if text is None:
                return False
            matches[access] = text
        if self._dump(block, matches) != self._dump(plain, {}):
            return False
        for access, text in matches.items():
            access.replacement = text
        return True

    def _only_imports(self, statement: Statement) -> bool:
        """`try: from apex import amp`, whatever happens where that fails."""
        body = statement.blocks[0].statements if isinstance(statement.node, cst.Try) else []
        return bool(body) and all(inner in self.found.imports for inner in body)

    def _only_serves_form(self, statement: Statement) -> bool:
        """`delay_unscale = i % 4 != 0`, which nothing but the call of `scale_loss` reads: it goes with the call."""
        node = statement.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not only_looks(node.value):
            return False
        variable = self.facts.names.variable_at(node.targets[0].target)
        if variable is None or not variable.loads or variable.importers:
            return False
        parts = {part for backward in self.found.backwards for part in walk(backward.call)}
        losses = {part for backward in self.found.backwards for part in walk(backward.loss)}
        return set(variable.loads) <= parts - losses

    def _plain_lists(self, block: Block) -> list[tuple[str, Models]]:
        """The parameter lists of an arm that are complete for some models, as written."""
        lists = []
        for statement in block.statements:
            for inner in statement.descendants():
                for part in self.facts.tree.expressions(inner):
                    if isinstance(part, (cst.Call, cst.Name, cst.ListComp, cst.GeneratorExp)):
                        models = self.parameters.models_of_parameters(part)
                        if models is not None:
                            lists.append((self.facts.text(part), models))
        return sorted(lists, key=lambda found: -len(found[0]))

    def _same_parameters(self, access: ParameterAccess, other: cst.BaseExpression) -> bool:
        models = self.parameters.models_of_optimizer(access.optimizer)
        return models is not None and self.parameters.models_of_parameters(other) == models

    def _dump(self, block: Block, matches: dict[ParameterAccess, str]) -> list[str]:
        texts = {source_key(access.node): text for access, text in matches.items()}
        labels = dict.fromkeys(self._own_names(block), "")
        dumped: list[str] = []
        for statement in block.statements:
            if statement in self.found.imports or self._only_imports(statement) or self._only_serves_form(statement):
                continue
            code = textwrap.dedent(self._code(statement))
            rewritten = _Plain(texts, self._scaled_below(statement), labels).visit(ast.parse(code))
            dumped.extend(ast.dump(node) for node in rewritten.body)
        return dumped

    def _own_names(self, block: Block) -> Iterator[str]:
        """The names that are set and read in an arm alone: what they are called makes no difference."""
        for variable in self.facts.names.scope_of(block.function).variables.values():
            statements = [binding.statement for binding in variable.bindings if binding.kind == "assign"]
            statements += map(self.facts.tree.statement_of, variable.loads)
            is_set_alone = len(statements) == len(variable.bindings) + len(variable.loads)
            inside = (one is not None and any(map(one.inside, block.statements)) for one in statements)
            if is_set_alone and not variable.importers and all(inside):
                yield variable.name

    def _code(self, statement: Statement) -> str:
        node = statement.node
        if isinstance(node, cst.BaseSmallStatement):
            return self.facts.text(node)
        return self.facts.text(node.with_changes(leading_lines=()))

    def _scaled_below(self, statement: Statement) -> dict[str, Backward]:
        return {
            source_key(backward.call): backward
            for backward in self.found.backwards
            if backward.statement.inside(statement)
        }


class _Plain(ast.NodeTransformer):
    """Rewrites an arm to its plain form: no `with scale_loss`, the loss for its scaled name.

    Names with `labels` are called by those, which they get where they stand first.
    """

    def __init__(self, texts: dict[str, str], scaled: dict[str, Backward], labels: dict[str, str]) -> None:
        self._labels = labels
        self._texts = {_normal(key): text for key, text in texts.items()}
        self._scaled = {_normal(key): backward for key, backward in scaled.items()}
        self._losses: dict[str, ast.expr] = {}

    def visit_With(self, node: ast.With) -> object:
        kept = []
        for item in node.items:
            backward = self._scaled.get(ast.unparse(item.context_expr))
            if backward is None or backward.block is None:
                kept.append(item)
            else:
                self._losses[backward.block.scaled] = _parse(source_key(backward.loss))
        self.generic_visit(node)
        if kept:
            node.items = kept
            return node
        return node.body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        text = self._texts.get(ast.unparse(node))
        if text is not None:
            return _parse(text)
        backward = self._scaled.get(ast.unparse(node))
        if backward is not None and backward.block is None:
            return _parse(_plain_text(backward))
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._labels:
            number = sum(map(bool, self._labels.values()))
            self._labels[node.id] = self._labels[node.id] or f"own name {number}"
            return ast.Name(self._labels[node.id], node.ctx)
        return self._losses.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _plain_text(backward: Backward) -> str:
    """`loss.backward(retain_graph=True)`, for a backward that is a call of the source form."""
    loss = source_key(backward.loss)
    is_atom = isinstance(backward.loss, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    named = ((f"{arg.keyword.value}=" if arg.keyword is not None else "", arg.value) for arg in backward.arguments)
    arguments = ", ".join(name + source_key(value) for name, value in named)
    return f"{loss if is_atom else f'({loss})'}.backward({arguments})"


def _parse(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _normal(text: str) -> str:
    return ast.unparse(_parse(text))
