"""Loss scaling by hand: the loss is multiplied, the gradients are divided by the same number.

(loss * SCALE).backward()                      loss.backward()
for p in model.parameters():         =>
    p.grad.data.div_(SCALE)
optimizer.step()                               optimizer.step()

Both halves are found or none: a factor that no gradient is divided by is a weight of the loss, a divisor that no loss
is multiplied by is an average.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Function, Statement, called_name, is_atom, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding, Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.half import SCALED_LOSS_READ, UNKNOWN_TRAINER
from amp_migrate.sources.scaled_by_hand import divisors, without_float


class Scaling:
    """The loss scale of a unit, by both of its halves."""

    def __init__(self, facts: Facts, lowering: Lowering) -> None:
        self.facts = facts
        self.lowering = lowering
        self._divided = {node: None for one in facts.tree.all_statements() for node in divisors(facts, one)}
        self.divisors = {self.key(node): node for node in self._divided}
        self.understood: set[cst.CSTNode] = set()
        self.sites: list[cst.CSTNode] = []
        self.findings: list[Finding] = []

    def lower(self) -> None:
        """Take the factors out of the losses. Raises Refusal for a half of which the other is missing."""
        found: set[Hashable] = set()
        for part, statement in self.facts.tree.every(cst.Call):
            if called_name(part) == "backward":
                key = self._scaled_backward(statement, part)
                found |= {key} if key is not None else set()
        for key, node in self.divisors.items():
            if key not in found:
                text = self.facts.text(node)
                message = f"gradients are divided by {text}, and no backward is known whose loss is multiplied by it"
                raise Refusal(UNKNOWN_TRAINER, node, message, case="scale")
        self._check_other_reads(found)

    # -- losses -----------------------------------------------------------------------------------------

    def _scaled_backward(self, statement: Statement, call: cst.Call) -> Hashable | None:
        """Take the factor out of one loss; the key of the factor, None where there is none."""
        if not isinstance(call.func, cst.Attribute):
            return None
        loss = call.func.value
        product = self._product(loss)
        if product is not None:
            self._mark(statement, product[1])
            self._replace_loss(call.func, product[0])
            return self.key(product[1])
        if not isinstance(loss, cst.Name):
            return None
        for store, value in self._stores(loss, statement.function):
            if isinstance(store.node, cst.AugAssign):
                if isinstance(store.node.operator, cst.MultiplyAssign) and self.key(value) in self.divisors:
                    self._note_reads(loss, store)
                    self._mark(store, value)
                    self.lowering.removed.append(store)
                    return self.key(value)
                continue
            product = self._product(value)
            if product is None:
                continue
            self._mark(store, product[1])
            if source_key(without_float(product[0])) == loss.value:
                self._note_reads(loss, store)
            else:
                self._only_for_backward(loss, call)
                self._replace_loss(call.func, product[0])
            self.lowering.removed.append(store)
            return self.key(product[1])
        return None

    def _product(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        """Loss and scale of `loss * scale`."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return None
        for loss, scale in ((node.left, node.right), (node.right, node.left)):
            if self.key(scale) in self.divisors:
                return loss, scale
        if any(looks_like_scale(side) for side in (node.left, node.right)):
            message = f"{self.facts.text(node)} scales the loss, and no gradient is divided by the scale"
            raise Refusal(UNKNOWN_TRAINER, node, message, case="scale")
        return None

    def _stores(self, name: cst.Name, function: Function) -> Iterator[tuple[Statement, cst.BaseExpression]]:
        for statement in function.body.statements:
            for inner in statement.descendants():
                node = inner.node
                if isinstance(node, cst.AugAssign) and source_key(node.target) == name.value:
                    yield inner, node.value
                elif isinstance(node, cst.Assign) and len(node.targets) == 1:
                    if source_key(node.targets[0].target) == name.value:
                        yield inner, node.value

    def _only_for_backward(self, loss: cst.Name, call: cst.Call) -> None:
        for load in self.facts.names.loads_at(loss):
            parent = self.facts.tree.parents.get(load)
            if not (isinstance(parent, cst.Attribute) and parent.attr.value == "backward"):
                message = f"{loss.value} is a scaled loss, and read for more than its backward"
                raise Refusal(UNKNOWN_TRAINER, load, message, case="scale")

    def _note_reads(self, loss: cst.Name, store: Statement) -> None:
        """What was printed after `loss = loss * SCALE` was the scaled loss."""
        for load in self.facts.names.loads_at(loss):
            parent = self.facts.tree.parents.get(load)
            is_backward = isinstance(parent, cst.Attribute) and parent.attr.value == "backward"
            if self.facts.tree.statement_of(load).order > store.order and not is_backward:
                message = f"{loss.value} was the scaled loss here, now it is the loss itself"
                self.findings.append(self.facts.finding(load, SCALED_LOSS_READ, message))

    def _mark(self, statement: Statement, scale: cst.BaseExpression) -> None:
        self.understood.update(walk(scale))
        self.sites.append(scale)
        self.lowering.scales.append((statement, self.facts.text(scale)))

    def _replace_loss(self, method: cst.Attribute, loss: cst.BaseExpression) -> None:
        text = self.facts.text(loss)
        self.lowering.replaced[method] = f"{text if is_atom(loss) else f'({text})'}.backward"

    # -- the scale itself -------------------------------------------------------------------------------

    def key(self, node: cst.BaseExpression) -> Hashable:
        """Equal for expressions with one value: numbers by what they are, names through the calls of a helper."""
        value = self.facts.values.constant(node)
        if isinstance(value, (int, float)):
            return float(value)
        variable = self.facts.names.variable_at(node)
        if variable is not None and [binding.kind for binding in variable.bindings] == ["param"]:
            given = [one for one in self.facts.objects.values_of(node) if one is not variable.bindings[0].value]
            keys = {self.key(one) for one in given}
            if len(keys) == 1:
                return keys.pop()
        return source_key(node)

    def _check_other_reads(self, found: set[Hashable]) -> None:
        """A scale that is used for anything else, such as a smaller learning rate, is a half of something, too."""
        scales = {key for key in found if isinstance(key, str)}
        gone = {inner for statement in self.lowering.removed for inner in statement.descendants()}
        for statement in self.facts.tree.all_statements():
            if statement in gone:
                continue
            for part in self.facts.tree.expressions(statement):
                if not isinstance(part, (cst.Name, cst.Attribute)) or source_key(part) not in scales:
                    continue
                if part in self.understood or part in self._divided or self._is_stored(part) or self._is_tested(part):
                    continue
                if self._is_passed(part):
                    continue
                how = "is moved by hand here" if _is_moved(part, statement) else "is used for something else"
                message = f"{self.facts.text(part)} scales the loss, and {how}"
                raise Refusal(UNKNOWN_TRAINER, part, message, case="scale")

    def _is_stored(self, part: cst.CSTNode) -> bool:
        return isinstance(self.facts.tree.parents.get(part), (cst.AssignTarget, cst.Param, cst.AnnAssign))

    def _is_tested(self, part: cst.CSTNode) -> bool:
        parent = self.facts.tree.parents.get(part)
        return isinstance(parent, (cst.Comparison, cst.If, cst.BooleanOperation, cst.FormattedStringExpression))

    def _is_passed(self, part: cst.CSTNode) -> bool:
        call = self.facts.tree.taker(part)
        return call is not None and (called_name(call) == "print" or call in self.understood)


def _is_moved(scale: cst.BaseExpression, statement: Statement) -> bool:
    """True in `scale = scale / 2` and in `scale *= 2`: the script looks for overflows itself."""
    node, key = statement.node, source_key(scale)
    if isinstance(node, cst.Assign):
        return any(source_key(target.target) == key for target in node.targets)
    return isinstance(node, cst.AugAssign) and source_key(node.target) == key


def looks_like_scale(node: cst.BaseExpression) -> bool:
    """True for large numbers, and for what is called a loss scale."""
    value = literal_value(node)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value >= 64
    text = source_key(node).lower()
    return "loss_scale" in text or "scale_factor" in text or "scaling" in text
