"""Operations of torch that a script registers as float functions, and that autocast leaves to their inputs.

    amp.register_float_function(torch, "sigmoid")       (goes)
    torch.sigmoid(self.out(x))                          torch.sigmoid(self.out(x).float())
    self.gate(x)         (an nn.Sigmoid)                self.gate(x.float())

Apex changed `torch.sigmoid` for everybody. Natively the input is cast where it is called: in the files of the unit,
which is joined by the local modules that call it. In an nn.Sequential there is no place for that.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.models.queries import layer_of
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.apex import CAST_FUNCTION


def cast_operation(facts: Facts, found: Recognition, registration: cst.Call, name: str) -> None:
    """Add the inputs of an operation to what is cast to float32. Raises Refusal."""
    layer = layer_of(name)
    for statement in facts.tree.all_statements():
        for part in facts.tree.expressions(statement):
            if not isinstance(part, cst.Call):
                continue
            if facts.names.dotted(part.func) == f"torch.{name}" and part.args:
                found.floats.append(part.args[0].value)
            elif layer and facts.names.dotted(part.func) == layer:
                _require_called(facts, registration, part)
            elif layer and part.args and _is_module(facts, part.func, layer):
                found.floats.append(part.args[0].value)


def _is_module(facts: Facts, node: cst.BaseExpression, path: str) -> bool:
    """True for `self.gate` of `self.gate = nn.Sigmoid()`."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    values = facts.objects.values_of(node)
    return bool(values) and all(isinstance(one, cst.Call) and facts.names.dotted(one.func) == path for one in values)


def _require_called(facts: Facts, registration: cst.Call, module: cst.Call) -> None:
    """A module that is an attribute is called by its name; one in a container is not."""
    if not isinstance(facts.tree.parents.get(module), cst.Assign):
        text = facts.text(module)
        message = f"{facts.text(registration)}: {text} stands in a container, where its input cannot be cast"
        raise Refusal(CAST_FUNCTION, module, message)
