"""Master weights by hand in one arm, the plain program in the other.

    if args.fp16:
        model_params, master_params = prep_param_lists(model)
    else:
        master_params = list(model.parameters())
    optimizer = SGD(master_params, lr=0.1)
    ...
    if args.fp16:
        (loss * args.scale).backward()
        model_grads_to_master_grads(model_params, master_params)
        for param in master_params:
            param.grad.data.div_(args.scale)
        optimizer.step()
        master_params_to_model_params(model_params, master_params)
    else:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

is read as

    master_params = list(model.parameters())
    optimizer = SGD(master_params, lr=0.1)
    if args.fp16:
        optimizer = FP16_Optimizer(optimizer, ...)
    ...
    optimizer.zero_grad()
    optimizer.backward(loss)
    optimizer.step()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated, source_key
from amp_migrate.facts.tree import Block, Statement, called_name, walk
from amp_migrate.findings import Finding, Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.fp16_utils import ARMS_DIFFERED, SCALE_BY_HAND
from amp_migrate.sources.fp16_utils.names import HAND_LOOPS, form_name
from amp_migrate.sources.fp16_utils.wrappers import masters_wrapped
from amp_migrate.sources.scaled_by_hand import divided_in_place

_ITERATORS = frozenset("parameters filter map iter".split())


class GuardedMasters:
    """Reads the arms that go. Raises Refusal where the loss and the gradients are not scaled by the same number."""

    def __init__(self, facts: Facts, lowering: Lowering) -> None:
        self.facts = facts
        self.lowering = lowering
        self._lists: list[tuple[Block, str]] = []  # the plain arms beside those that make them, with these' guards
        self._steps: list[tuple[cst.BaseExpression, cst.BaseExpression | None]] = []

    def are_in(self, statement: Statement) -> bool:
        """True for a statement that calls one of the functions that keep masters."""
        return any(form_name(self.facts, call.func) in HAND_LOOPS for call in self.facts.tree.calls(statement))

    def optimizer_of(self, statement: Statement, plain: Block, other: Block) -> cst.BaseExpression | None:
        """The optimizer of a training step in an arm that goes. One that makes the lists is noted."""
        inner = [one for outer in other.statements for one in outer.descendants()]
        if not any(self.are_in(one) for one in inner):
            return None
        assert isinstance(statement.node, cst.If)
        calls = [call for one in inner for call in self.facts.tree.calls(one)]
        if any(form_name(self.facts, call.func) == "prep_param_lists" for call in calls):
            test = statement.node.test if other.arm == "body" else negated(statement.node.test)
            self._lists.append((plain, self.facts.text(test)))
        methods = [(call, call.func) for call in calls if isinstance(call.func, cst.Attribute)]
        steps = [func.value for _, func in methods if func.attr.value == "step"]
        backwards = [call for call, func in methods if func.attr.value == "backward"]
        if not backwards:
            return None
        if len(steps) != 1 or len(backwards) != 1:
            message = "master weights are kept here, with no single backward and step"
            raise Refusal(SCALE_BY_HAND, statement.node, message)
        self._steps.append((steps[0], self._scale(inner, backwards[0])))
        return steps[0]

    def keep_lists(self, is_gone: Callable[[Statement], bool]) -> Iterator[Finding]:
        """`a = b = model.parameters()` in place of two lists: whoever reads it after the first use finds it empty, and
        `zip(a, b)` pairs each parameter with the next one. It is a list for both arms.
        """
        for statement in (one for plain, _ in self._lists for one in plain.statements):
            node = statement.node
            if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Call):
                continue
            read = [load for load in self._loads(node) if not is_gone(self.facts.tree.statement_of(load))]
            if called_name(node.value) in _ITERATORS and len(read) > 1:
                text = self.facts.text(node.value)
                self.lowering.replaced[node.value] = f"list({text})"
                message = f"in float32 {text} was empty after its first use; it is a list now, as it was in half"
                yield self.facts.finding(node, ARMS_DIFFERED, message, "list")

    def _loads(self, node: cst.Assign) -> Iterator[cst.Name]:
        """Where the names are read that an assignment binds."""
        for target in node.targets:
            yield from self.facts.names.loads_at(target.target)

    def wrap(self) -> None:
        """The optimizers of these steps are wrapped where they are made, under the guard of the lists."""
        for optimizer, scale in self._steps:
            origins = {one.origin for one in self.facts.objects.objects(optimizer)}
            made = [self.facts.tree.statement_of(one) for one in origins if isinstance(one, cst.Call)]
            node = made[0].node if len(made) == 1 else None
            guards = [text for plain, text in self._lists if made and plain.function is made[0].function]
            if not isinstance(node, cst.Assign) or len(node.targets) != 1 or len(guards) != 1:
                text = self.facts.text(optimizer)
                message = f"{text} has master weights, and where it is made is not understood"
                raise Refusal(SCALE_BY_HAND, optimizer, message)
            target = self.facts.text(node.targets[0].target)
            wrapped = masters_wrapped(target, self._visible(scale) if scale is not None else None)
            self.lowering.added.append((made[0], f"if {guards[0]}:\n    {wrapped}"))

    def _scale(self, inner: list[Statement], backward: cst.Call) -> cst.BaseExpression | None:
        """S of `loss * S` before the backward and of the division after it."""
        assert isinstance(backward.func, cst.Attribute)
        taken = [one for statement in inner for one in divided_in_place(self.facts, statement)]
        factors = list(_factors(backward.func.value))
        for statement in inner:
            if (
                isinstance(statement.node, cst.Assign)
                and statement.order < self.facts.tree.statement_of(backward).order
            ):
                factors += _factors(statement.node.value)
        keys = {source_key(one) for one in (*taken, *factors)}
        if not keys:
            return None
        if len(keys) != 1 or len(taken) != 1 or len(factors) != 1:
            text = " ".join(self.facts.text(backward).split())
            raise Refusal(SCALE_BY_HAND, backward, f"{text}: the loss and the gradients are not scaled by one number")
        return taken[0]

    def _visible(self, scale: cst.BaseExpression) -> str:
        """The scale where the optimizer is made: a number, or what belongs to the module."""
        for part in walk(scale):
            variable = self.facts.names.variable_at(part)
            if variable is not None and not all(one.function.is_module for one in _statements(variable.bindings)):
                message = f"{self.facts.text(scale)} is not known where the optimizer is made"
                raise Refusal(SCALE_BY_HAND, scale, message)
        return self.facts.text(scale)


def _statements(bindings: object) -> Iterator[Statement]:
    assert isinstance(bindings, (list, tuple))
    yield from (one.statement for one in bindings if one.statement is not None)


def _factors(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """S of `loss * S`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        sides = [one for one in (node.left, node.right) if "loss" in source_key(one).split(".")[0].split("(")[0]]
        if len(sides) == 1:
            yield node.right if sides[0] is node.left else node.left
