"""What shows that a value is a tensor, and in which precision it leaves an autocast region."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name

# Operations that autocast runs in float32 ([T2.13:include/ATen/autocast_mode.h]): they belong to the region.
IN_FLOAT32 = frozenset(
    "softmax log_softmax cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss kl_div "
    "binary_cross_entropy_with_logits cosine_similarity log exp pow norm sum prod cumsum".split()
)
# What may be asked of a half tensor as of a float one.
_NEUTRAL = frozenset(
    "size shape dim ndim device argmax argmin max min topk sort argsort item is_cuda dtype eq ge gt le lt numel".split()
)
# What is never half, whatever it is made of.
_EXACT = frozenset(
    "argmax argmin argsort item tolist long int bool eq ne gt ge lt le numel size nonzero float double".split()
)
_MOVES = frozenset("cpu cuda detach data numpy squeeze view reshape flatten tolist".split())
_FLOATING = IN_FLOAT32 | frozenset("sigmoid mean argmax max topk exp tanh".split())
_TAKE_LISTS = frozenset("stack cat hstack vstack dstack concat concatenate".split())
# What returns values and their indices.
_WITH_INDICES = frozenset("max min topk sort kthvalue median mode".split())
TENSOR_METHODS = _NEUTRAL | frozenset(
    "cpu detach data view reshape squeeze unsqueeze permute transpose softmax log_softmax sigmoid float clone mean "
    "sum contiguous tolist numpy flatten chunk split abs exp clamp".split()
)


class Tensors:
    """Answers about the tensors of one module."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def ends_in_float32(self, node: cst.BaseExpression) -> bool:
        """True where the last operation with a precision of its own runs in float32."""
        while isinstance(node, (cst.Subscript, cst.Call)):
            if isinstance(node, cst.Subscript):
                node = node.value
                continue
            name = called_name(node)
            if name in IN_FLOAT32 or name in _EXACT:
                return True
            if not isinstance(node.func, cst.Attribute) or name not in TENSOR_METHODS:
                return False
            node = node.func.value
        return False

    def half_names(self, target: cst.BaseExpression, value: cst.BaseExpression) -> list[str] | None:
        """The names that get half values; None where something other than names is set."""
        names = plain_names(target)
        if names is None or self.ends_in_float32(value):
            return [] if names is not None else None
        with_indices = isinstance(value, cst.Call) and called_name(value) in _WITH_INDICES and len(names) == 2
        return names[:1] if with_indices else names

    def is_neutral(self, load: cst.Name) -> bool:
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return self._attribute_after_detaching(parent) in _NEUTRAL | _EXACT
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            return isinstance(call, cst.Call) and called_name(call) in ("len", "argmax", "max", "topk", "float")
        while isinstance(parent, (cst.Element, cst.Tuple)):
            parent = self.facts.tree.parents.get(parent)
        return isinstance(parent, cst.Del)

    def asks_dtype(self, load: cst.Name) -> bool:
        """`torch.zeros(n, dtype=x.dtype)`: what is made so must take the value as it is."""
        parent = self.facts.tree.parents.get(load)
        return isinstance(parent, cst.Attribute) and parent.value is load and parent.attr.value == "dtype"

    def _attribute_after_detaching(self, node: cst.Attribute) -> str:
        """`max` in `x.max` as in `x.data.max` and `x.detach().max`."""
        while node.attr.value in ("data", "detach"):
            parent = self.facts.tree.parents.get(node)
            if node.attr.value == "detach":
                parent = self.facts.tree.parents.get(parent) if isinstance(parent, cst.Call) else None
            if not isinstance(parent, cst.Attribute):
                break
            node = parent
        return node.attr.value

    def shows_tensor(self, load: cst.BaseExpression) -> bool:
        """A use that only a tensor allows."""
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return parent.attr.value in TENSOR_METHODS
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            if isinstance(call, cst.Call) and call.args[0] is parent:
                dotted = self.facts.names.dotted(call.func) or ""
                takes_lists = called_name(call) in _TAKE_LISTS
                return (dotted.startswith("torch.") and not takes_lists) or self.is_torch_loss(call)
        return False

    def is_torch_loss(self, call: cst.Call) -> bool:
        """A criterion of torch.nn, called on its input, or its functional form."""
        dotted = self.facts.names.dotted(call.func) or ""
        if dotted.startswith("torch.nn.functional."):
            return called_name(call).endswith("loss") or called_name(call) in IN_FLOAT32
        if not isinstance(call.func, (cst.Name, cst.Attribute)):
            return False
        origins = [one.origin for one in self.facts.objects.objects(call.func)]
        return bool(origins) and all(
            isinstance(origin, cst.Call) and (self.facts.names.dotted(origin.func) or "").startswith("torch.nn.")
            for origin in origins
        )

    def shows_floating(self, load: cst.Name) -> bool:
        """A use that only floating tensors allow, or that is made of scores."""
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.value is load:
            return parent.attr.value in _FLOATING
        call = self.facts.tree.parents.get(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and (called_name(call) in _FLOATING or self.is_torch_loss(call))

    def shows_ids(self, load: cst.Name) -> bool:
        """A use as of class numbers: `x.cpu().eq(labels)`, `x == labels`, `names[x]`."""
        node: cst.CSTNode = load
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.Attribute, cst.Call)) and _moved_by(parent) in _MOVES:
            node, parent = parent, self.facts.tree.parents.get(parent)
        if isinstance(parent, cst.Attribute):
            return parent.value is node and parent.attr.value in ("eq", "ne")
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
            return parent.attr.value not in TENSOR_METHODS
        if isinstance(parent, cst.Assign) and parent.value is load:
            return isinstance(parent.targets[0].target, (cst.Tuple, cst.List))
        if isinstance(parent, cst.Arg):
            call = self.facts.tree.parents.get(parent)
            return isinstance(call, cst.Call) and called_name(call) in _TAKE_LISTS
        return isinstance(parent, (cst.For, cst.StarredElement))


def _moved_by(node: cst.Attribute | cst.Call) -> str:
    return called_name(node) if isinstance(node, cst.Call) else node.attr.value


def plain_names(target: cst.BaseExpression) -> list[str] | None:
    """The names of an assignment target; None where it sets anything else."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, (cst.Tuple, cst.List)):
        names: list[str] = []
        for element in target.elements:
            inner = plain_names(element.value)
            if inner is None:
                return None
            names.extend(inner)
        return names
    return None


def leaves_torch(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for `x.half()` in `x.half().cpu().numpy()`: no model can be given it any more."""
    parent = facts.tree.parents.get(node)
    while isinstance(parent, (cst.Attribute, cst.Call)):
        if isinstance(parent, cst.Attribute) and parent.attr.value in ("numpy", "tolist", "item"):
            return True
        if isinstance(parent, cst.Attribute) and parent.attr.value not in _MOVES:
            return False
        parent = facts.tree.parents.get(parent)
    return False
