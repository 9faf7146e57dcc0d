"""Names that an assertion limits to those of a list.

SUPPORTED = ["DiceLoss", "FocalLoss"]

def build(kind, **settings):
    assert kind in SUPPORTED
    return eval(kind)(**settings)
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.tree import Tree
from amp_migrate.facts.variables import Variable

_READS = frozenset("keys values items get index count copy".split())


def pattern_asserted(tree: Tree, names: Names, text: cst.BaseExpression) -> re.Pattern[str] | None:
    """The names that a variable may hold where its function asserts that it is one of a list; else None."""
    variable = names.variable_at(text)
    if variable is None or len(variable.bindings) != 1:
        return None  # what it is when it is asserted need not be what it is later
    for statement in tree.function_of(text).descendants():
        test = statement.node.test if isinstance(statement.node, cst.Assert) else None
        if isinstance(test, cst.Comparison) and names.variable_at(test.left) is variable:
            listed = _listed(tree, names, test)
            if listed:
                return re.compile("|".join(map(re.escape, listed)))
    return None


def _listed(tree: Tree, names: Names, test: cst.Comparison) -> list[str]:
    """The texts of `kind in SUPPORTED`; nothing where one of them is open."""
    if len(test.comparisons) != 1 or not isinstance(test.comparisons[0].operator, cst.In):
        return []
    table = test.comparisons[0].comparator
    if isinstance(table, (cst.Name, cst.Attribute)):
        variable = names.definition(table)
        values = [binding.value for binding in variable.bindings] if variable is not None else []
        if variable is None or len(values) != 1 or values[0] is None or _is_changed(tree, variable):
            return []
        table = values[0]
    parts: list[cst.BaseExpression] = []
    if isinstance(table, (cst.List, cst.Tuple, cst.Set)):
        parts = [element.value for element in table.elements]
    elif isinstance(table, cst.Dict):
        parts = [element.key for element in table.elements if isinstance(element, cst.DictElement)]
    texts = [part.evaluated_value if isinstance(part, cst.SimpleString) else None for part in parts]
    return [text for text in texts if isinstance(text, str)] if all(isinstance(one, str) for one in texts) else []


def _is_changed(tree: Tree, table: Variable) -> bool:
    """True for `SUPPORTED.append("Net")` and `MODELS["net"] = Net`: more names than those that were listed."""
    for load in table.loads:
        parent = tree.parents.get(load)
        if isinstance(parent, cst.Attribute) and parent.attr.value not in _READS:
            return True
        if isinstance(parent, cst.Subscript) and isinstance(tree.parents.get(parent), cst.AssignTarget):
            return True
    return False
