"""Functions of the unit that cast the model which they are given, and give it back: their calls are casts (rule G4).

def convert(model):
    old_model = model
    new_model = BN_convert_float(model.half())
    del old_model
    return new_model
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.facts.tree import Function, Statement

Uncast = Callable[[cst.BaseExpression], cst.BaseExpression]


def only_casts(function: Function, uncast: Uncast) -> bool:
    """True for a function of one parameter that returns it, whatever it is called on the way, and casts it; `uncast`
    gives what is below the casts of an expression.
    """
    if function.is_module or function.owner is not None or len(function.parameters) != 1:
        return False
    helper = _Helper(function.parameters[0].name.value, uncast)
    return all(map(helper.follows, function.body.statements)) and helper.casts and helper.returns


class _Helper:
    def __init__(self, name: str, uncast: Uncast) -> None:
        self.casts = self.returns = False
        self._names = {name}
        self._uncast = uncast

    def follows(self, statement: Statement) -> bool:
        """True for a statement that casts the model, or gives it another name."""
        node = statement.node
        if isinstance(node, cst.Assign):
            targets = [one.target for one in node.targets]
            names = {one.value for one in targets if isinstance(one, cst.Name)}
            self._names |= names
            return len(names) == len(targets) and self._is_model(node.value)
        if isinstance(node, cst.Return):
            self.returns = True
            return node.value is not None and self._is_model(node.value)
        if isinstance(node, cst.Del):
            return isinstance(node.target, cst.Name) and node.target.value in self._names
        return isinstance(node, cst.Expr) and (isinstance(node.value, cst.BaseString) or self._is_model(node.value))

    def _is_model(self, value: cst.BaseExpression) -> bool:
        below = self._uncast(value)
        self.casts = self.casts or below is not value
        return isinstance(below, cst.Name) and below.value in self._names
