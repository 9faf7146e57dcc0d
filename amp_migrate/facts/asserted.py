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


def pattern_asserted(tree: Tree, names: Names, text: cst.BaseExpression) -> re.Pattern[str] | None:
    """The names that a variable may hold where its function asserts that it is one of a list; else None."""
    variable = names.variable_at(text) if isinstance(text, cst.Name) else None
    if variable is None:
        return None
    for statement in tree.function_of(text).descendants():
        test = statement.node.test if isinstance(statement.node, cst.Assert) else None
        if isinstance(test, cst.Comparison) and names.variable_at(test.left) is variable:
            listed = _listed(names, test)
            if listed:
                return re.compile("|".join(map(re.escape, listed)))
    return None


def _listed(names: Names, test: cst.Comparison) -> list[str]:
    """The texts of `kind in SUPPORTED`; nothing where one of them is open."""
    if len(test.comparisons) != 1 or not isinstance(test.comparisons[0].operator, cst.In):
        return []
    table = test.comparisons[0].comparator
    if isinstance(table, (cst.Name, cst.Attribute)):
        variable = names.definition(table)
        values = [binding.value for binding in variable.bindings] if variable is not None else []
        if len(values) != 1 or values[0] is None:
            return []
        table = values[0]
    parts: list[cst.BaseExpression] = []
    if isinstance(table, (cst.List, cst.Tuple, cst.Set)):
        parts = [element.value for element in table.elements]
    elif isinstance(table, cst.Dict):
        parts = [element.key for element in table.elements if isinstance(element, cst.DictElement)]
    texts = [part.evaluated_value if isinstance(part, cst.SimpleString) else None for part in parts]
    return [text for text in texts if isinstance(text, str)] if all(isinstance(one, str) for one in texts) else []
