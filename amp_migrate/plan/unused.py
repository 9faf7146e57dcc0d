"""Options and parameters that nothing reads any more (rule B5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding
from amp_migrate.rules.apex import UNUSED_OPTION


def now_unused(before: Facts, after: Facts) -> list[Finding]:
    """Command-line options and function parameters that were read before the migration and are not after."""
    findings = []
    read_before, read_after = _attributes_read(before), _attributes_read(after)
    for option in before.values.options.values():
        if option.name in read_before and option.name not in read_after:
            message = f"the option {_flag(option.node)} has no effect any more"
            findings.append(before.finding(option.node, UNUSED_OPTION, message))
    now = dict(_functions(after))
    for place, old in _functions(before):
        new = now.get(place)  # an arm that goes may hold functions
        unread = {param.name.value for param, is_read in _parameters(after, new) if not is_read} if new else set()
        for param, is_read in _parameters(before, old):
            name = param.name.value
            if is_read and name in unread:
                message = f"the parameter {name} of {old.name} has no effect any more"
                findings.append(before.finding(param, UNUSED_OPTION, message))
    return findings


def _flag(node: cst.CSTNode) -> str:
    """The option as it is declared, its long form."""
    values = [literal_value(arg.value) for arg in node.args] if isinstance(node, cst.Call) else []
    names = [value for value in values if isinstance(value, str) and value.startswith("-")]
    return max(names, key=len, default="")


def _attributes_read(facts: Facts) -> set[str]:
    return {part.attr.value for part, _ in facts.tree.every(cst.Attribute)}


def _functions(facts: Facts) -> Iterator[tuple[tuple[str, str, int], Function]]:
    """The functions by what stays the same: file, name with what is around it, and which of that name it is."""
    count: Counter[tuple[str, str]] = Counter()
    for function in facts.tree.functions:
        place = facts.file_of(function.node).path, _qualified(function)
        yield (*place, count[place]), function
        count[place] += 1


def _qualified(function: Function) -> str:
    around = _qualified(function.parent) if function.parent is not None else ""
    owner = f"{function.owner.name}." if function.owner is not None else ""
    return f"{around}/{owner}{function.name}"


def _parameters(facts: Facts, function: Function) -> Iterator[tuple[cst.Param, bool]]:
    """The parameters of a function, and whether anything reads them."""
    for param in function.parameters[1:] if function.is_method else function.parameters:
        variable = facts.names.variable_at(param.name)
        if variable is not None:
            yield param, bool(variable.loads)
