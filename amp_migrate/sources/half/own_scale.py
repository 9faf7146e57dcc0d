"""A loss scale that a class keeps and moves by itself, as the logarithm of what the loss is multiplied by.

    self.lg_loss_scale = 20.0                                   where it starts
    ((2 ** self.lg_loss_scale) * loss).backward()
    if not finite: self.lg_loss_scale -= 1                      half of it after an overflow
    self.lg_loss_scale += self.growth                           a little more after every step

GradScaler does the same with init_scale, growth_factor and a growth_interval of 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Class, Statement, called_name, is_atom
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.native.lower import SCALE_NOW
from amp_migrate.plan.purity import only_says
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.half import OWN_SCALE


@dataclasses.dataclass(eq=False)
class ScaledLoss:
    """`(loss * 2 ** self.lg_scale).backward()` in a method of a class: `power` is the factor, `exponent` what moves."""

    statement: Statement
    call: cst.Call
    power: cst.BinaryOperation
    exponent: cst.Attribute
    owner: Class


def scaled_losses(facts: Facts) -> Iterator[ScaledLoss]:
    """Every backward of a loss that is multiplied by a power whose exponent its class moves."""
    for call, statement in facts.tree.every(cst.Call):
        owner = statement.function.owner
        if owner is not None and called_name(call) == "backward" and isinstance(call.func, cst.Attribute):
            for power in _factors(facts, call.func.value):
                exponent = power.right
                if isinstance(exponent, cst.Attribute) and _is_moved(facts, exponent, owner):
                    yield ScaledLoss(statement, call, power, exponent, owner)


def _factors(facts: Facts, loss: cst.BaseExpression) -> Iterator[cst.BinaryOperation]:
    """The powers among the factors of a product, through names with one value."""
    product = _behind(facts, loss)
    if not isinstance(product, cst.BinaryOperation) or not isinstance(product.operator, cst.Multiply):
        return
    for side in (product.left, product.right):
        factor = _behind(facts, side)
        if isinstance(factor, cst.BinaryOperation) and isinstance(factor.operator, cst.Power):
            yield factor


def _behind(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression:
    values = facts.objects.values_of(node) if isinstance(node, cst.Name) else []
    return values[0] if len(values) == 1 else node


def _is_moved(facts: Facts, exponent: cst.Attribute, owner: Class) -> bool:
    return any(isinstance(one.node, cst.AugAssign) for one, _ in _stores(facts, exponent, owner))


def _stores(facts: Facts, exponent: cst.Attribute, owner: Class) -> Iterator[tuple[Statement, cst.BaseExpression]]:
    """The statements of a class, and of those it is derived from, that set the exponent, with the value."""
    root = facts.objects.root_class(owner)
    for statement in facts.tree.all_statements():
        node = statement.node
        targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else []
        if isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            targets = [node.target]
        if not any(source_key(target) == source_key(exponent) for target in targets):
            continue
        own = statement.function.owner
        assert isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign))
        if own is not None and facts.objects.root_class(own) is root and node.value is not None:
            yield statement, node.value


class OwnScale:
    """Reads how one exponent moves; `dead` are the statements that go with the arms in half."""

    def __init__(self, facts: Facts, loss: ScaledLoss, dead: Collection[Statement]) -> None:
        self.facts = facts
        self.loss = loss
        self.dead = dead
        self.name = facts.text(loss.exponent)

    def first(self) -> tuple[Statement, str]:
        """The statement with the value that it starts from, and what GradScaler is to be told. Raises Refusal."""
        live = [(one, value) for one, value in self._stores() if one not in self.dead]
        if len(live) != 1 or isinstance(live[0][0].node, cst.AugAssign):
            node = live[-1][0].node if live else self.loss.call
            raise Refusal(OWN_SCALE, node, f"{self.name} is set here as well: where the loss scale starts is not known")
        statement, value = live[0]
        arguments = [f"init_scale={self._power(value)}"]
        growth = self._growth()
        if growth is not None:
            arguments += [f"growth_factor={self._power(growth)}", "growth_interval=1"]
        return statement, ", ".join(arguments)

    def reads(self) -> Iterator[tuple[cst.Attribute, str]]:
        """The reads of the exponent that stay, each with what takes its place. Raises Refusal."""
        for statement in self.facts.tree.all_statements():
            if statement in self.dead:
                continue
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Attribute) and part.attr.value == self.loss.exponent.attr.value:
                    if self._is_store(statement, part) or not self._is_own(statement, part):
                        continue
                    if not only_says(statement) or source_key(part) != source_key(self.loss.exponent):
                        raise Refusal(OWN_SCALE, part, f"{self.facts.text(part)} is used outside of the arms in half")
                    yield part, self._logarithm(statement, part)

    def _stores(self) -> Iterator[tuple[Statement, cst.BaseExpression]]:
        return _stores(self.facts, self.loss.exponent, self.loss.owner)

    def _power(self, exponent: cst.BaseExpression) -> str:
        """`2 ** x`, as the script writes it."""
        text = self.facts.text(exponent)
        is_alone = is_atom(exponent) or isinstance(exponent, cst.BaseNumber)
        whole, own = self.facts.text(self.loss.power), self.name
        return whole.strip("()").replace(own, text if is_alone else f"({text})")

    def _growth(self) -> cst.BaseExpression | None:
        """What is added after a step; one is taken away after an overflow. Raises Refusal for other ways to move."""
        growth: cst.BaseExpression | None = None
        shrinks = False
        for statement, value in self._stores():
            if statement not in self.dead:
                continue
            node = statement.node
            operator = node.operator if isinstance(node, cst.AugAssign) else None
            if isinstance(operator, cst.SubtractAssign) and literal_value(value) in (1, 1.0):
                shrinks = True
            elif isinstance(operator, cst.AddAssign) and growth is None and self._grows(statement, value):
                growth = value
            else:
                raise Refusal(OWN_SCALE, node, f"{self.name} moves in a way that GradScaler has no settings for")
        if not shrinks or literal_value(self.loss.power.left) != 2:
            raise Refusal(OWN_SCALE, self.loss.call, f"{self.name} is not halved on an overflow, as GradScaler does")
        return growth

    def _grows(self, growth: Statement, value: cst.BaseExpression) -> bool:
        """True where it grows whenever there was no overflow, under no other condition."""
        number = literal_value(value)
        if isinstance(number, (int, float)) and number <= 0:
            return False
        shrinking = [one for one, _ in self._stores() if one in self.dead and one is not growth]
        guards = [one.statement for one in enclosing_guards(self.facts, growth) if one.statement in self.dead]
        return all(any(one.inside(guard) for one in shrinking) for guard in guards)

    def _is_store(self, statement: Statement, part: cst.Attribute) -> bool:
        return any(one is statement and value is not part for one, value in self._stores())

    def _is_own(self, statement: Statement, part: cst.Attribute) -> bool:
        """True for the attribute of this class: in its methods, or of an instance anywhere else."""
        owner = statement.function.owner
        if source_key(part.value) == source_key(self.loss.exponent.value) and owner is not None:
            root = self.facts.objects.root_class
            return root(owner) is root(self.loss.owner)
        return bool(self.facts.objects.objects(part.value) & self.facts.objects.objects(self.loss.exponent.value))

    def _logarithm(self, statement: Statement, part: cst.Attribute) -> str:
        """`math.log2(...)` of the scale, by what the file has imported. Raises Refusal without that."""
        root = self.facts.tree.root_of(statement.node)
        for one in self.facts.tree.all_statements():
            if isinstance(one.node, cst.Import) and one.function is root:
                for alias in one.node.names:
                    if alias.evaluated_name in ("math", "numpy"):
                        return f"{alias.evaluated_alias or alias.evaluated_name}.log2({SCALE_NOW})"
        raise Refusal(OWN_SCALE, part, f"{self.name} is printed, and this file has no logarithm for it: import math")


__all__ = ["OwnScale", "ScaledLoss", "scaled_losses"]
