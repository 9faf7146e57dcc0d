"""Loss scales as text."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.model import LossScale


def number_text(value: float) -> str:
    """`128.0`."""
    return repr(float(value))


def static_text(facts: Facts, scale: LossScale, at: Statement) -> str:
    """A static loss scale as the file calls it, where that name can be read at a statement; else the number."""
    assert scale.static is not None
    if isinstance(scale.name, cst.Name):
        is_in_sight = _is_constant_above(facts, scale.name, at)
    else:
        is_in_sight = isinstance(scale.name, cst.Attribute) and _is_of_the_same_self(facts, scale.name, at)
    return facts.text(scale.name) if is_in_sight and scale.name is not None else number_text(scale.static)


def _is_constant_above(facts: Facts, name: cst.Name, at: Statement) -> bool:
    """True for a float that the module of a statement binds before: `LOSS_SCALE = 128.0`."""
    variable = facts.names.definition(name)
    if variable is None or facts.names.visible(name.value, at.function) is not variable:
        return False
    (binding,) = variable.bindings  # or it were no constant
    bound = binding.statement
    if bound is None or binding.value is None or not isinstance(literal_value(binding.value), float):
        return False
    is_at_top = bound.function.is_module and bound.block.owner is None
    return is_at_top and (not at.function.is_module or bound.index < at.path()[0].index)


def _is_of_the_same_self(facts: Facts, attribute: cst.Attribute, at: Statement) -> bool:
    """True for `self.loss_scale` in another method than the constructor, which may set it later."""
    reader = facts.tree.function_of(attribute)
    if reader.owner is None or reader.owner is not at.function.owner or at.function.name == "__init__":
        return False
    selves = {reader.receiver, at.function.receiver}
    values = facts.objects.values_of(attribute)
    is_float = bool(values) and all(isinstance(literal_value(value), float) for value in values)
    return is_float and isinstance(attribute.value, cst.Name) and selves == {attribute.value.value}


def float_text(facts: Facts, node: cst.BaseExpression) -> str:
    """`scaler.update()` takes floats only."""
    value = literal_value(node)
    if isinstance(value, (int, float)):
        return facts.text(node) if isinstance(value, float) else number_text(value)
    return f"float({facts.text(node)})"
