"""Master weights by hand: the parts that `FP16_Optimizer` is made of.

    model_params, master_params = prep_param_lists(model)        optimizer = SGD(model.parameters(), lr=0.1)
    optimizer = SGD(master_params, lr=0.1)
    ...
    (loss * 128.0).backward()                              =>    optimizer.backward(loss)
    model_grads_to_master_grads(model_params, master_params)
    for param in master_params:
        param.grad.data.mul_(1.0 / 128.0)
    optimizer.step()                                             optimizer.step()
    master_params_to_model_params(model_params, master_params)

In the plain program the optimizer has the parameters of the model, and is wrapped with the scale that the loss had.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.facts.variables import Variable
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.fp16_utils import SCALE_BY_HAND
from amp_migrate.sources.fp16_utils.names import HAND_LOOPS, form_name
from amp_migrate.sources.fp16_utils.wrappers import masters_wrapped
from amp_migrate.sources.scaled_by_hand import divided_in_place, without_float


class Masters:
    """Takes the copies between model and masters out. Raises Refusal where they are used for anything else."""

    def __init__(self, facts: Facts, lowering: Lowering, statements: list[Statement]) -> None:
        self.facts = facts
        self.lowering = lowering
        self.statements = statements

    def lower(self) -> None:
        for statement, call in self._calls("prep_param_lists"):
            self._lists(statement, call)

    def _calls(self, *names: str) -> Iterator[tuple[Statement, cst.Call]]:
        for statement in self.statements:
            for call in self.facts.tree.calls(statement):
                if form_name(self.facts, call.func) in names:
                    yield statement, call

    def _lists(self, statement: Statement, call: cst.Call) -> None:
        node = statement.node
        target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2 or not call.args:
            raise self._refusal(call)
        lists = [self.facts.names.variable_at(element.value) for element in target.elements]
        if not all(one is not None and len(one.bindings) == 1 for one in lists):
            raise self._refusal(call)
        self.lowering.removed.append(statement)
        text = f"{self.facts.text(call.args[0].value)}.parameters()"
        divisors = set()
        for variable in lists:
            assert variable is not None
            for load in variable.loads:
                divisor = self._use(load, text)
                divisors |= {divisor} if divisor is not None else set()
        self._scale(statement, lists[1], divisors)

    def _use(self, load: cst.Name, text: str) -> str | None:
        """What becomes of one use of the lists; the scale, where it takes that off the gradients."""
        statement = self.facts.tree.statement_of(load)
        node, call = statement.node, self.facts.tree.taker(load)
        if isinstance(node, cst.For) and node.iter is load:
            self.lowering.removed.append(statement)
            return self._divisor(statement)
        if isinstance(call, cst.Call) and form_name(self.facts, call.func) in HAND_LOOPS:
            if statement not in self.lowering.removed:
                self.lowering.removed.append(statement)
            return None
        if isinstance(call, cst.Call) and not isinstance(node, cst.For):
            self.lowering.replaced[load] = text
            return None
        raise self._refusal(load)

    def _divisor(self, loop: Statement) -> str:
        """S of `param.grad.data.mul_(1. / S)`, `param.grad.data.div_(S)` and `param.grad.data /= S`."""
        body = loop.blocks[0].statements
        if len(body) == 1 and isinstance(body[0].node, cst.If) and _asks_for_gradient(body[0].node):
            body = body[0].blocks[0].statements
        divided = divided_in_place(self.facts, body[0]) if len(body) == 1 else []
        if len(divided) != 1:
            raise self._refusal(body[0].node)
        return source_key(divided[0])

    def _scale(self, prepared: Statement, masters: Variable | None, divisors: set[str]) -> None:
        """Wrap the optimizer that has the masters, and let it make the backward of the loss that was scaled."""
        made = [one for one in self.statements if masters is not None and self._makes_optimizer(one, masters)]
        if len(made) != 1 or len(divisors) > 1:
            raise self._refusal(prepared.node)
        node = made[0].node
        assert isinstance(node, cst.Assign)
        target = self.facts.text(node.targets[0].target)
        self.lowering.added.append((made[0], masters_wrapped(target, next(iter(divisors), None))))
        backwards = [
            (one, part)
            for one in self.statements
            for part in self.facts.tree.expressions(one)
            if isinstance(part, cst.Call) and called_name(part) == "backward" and isinstance(part.func, cst.Attribute)
        ]
        for statement, call in backwards:
            assert isinstance(call.func, cst.Attribute)
            loss = self._unscaled(call.func.value, next(iter(divisors), None), statement)
            self.lowering.replaced[call] = f"{target}.backward({loss})"

    def _makes_optimizer(self, statement: Statement, masters: Variable) -> bool:
        node = statement.node
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Call) or len(node.targets) != 1:
            return False
        return called_name(node.value)[:1].isupper() and any(part in masters.loads for part in walk(node.value))

    def _unscaled(self, loss: cst.BaseExpression, scale: str | None, statement: Statement) -> str:
        """`loss` of `loss * S`, written there or under a name of its own. Raises Refusal where only half is there."""
        if scale is None:
            return self.facts.text(loss)
        values = self.facts.objects.values_of(loss) if isinstance(loss, cst.Name) else [loss]
        product = values[0] if len(values) == 1 else None
        if isinstance(product, cst.BinaryOperation) and isinstance(product.operator, cst.Multiply):
            for side, other in ((product.left, product.right), (product.right, product.left)):
                if source_key(other) == scale:
                    made = self.facts.tree.statement_of(product)
                    if made is not statement:
                        self._check_only_for(loss, statement)
                        self.lowering.removed.append(made)
                    return self.facts.text(without_float(side))
        message = f"gradients are divided by {scale}, and {self.facts.text(loss)} is not the loss times that"
        raise Refusal(SCALE_BY_HAND, loss, message)

    def _check_only_for(self, loss: cst.BaseExpression, statement: Statement) -> None:
        for load in self.facts.names.loads_at(loss):
            if self.facts.tree.statement_of(load) is not statement:
                message = f"the scaled loss {self.facts.text(load)} is read here, too"
                raise Refusal(SCALE_BY_HAND, load, message, case="read")

    def _refusal(self, node: cst.CSTNode) -> Refusal:
        text = " ".join(self.facts.text(node).split())
        return Refusal(SCALE_BY_HAND, node, f"{text} uses master weights in a way that is not known")


def _asks_for_gradient(node: cst.If) -> bool:
    """True for `if param.grad is not None:` without an `else`."""
    return node.orelse is None and source_key(node.test).endswith(".grad is not None")
