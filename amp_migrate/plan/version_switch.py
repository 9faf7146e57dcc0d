"""Scripts that use Apex with a torch before 1.6 only, and native AMP with every later one (rule J4).

    if version.parse(torch.__version__) < version.parse("1.6"):       (goes)
        from apex import amp
        _use_apex = True
    else:
        _use_native_amp = True
        from torch.cuda.amp import autocast                           (stays)

Every torch that has native AMP answers the test alike: the flags are known, and with them the arms that never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.plan.flags import reads_of
from amp_migrate.plan.folding import Cleanup, Folding
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.apex import APEX_FOR_OLD_TORCH

_FIRST_NATIVE = (1, 6)
_VERSION = re.compile(r"""["'](\d+)\.(\d+)[\w.]*["']""")


def plan_version_switch(facts: Facts, found: Recognition) -> Cleanup | None:
    """What goes where all of Apex is for an older torch; None for other scripts. Raises Refusal for a flag that is used
    as a value.
    """
    switches = _switches(facts, found)
    if not switches:
        return None
    flags = dict(_flags(facts, switches))
    for flag, value in flags.items():
        facts.conditions.known["variable", flag] = value
    if not all(_never_runs(facts, switches, facts.tree.statement_of(site)) for site in found.sites):
        return None
    cleanup = Cleanup(tests=dict(switches))
    for switch in switches:
        message = "apex.amp was for torch before 1.6 only: later ones use the native AMP that is here"
        cleanup.findings.append(facts.finding(switch.node, APEX_FOR_OLD_TORCH, message))
    _fold(facts, switches, flags, cleanup)
    return cleanup


def _fold(facts: Facts, switches: dict[Statement, bool], flags: dict[Variable, bool], cleanup: Cleanup) -> None:
    folding = Folding(facts, cleanup)
    reads: dict[Statement, list[cst.BaseExpression]] = {}
    for _, read in reads_of(facts, set(flags)):
        reads.setdefault(facts.tree.statement_of(read), []).append(read)
    for statement, own in reads.items():
        if not _never_runs(facts, switches, statement):
            folding.settle(statement, own)
    for flag in flags:
        settings = (binding.statement for binding in flag.bindings if binding.statement is not None)
        cleanup.statements += [one for one in settings if not _never_runs(facts, switches, one)]


def _switches(facts: Facts, found: Recognition) -> dict[Statement, bool]:
    """The tests of torch's version with their answers, if all imports of apex are in arms that they rule out."""
    switches: dict[Statement, bool] = {}
    using = {facts.tree.root_of(site) for site in found.sites}
    for statement in found.imports:
        if statement.function.root not in using:
            continue  # it only asks whether Apex is installed
        ruled_out = [
            (outer, answer)
            for outer in statement.path()[:-1]
            if isinstance(outer.node, cst.If) and (answer := _answer(facts, outer.node.test)) is not None
            if statement.arm_of(outer.node) != ("body" if answer else "else")
        ]
        if not ruled_out:
            return {}
        switches.update(ruled_out)
    return switches


def _answer(facts: Facts, test: cst.BaseExpression) -> bool | None:
    """What every torch with native AMP answers to `version.parse(torch.__version__) < version.parse("1.6")`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    operator, other = test.comparisons[0].operator, facts.text(test.comparisons[0].comparator)
    version = _VERSION.search(other)
    if "torch.__version__" not in facts.text(test.left) or version is None:
        return None
    asked = (int(version[1]), int(version[2]))
    if isinstance(operator, (cst.LessThan, cst.GreaterThanEqual)) and asked <= _FIRST_NATIVE:
        return isinstance(operator, cst.GreaterThanEqual)
    if isinstance(operator, (cst.LessThanEqual, cst.GreaterThan)) and asked < _FIRST_NATIVE:
        return isinstance(operator, cst.GreaterThan)
    return None


def _flags(facts: Facts, switches: dict[Statement, bool]) -> Iterator[tuple[Variable, bool]]:
    """The variables that are set to True or False in a switch and, before it, at most to a default."""
    for variable in facts.names.all_variables():
        if any(_inside(binding, switch) for binding in variable.bindings for switch in switches):
            values = [_value(binding) for binding in variable.bindings]
            left = [value for value, one in zip(values, variable.bindings, strict=True) if _is_left(one, switches)]
            if set(values) <= {True, False} and left and _in_order(variable, switches):
                yield variable, bool(left[-1])


def _in_order(variable: Variable, switches: dict[Statement, bool]) -> bool:
    """True where everything outside of the switches stands in the same block above them."""
    outside = [one.statement for one in variable.bindings if not any(_inside(one, switch) for switch in switches)]
    return all(
        one is not None and one.block is switch.block and one.index < switch.index
        for one in outside
        for switch in switches
        if any(_inside(binding, switch) for binding in variable.bindings)
    )


def _value(binding: Binding) -> object:
    is_plain = binding.kind == "assign" and not binding.selector and binding.value is not None
    return literal_value(binding.value) if is_plain and binding.value is not None else UNKNOWN


def _inside(binding: Binding, switch: Statement) -> bool:
    return binding.statement is not None and binding.statement.inside(switch)


def _is_left(binding: Binding, switches: dict[Statement, bool]) -> bool:
    """False in an arm that never runs."""
    return binding.statement is not None and not any(
        binding.statement.arm_of(switch.node) == ("else" if answer else "body") for switch, answer in switches.items()
    )


def _never_runs(facts: Facts, switches: dict[Statement, bool], statement: Statement) -> bool:
    for outer in statement.path()[:-1]:
        if isinstance(outer.node, cst.If):
            answer = switches.get(outer)
            if answer is None:
                answer = facts.conditions.constant(facts.conditions.compile(outer.node.test))
            if answer is not None and statement.arm_of(outer.node) == ("else" if answer else "body"):
                return True
    return False
