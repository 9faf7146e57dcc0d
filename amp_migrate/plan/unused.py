"""Options and parameters that nothing reads any more (rule B5)."""

from __future__ import annotations

from collections import Counter, defaultdict
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
    for name, options in before.values.options.items():
        scripts = {before.file_of(option.node).path for option in options}
        for option in options:
            # What another script declares as well, it reads; a file that declares nothing may read that of any script.
            others = scripts - {before.file_of(option.node).path}
            if read_before[name] - others and not read_after[name] - others:
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


def _attributes_read(facts: Facts) -> defaultdict[str, set[str]]:
    """The files that read an attribute, by its name."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for part, statement in facts.tree.every(cst.Attribute):
        files[part.attr.value].add(facts.files[statement.function.root].path)
    return files


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
