"""Tensors that are trained, and that no module has among its parameters.

self.alphas = Variable(1e-3 * torch.randn(k, n), requires_grad=True)
def arch_parameters(self): return [self.alphas, self.betas]

Adam(model.arch_parameters())                           has these alone
clip_grad_norm_(model.parameters(), 5.0)                has none of them
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.models import names
from amp_migrate.models.queries import creates


def loose_tensors(facts: Facts, node: cst.BaseExpression) -> ObjectSet:
    """The elements of a list, where all of them are such tensors; nothing where one may be anything else."""
    found = facts.objects.elements(node)
    return found if all(map(_is_loose, found)) else frozenset()


def _is_loose(tensor: Object) -> bool:
    call = tensor.origin
    if not isinstance(call, cst.Call) or called_name(call) not in names(creates) | {"Variable"}:
        return False
    wanted = argument_value(call, "requires_grad")
    return wanted is not None and literal_value(wanted) is True
