"""Hooks on tensors: what they do with the gradient that they are given.

    x.register_hook(lambda grad: -coeff * grad.clone())     linear: reversed gradients
    x.register_hook(lambda grad: grad.clamp(-1, 1))         sees how large the gradients are

A hook that is linear in the gradient commutes with the scale of the loss, so it does what it did before. Linear are
sums, and products with what does not depend on the gradient; whatever else a hook does with it is not looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, argument_value, called_name, names_in, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.models import names
from amp_migrate.models.queries import adds, is_linear_in_one, multiplies, scales


@dataclasses.dataclass(frozen=True)
class Product:
    """An expression of a hook that is linear in the gradient: `factors` are what it is multiplied with or divided by,
    and `gradient` is something in it that has the dtype of the gradient.
    """

    node: cst.BaseExpression
    factors: tuple[cst.BaseExpression, ...]
    gradient: cst.Name


def is_blind(facts: Facts, hook: Function) -> bool:
    """True for a hook that reads none of what it is given, and returns nothing: it clears a cache."""
    params = hook.signature
    given = [*hook.parameters[hook.is_method :], params.star_arg, params.star_kwarg]
    variables = [facts.names.variable_at(one.name) for one in given if isinstance(one, cst.Param)]
    returns = facts.objects.returned_by(hook)
    return not returns and not any(variable is not None and variable.loads for variable in variables)


def is_only_kept(facts: Facts, hook: Function) -> bool:
    """True for a hook that does `self.seen = grad` and no more, where nothing reads that but `return self.seen` of a
    method that nothing names: another script asks for it.
    """
    params, body, parents = hook.parameters[hook.is_method :], hook.body.statements, facts.tree.parents
    node = body[0].node if len(body) == 1 and params else None
    if not isinstance(node, cst.Assign) or facts.text(node.value) != params[0].name.value or len(node.targets) > 1:
        return False
    target = node.targets[0].target
    field = target.attr.value if isinstance(target, cst.Attribute) else ""
    texts = {one.value[1:-1] for one, _ in facts.tree.every(cst.SimpleString)}
    named = {one.attr.value for one, _ in facts.tree.every(cst.Attribute)} | texts
    for part, at in facts.tree.every(cst.Attribute):
        if part.attr.value == field and not isinstance(parents.get(part), cst.AssignTarget):
            is_asked = at.function.name in named or at.function.name == "forward" or not at.function.is_method
            if is_asked or not isinstance(parents.get(part), cst.Return):
                return False
    return bool(field) and field not in texts


def products_of(facts: Facts, hook: Function) -> list[Product] | None:
    """What a hook computes of the gradient, where all of it is linear; else None."""
    params = hook.parameters[hook.is_method :]
    if not params or not _is_as_written(facts, hook):
        return None
    reader = _Linear(facts, params[0].name.value)
    return reader.products if reader.runs(hook.body.statements) else None


def _is_as_written(facts: Facts, hook: Function) -> bool:
    """True without decorators but `torch.no_grad()`: others may look at what comes and goes."""
    return all("no_grad" in facts.text(one.decorator) for one in hook.decorators)


class _Linear:
    """Reads a hook from top to bottom: `gradients` are the names that hold something linear in the gradient."""

    def __init__(self, facts: Facts, gradient: str) -> None:
        self.facts = facts
        self.gradients = {gradient}
        self.products: list[Product] = []

    def computes(self, node: cst.BaseExpression) -> bool:
        """True where an expression is linear in the gradient; it is then one of the products."""
        factors = self._factors(node)
        if factors is None:
            return False
        used = next(part for part in walk(node) if isinstance(part, cst.Name) and part.value in self.gradients)
        self.products.append(Product(node, tuple(factors), used))
        return True

    def runs(self, statements: Sequence[Statement]) -> bool:
        """True where nothing but what is linear becomes of the gradient in some statements."""
        return all(self._runs(statement) for statement in statements)

    def _runs(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, cst.Return):
            return node.value is None or literal_value(node.value) is None or self.computes(node.value)
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            return self._assigns(node.targets[0].target, node.value)
        if isinstance(node, cst.AugAssign):
            return self._changes(node)
        if isinstance(node, cst.If):
            return self._is_free(node.test) and self._branches(statement)
        return isinstance(node, cst.Pass) or (isinstance(node, cst.Expr) and self._is_free(node.value))

    def _branches(self, statement: Statement) -> bool:
        """True where both arms are linear, and agree on what holds the gradient afterwards."""
        before = set(self.gradients)
        after = [before] if len(statement.blocks) == 1 else []
        for block in statement.blocks:
            self.gradients = set(before)
            if not self.runs(block.statements):
                return False
            after.append(self.gradients)
        return all(one == after[0] for one in after)

    def _assigns(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        if isinstance(target, cst.Name):
            if self._is_free(value):
                self.gradients.discard(target.value)
                return True
            is_linear = self.computes(value)
            self.gradients.add(target.value)
            return is_linear
        if isinstance(target, cst.Subscript) and self._is_gradient(target.value):  # grad[:, 0] = 0
            return self._is_free_index(target) and literal_value(value) in (0, 0.0)
        return self._is_free(target) and self._is_free(value)

    def _changes(self, node: cst.AugAssign) -> bool:
        """`grad *= 0.5` keeps its dtype, whatever it is multiplied with."""
        target = node.target.value if isinstance(node.target, cst.Subscript) else node.target
        if not self._is_gradient(target):
            return self._is_free(node.target) and self._is_free(node.value)
        if isinstance(node.target, cst.Subscript) and not self._is_free_index(node.target):
            return False
        if isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
            return self._factors(node.value) is not None
        return isinstance(node.operator, (cst.MultiplyAssign, cst.DivideAssign)) and self._is_free(node.value)

    # -- expressions ------------------------------------------------------------------------------------

    def _factors(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """What the gradient is multiplied with in an expression that is linear in it; else None."""
        if self._is_gradient(node):
            return []
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
            return self._factors(node.expression)
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, (cst.Add, cst.Subtract)):
                return self._sum([node.left, node.right])
            if isinstance(node.operator, cst.Multiply):
                return self._product(node.left, node.right) or self._product(node.right, node.left)
            return self._product(node.left, node.right) if isinstance(node.operator, cst.Divide) else None
        if isinstance(node, cst.IfExp):
            return self._sum([node.body, node.orelse]) if self._is_free(node.test) else None
        return self._call(node) if isinstance(node, cst.Call) else None

    def _sum(self, parts: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression] | None:
        found = [self._factors(part) for part in parts]
        return [one for factors in found for one in factors or ()] if None not in found else None

    def _product(self, part: cst.BaseExpression, factor: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        found = self._factors(part)
        return [*found, factor] if found is not None and self._is_free(factor) else None

    def _call(self, call: cst.Call) -> list[cst.BaseExpression] | None:
        """`grad.mul(mask)` and `torch.mul(grad, mask)`."""
        operands = list(self._operands(call))
        if not operands or any(arg.star for arg in call.args) or self.facts.objects.candidates(call):
            return None
        name, (first, *rest) = called_name(call), operands
        if name in names(is_linear_in_one):
            return self._factors(first) if all(self._is_free(one) for one in rest) else None
        if name in names(scales) and len(operands) == 2:
            is_new = name in names(multiplies) and not name.endswith("_")
            turned = self._product(rest[0], first) if is_new else None
            return self._product(first, rest[0]) or turned
        return self._sum(operands) if name in names(adds) and len(operands) == 2 else None

    def _operands(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        if not isinstance(call.func, cst.Attribute):
            return
        dotted = self.facts.names.dotted(call.func)
        if dotted is None:
            yield call.func.value
        if dotted is None or dotted.startswith("torch."):
            yield from (arg.value for arg in call.args)

    def _is_gradient(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and node.value in self.gradients

    def _is_free(self, node: cst.CSTNode) -> bool:
        """True for what does not depend on the gradient, nor on others."""
        return names_in(node).isdisjoint({*self.gradients, "grad"})

    def _is_free_index(self, node: cst.Subscript) -> bool:
        return all(self._is_free(element) for element in node.slice)


# Models whose gradients are logged by hooks, which see those of the scaled loss (rule H6).
#
#     wandb.watch(model)                        log="gradients" is the default, and "all" has them, too
#     wandb.init(project="x").watch(model)
#
# Only what is logged changes, so it is said and nothing is refused. Where the source scaled its loss, the hooks have
# seen scaled gradients all along.


def calls_that_log_gradients(facts: Facts) -> Iterator[cst.Call]:
    """Every call of `watch` that may hook the gradients of a model."""
    for call, _ in facts.tree.every(cst.Call):
        if called_name(call) == "watch" and _is_of_wandb(facts, call.func):
            logged = argument_value(call, "log", 2)
            if logged is None or literal_value(logged) not in ("parameters", None):
                yield call


def _is_of_wandb(facts: Facts, func: cst.BaseExpression) -> bool:
    """True for the function of the package, and for the method of a run."""
    if facts.names.dotted(func) == "wandb.watch":
        return True
    runs = facts.objects.objects(func.value) if isinstance(func, cst.Attribute) else ()
    makers = [one.origin.func for one in runs if isinstance(one.origin, cst.Call)]
    return any(facts.names.dotted(maker) == "wandb.init" for maker in makers)
