"""What the uses of a value show: that it is a tensor, a floating one, class numbers, or none at all."""

from __future__ import annotations

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.interp.calls import Calls
from amp_migrate.interp.uses import shows_tensor
from amp_migrate.models import Operation, names, traits
from amp_migrate.models.dtypes import INTEGER
from amp_migrate.models.queries import in_float32, is_exact, only_moves


class Tensors:
    """Answers about the tensors of one module."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def is_neutral(self, load: cst.Name) -> bool:
        """True for what may be asked of a half tensor as of a float one."""
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return self._attribute_after_detaching(parent) in names(_is_neutral)
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            return isinstance(call, cst.Call) and called_name(call) in names(_is_neutral) | {"len"}
        if isinstance(parent, cst.Comparison):
            return all(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in parent.comparisons)
        while isinstance(parent, (cst.Element, cst.Tuple)):
            parent = self.facts.tree.parents.get(parent)
        return isinstance(parent, cst.Del)

    def asks_dtype(self, load: cst.Name) -> bool:
        """`torch.zeros(n, dtype=x.dtype)`: what is made so must take the value as it is."""
        parent = self.facts.tree.parents.get(load)
        return isinstance(parent, cst.Attribute) and parent.value is load and parent.attr.value == "dtype"

    def _attribute_after_detaching(self, node: cst.Attribute) -> str:
        """`max` in `x.max` as in `x.data.max` and `x.detach().max`."""
        while node.attr.value in names(_detaches):
            parent = self.facts.tree.parents.get(node)
            if isinstance(parent, cst.Call):
                parent = self.facts.tree.parents.get(parent)
            if not isinstance(parent, cst.Attribute):
                break
            node = parent
        return node.attr.value

    def shows_tensor(self, load: cst.BaseExpression) -> bool:
        """A use that only a tensor allows."""
        if shows_tensor(self.facts, load):
            return True
        call = self.facts.tree.taker(load)
        return call is not None and call.args[0].value is load and self._may_be_layer(call)

    def _may_be_layer(self, call: cst.Call) -> bool:
        """A layer or a criterion of torch.nn takes a tensor first, and so does what else the call may mean; not a
        container that begins with another module.
        """
        layers = self.facts.analysis(Calls).layers.possible(call.func)
        return any(operations and operations[0] is not None for operations in layers)

    def is_torch_loss(self, call: cst.Call) -> bool:
        """A criterion of torch.nn, called on its input, or its functional form."""
        dotted = self.facts.names.dotted(call.func) or ""
        if dotted.startswith("torch.nn.functional."):
            return called_name(call).endswith("loss") or called_name(call) in names(in_float32)
        origins = [one.origin for one in self.facts.objects.objects(call.func)]
        return bool(origins) and all(
            isinstance(origin, cst.Call) and (self.facts.names.dotted(origin.func) or "").startswith("torch.nn.")
            for origin in origins
        )

    def shows_floating(self, load: cst.BaseExpression) -> bool:
        """A use that only floating tensors allow, or that is made of scores."""
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return parent.attr.value in names(_is_of_scores)
        call = self.facts.tree.taker(load)
        return call is not None and (called_name(call) in names(_is_of_scores) or self.is_torch_loss(call))

    def shows_ids(self, load: cst.Name) -> bool:
        """A use as of class numbers: `x.cpu().eq(labels)`, `x == labels`, `names[x]`."""
        moves = names(only_moves) | traits.named("leaves torch")
        node: cst.CSTNode = load
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.Attribute, cst.Call)) and _name(parent) in moves:
            node, parent = parent, self.facts.tree.parents.get(parent)
        if isinstance(parent, cst.Attribute):
            return parent.value is node and parent.attr.value in traits.named("equality")
        if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
            comparison = parent if isinstance(parent, cst.Comparison) else self.facts.tree.parents[parent]
            assert isinstance(comparison, cst.Comparison)
            return isinstance(comparison.comparisons[0].operator, (cst.Equal, cst.NotEqual))
        return isinstance(parent, cst.Index)

    def shows_other(self, load: cst.Name) -> bool:
        """A use that speaks for a tuple or a dict: `out["logits"]`, `out.logits`, `a, b = out`."""
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Subscript) and parent.value is load:
            index = parent.slice[0].slice
            return isinstance(index, cst.Index) and isinstance(index.value, cst.BaseString)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return models.method(parent.attr.value) is None
        if isinstance(parent, cst.Assign) and parent.value is load:
            return isinstance(parent.targets[0].target, (cst.Tuple, cst.List))
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            return isinstance(call, cst.Call) and called_name(call) in traits.named("list")
        return isinstance(parent, (cst.For, cst.StarredElement))


def _detaches(row: Operation) -> bool:
    return row.shape_only and row.drops_gradient


def _is_neutral(row: Operation) -> bool:
    """The same of a half tensor as of a float one: sizes, classes, maxima with their places; and casts."""
    is_cast = row.kind == "method" and row.result in ("single", "double")
    return is_exact(row) or is_cast or (row.picks and "integer" in row.outputs)


def _is_of_scores(row: Operation) -> bool:
    """Of floating tensors alone, or of scores."""
    is_of_floats = row.policy == "single" or row.result == "floating" or INTEGER in row.without
    return row.is_a("of scores") or (is_of_floats and not row.is_a("quotient") and not row.is_a("leaves torch"))


def _name(node: cst.Attribute | cst.Call) -> str:
    return called_name(node) if isinstance(node, cst.Call) else node.attr.value


def leaves_torch(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for `x.half()` in `x.half().cpu().numpy()`: no model can be given it any more."""
    parent = facts.tree.parents.get(node)
    while isinstance(parent, (cst.Attribute, cst.Call)):
        if isinstance(parent, cst.Attribute) and parent.attr.value in traits.named("leaves torch"):
            return True
        if isinstance(parent, cst.Attribute) and parent.attr.value not in names(only_moves):
            return False
        parent = facts.tree.parents.get(parent)
    return False
