"""Casts of modules to half, and what is left where one goes (rule G1).

model.half()                            goes
m.eval().half()                         m.eval()
model.to(device, torch.half)            model.to(device)
model.type(torch.cuda.HalfTensor)       model.cuda()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.plan.model import Lowering
from amp_migrate.sources.half.kept import Kept
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.half_types import HalfTypes


class ModuleCasts:
    """The casts of modules in some statements; `around` has the calls that give back the module that they are given.

    What is lowered is noted in `lowering`, with its `sites` and all that is `gone`.
    """

    def __init__(
        self,
        facts: Facts,
        modules: Modules,
        kept: Kept,
        statements: Iterable[Statement],
        around: Mapping[cst.Call, cst.BaseExpression],
    ) -> None:
        self.facts = facts
        self.kept = kept
        self.types = HalfTypes(facts)
        self.lowering = Lowering()
        self.sites: list[cst.CSTNode] = []
        self.gone: set[cst.CSTNode] = set()
        self._around = around
        self.found = [
            (statement, part)
            for statement in statements
            for part in facts.tree.calls(statement)
            if self.types.may_be_cast(part) and modules.is_module(receiver_of(part))
        ]

    def going(self) -> list[tuple[Statement, cst.Call]]:
        """The casts that are none of inference."""
        return [(statement, call) for statement, call in self.found if not self.kept.is_kept(call)]

    def lower(self, statement: Statement, call: cst.Call) -> None:
        """A cast goes; what else the call does stays."""
        receiver = receiver_of(call)
        self.sites.append(call)
        self.gone.update(walk(call))
        self.gone.difference_update(walk(receiver))
        if called_name(call) == "half":
            self.take_out(statement, call)
            return
        if called_name(call) == "type":
            is_move = any((self.types.half_name(arg.value) or "").startswith("torch.cuda") for arg in call.args)
            if is_move and not _is_on_gpu(receiver):
                self.lowering.replaced[call] = f"{self.facts.text(receiver)}.cuda()"
            else:
                self.take_out(statement, call)
            return
        for arg in call.args:
            if self.types.half_name(arg.value):
                if len(call.args) == 1:
                    self.take_out(statement, call)
                else:
                    self.lowering.dropped[call] = arg

    def take_out(self, statement: Statement, call: cst.Call) -> None:
        """What a cast is called on stays; a statement that does nothing else goes."""
        take_out(self.lowering, statement, call, self.uncast(receiver_of(call)))

    def uncast(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """`net` of `network_to_half(net.half())`: what is left of a module where its casts go."""
        casts = [call for _, call in self.going() if not call.args]
        while isinstance(node, cst.Call):
            if node in self._around:
                node = self._around[node]
            elif any(call is node for call in casts):
                node = receiver_of(node)
            else:
                break
        return node


def take_out(lowering: Lowering, statement: Statement, call: cst.Call, left: cst.BaseExpression) -> None:
    """The same, where `left` is what is left of what the cast is called on."""
    receiver = receiver_of(call)
    node = statement.node
    is_name = isinstance(receiver, (cst.Name, cst.Attribute, cst.Subscript))
    only_casts = isinstance(node, cst.Expr) and node.value is call and is_name
    if only_casts or assigns_itself(node, call, left):
        lowering.removed.append(statement)
    else:
        lowering.receivers.append(call)


def receiver_of(call: cst.Call) -> cst.BaseExpression:
    """What a method is called on."""
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def assigns_itself(node: cst.CSTNode, call: cst.Call, receiver: cst.BaseExpression) -> bool:
    """True for `net = net.half()`."""
    if not isinstance(node, cst.Assign) or node.value is not call or len(node.targets) != 1:
        return False
    return source_key(node.targets[0].target) == source_key(receiver)


def _is_on_gpu(node: cst.BaseExpression) -> bool:
    """True for `net.cuda()`, which needs no second move."""
    return isinstance(node, cst.Call) and called_name(node) == "cuda"
