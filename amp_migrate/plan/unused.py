"""Options and parameters that nothing reads any more (rule B5)."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding


def now_unused(before: Facts, after: Facts) -> list[Finding]:
    """Command-line options and function parameters that were read before the migration and are not after."""
    findings = []
    read_before, read_after = _attributes_read(before), _attributes_read(after)
    for option in before.values.options.values():
        if option.name in read_before and option.name not in read_after:
            message = f"the option {_flag(option.node)} has no effect any more"
            findings.append(Finding(before.line(option.node), "AMP103", message))
    for function, name, node in _parameters(before, read=True):
        if (function, name) in {(other, unused) for other, unused, _ in _parameters(after, read=False)}:
            message = f"the parameter {name} of {function} has no effect any more"
            findings.append(Finding(before.line(node), "AMP103", message))
    return findings


def _flag(node: cst.CSTNode) -> str:
    """The option as it is declared, its long form."""
    values = [literal_value(arg.value) for arg in node.args] if isinstance(node, cst.Call) else []
    names = [value for value in values if isinstance(value, str) and value.startswith("-")]
    return max(names, key=len, default="")


def _attributes_read(facts: Facts) -> set[str]:
    return {
        part.attr.value
        for statement in facts.tree.all_statements()
        for part in facts.tree.expressions(statement)
        if isinstance(part, cst.Attribute)
    }


def _parameters(facts: Facts, *, read: bool) -> list[tuple[str, str, cst.Param]]:
    found = []
    for function in facts.tree.functions:
        for param in function.parameters:
            variable = facts.names.variable_at(param.name)
            if variable is not None and bool(variable.loads) is read:
                found.append((function.name, param.name.value, param))
    return found
