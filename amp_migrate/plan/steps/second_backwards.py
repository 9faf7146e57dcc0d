"""A plain backward under Apex that adds to gradients of scaled ones: adversarial training.

    with amp.scale_loss(loss, optimizer) as scaled_loss:          scaler.scale(loss).backward()
        scaled_loss.backward()
    fgm.attack()                                            =>    fgm.attack()
    model(inputs)[0].backward()                                   scaler.scale(model(inputs)[0]).backward()

Under O1 the `with` left unscaled gradients, which a plain backward adds to. Natively they stay scaled until the step,
so that the second loss is scaled as well: the sums are the same. What reads gradients in between must be in sight, and
must not care for their size (`files/scale_free.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.clips import is_clip
from amp_migrate.facts.dataflow import backward_slice, reads
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.files.as_ast import as_ast
from amp_migrate.files.scale_free import is_scale_free, reads_directions
from amp_migrate.findings import Refusal
from amp_migrate.module_text import module_text
from amp_migrate.plan.model import Backward, Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.inputs import is_input
from amp_migrate.rules.source_forms import APEX_AMP
from amp_migrate.rules.steps import GRADIENTS_IN_USE, UNSCALED_LOSS_IS_SCALED

# Methods of models and optimizers. What `parameters` are given to is asked itself.
_WITHOUT_GRADIENTS = frozenset("zero_grad train eval step parameters named_parameters state_dict".split())


class AddsGradients(Refusal):
    """A plain backward makes gradients that a scaled backward adds to before the step."""

    def __init__(self, statement: Statement) -> None:
        message = "a plain backward adds to gradients that a scaled backward adds to before the step"
        super().__init__(GRADIENTS_IN_USE, statement.node, message, case="second")
        self.statement = statement


class ScaleFree:
    """Tells which functions of the unit read gradients, and nothing of their size."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[cst.CSTNode, bool] = {}

    def are_all(self, functions: Collection[Function]) -> bool:
        """True where each of them, with the class that it is of, does so, and calls nothing else of the unit."""
        return bool(functions) and all(self._is_free(one) for one in functions)

    def _is_free(self, function: Function) -> bool:
        node = function.owner.node if function.owner is not None else function.node
        if node not in self._known:
            own = [*function.owner.methods.values()] if function.owner is not None else [function]
            alone = all(called in own for one in own for called in self.facts.calls.callees(one))
            self._known[node] = alone and self._never_asks_for_sizes(node)
        return self._known[node]

    def _never_asks_for_sizes(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Module) or ".grad" not in module_text(self.facts.file_of(node).module).lines(node):
            return False
        return is_scale_free(as_ast(node))


def scale_second_backward(facts: Facts, found: Recognition, roles: Roles, refusal: AddsGradients) -> None:
    """Note the backward as one that is scaled. Raises the refusal, with the reason, where that is not the same."""
    statement = refusal.statement
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    others = [one for one in found.backwards if one.statement.function is statement.function]
    reason = _reason(facts, found, roles, statement)
    if found.form != APEX_AMP or not others or not isinstance(call, cst.Call) or called_name(call) != "backward":
        raise refusal
    if not isinstance(call.func, cst.Attribute) or reason is not None:
        refusal.message = f"{refusal.message}; {reason}"
        raise refusal
    optimizers = [node for one in others for node in one.optimizers]
    loss = call.func.value
    found.backwards.append(Backward(statement, call, loss, optimizers, arguments=list(call.args)))
    found.findings.append(facts.finding(call, UNSCALED_LOSS_IS_SCALED, f"{facts.text(loss)} is scaled as well now"))


def _reason(facts: Facts, found: Recognition, roles: Roles, statement: Statement) -> str | None:
    """Why its gradients cannot be scaled, None where they can."""
    for backward in found.backwards:
        if any(arg.keyword is not None and arg.keyword.value == "delay_unscale" for arg in backward.call.args):
            return "with delay_unscale it met scaled ones"
    for setup in found.setups:
        if setup.level not in (None, "O0", "O1"):
            return f"apex's {setup.level} lost what it added"
    if not _runs_model(facts, roles, statement):
        return "its forward is not in sight"
    if (read := _gradient_of_input(facts, roles, statement.function)) is not None:
        return f"{facts.text(read)} is read, and nothing unscales it"
    for sibling in statement.block.statements:
        for inner in sibling.descendants():
            for part in facts.tree.expressions(inner):
                if isinstance(part, cst.Call) and not _is_harmless(facts, roles, part):
                    return f"{facts.text(part.func)} may read gradients by their size"
    return None


def _gradient_of_input(facts: Facts, roles: Roles, function: Function) -> cst.Attribute | None:
    """A gradient that is read and that no optimizer takes: `delta.grad`."""
    parts = (part for inner in function.descendants() for part in facts.tree.expressions(inner))
    gradients = (part for part in parts if isinstance(part, cst.Attribute) and part.attr.value == "grad")
    return next((one for one in gradients if is_input(facts, roles.optimizers, one.value)), None)


def _runs_model(facts: Facts, roles: Roles, statement: Statement) -> bool:
    """True where the loss comes from a model that is trained in mixed precision."""
    wanted = list(reads(statement.node)) if statement.node is not None else []
    made = backward_slice(statement, wanted, lambda path: False).statements | {statement}
    parts = (part for one in made for part in facts.tree.expressions(one))
    return any(isinstance(part, cst.Call) and roles.is_forward(part) for part in parts)


def _is_harmless(facts: Facts, roles: Roles, call: cst.Call) -> bool:
    """True for a call that reads no gradients, or nothing of their size."""
    if roles.is_forward(call) or facts.objects.candidates(call) or is_clip(facts, call):
        return True  # what the unit's own functions do is known, as other uses of gradients are
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    if receiver is not None and (roles.is_model(receiver) or roles.optimizers_at(receiver)):
        return called_name(call) in _WITHOUT_GRADIENTS
    makers = [one for one in facts.objects.values_of(receiver) if isinstance(one, cst.Call)] if receiver else []
    for made in (call, *makers):
        if any(roles.is_model(arg.value) for arg in made.args) and not roles.is_forward(made):
            names = facts.names.imported_as(made.func)
            if not names or not all(map(reads_directions, names)):
                return False
    return bool(makers) or not _is_handed_in(facts, receiver)


def _is_handed_in(facts: Facts, receiver: cst.BaseExpression | None) -> bool:
    """True for a parameter: what a caller gave may be anything."""
    return any(binding.kind == "param" for binding in facts.names.bindings_at(receiver))
