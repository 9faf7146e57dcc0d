"""The companions of one file, from its facts to edits and findings. Nothing is changed here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

import libcst as cst

from amp_migrate.companions.arguments import NewArguments, moved_along, written
from amp_migrate.companions.arms import Choice, Collapse, find_choices, find_collapses, find_repeated
from amp_migrate.companions.decisions import Decisions, Surroundings, decide
from amp_migrate.companions.devices import device_of
from amp_migrate.companions.imports import Imports, plan_imports
from amp_migrate.companions.spelling import spelled
from amp_migrate.companions.table import DDP, Companion, family
from amp_migrate.companions.unused_parameters import looks_for_unused, stops_in_other_arm
from amp_migrate.companions.uses import ApexImport, Use, imports_of_apex, uses_of_apex
from amp_migrate.facts import Facts
from amp_migrate.facts.names import bound_name
from amp_migrate.facts.torch_name import torch_name
from amp_migrate.facts.tree import Function
from amp_migrate.findings import Finding, Refusal
from amp_migrate.native.cleanup import emit_cleanup
from amp_migrate.native.comments import indentation
from amp_migrate.native.edits import Edits
from amp_migrate.native.torch_import import add_torch_import
from amp_migrate.plan.cleanup import plan_around
from amp_migrate.plan.flags import availability_flags
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.companions import (
    DROPPED_ARGUMENT,
    EQUAL_ARMS,
    MIXED_PRECISION_STAYS,
    NO_DEVICE_IDS,
    SUBSTITUTE_GOES,
    UNKNOWN_APEX_USE,
)
from amp_migrate.rules.rule import Rule

# Mixed precision in another form: what becomes of the optimizer's and the model's wrappers is decided with it.
_OTHER_FORMS = ("apex.fp16_utils.", "apex.optimizers.FP16_Optimizer", "apex.contrib.optimizers.")


@dataclasses.dataclass(frozen=True)
class Companions:
    """What is to change in a file; `stays` are the families of companions that are left in it, with why."""

    edits: Edits
    findings: tuple[Finding, ...]
    stays: dict[str, str]


def plan_companions(facts: Facts, root: Function, surroundings: Surroundings) -> Companions:
    """Decide about one file of some facts."""
    imports = list(imports_of_apex(facts, root))
    uses = [use for use in uses_of_apex(facts, root) if not _stands_in(use, imports)]
    form = next((use for use in uses if use.path.startswith(_OTHER_FORMS)), None)
    if form is not None:
        message = (
            f"{facts.text(form.node)} belongs to mixed precision: as long as it stays, all of apex in this file does"
        )
        return _all_stay(facts, uses, form.node, MIXED_PRECISION_STAYS, message)
    decisions = decide(facts, root, uses, imports, surroundings)
    collapses = [*find_collapses(facts, root, decisions.calls), *find_repeated(facts, decisions.names)]
    collapses = [one for one in collapses if not any(_is_needed(facts, use) for use in one.uses)]
    gone = {use for collapse in collapses for use in collapse.uses}
    choices = [one for one in find_choices(facts, decisions.calls) if one.use not in gone]
    gone |= {choice.use for choice in choices}
    moved = plan_imports(facts, imports, uses, decisions, gone)
    statements = list(dict.fromkeys(one.statement for one in imports))
    found = Recognition("companions", modules=("apex",), imports=statements)
    for flag in availability_flags(facts, [*moved.certain, *moved.whole]):
        facts.conditions.known["variable", flag] = True
    try:
        cleanup = plan_around(facts, found, moved.cleanup(), moved.certain)
    except Refusal as refusal:
        return _all_stay(facts, uses, refusal.node, UNKNOWN_APEX_USE, refusal.message)
    edits = Edits()
    emit_cleanup(cleanup, edits)
    other_way = _fallback_that_follows(facts, edits)
    if other_way is not None:
        message = "the arm with apex ends with a return, and what follows it does the same in another way"
        return _all_stay(facts, uses, other_way, UNKNOWN_APEX_USE, message)
    moved.emit(edits)
    writer = _Writer(facts, root, decisions, moved, gone, edits)
    findings = [
        *writer.rewrite(),
        *_collapsed(facts, collapses, edits),
        *_chosen(facts, choices, edits),
        *_kept(facts, decisions),
    ]
    if writer.needs_torch:
        add_torch_import(facts, root, found, edits)
    stays = {one: kept[0][2] for one, kept in decisions.stays.items()}
    return Companions(edits, (*findings, *cleanup.findings), stays)


def _is_needed(facts: Facts, use: Use) -> bool:
    """True for a wrapping by Apex's class that trains where torch's in the other arm does not."""
    call = facts.tree.parents[use.node]
    return use.path == DDP and isinstance(call, cst.Call) and stops_in_other_arm(facts, call)


def _fallback_that_follows(facts: Facts, edits: Edits) -> cst.CSTNode | None:
    """`if has_apex: return fused(x)` before the lines for machines without Apex, which would never run any more."""
    for node, arm in edits.kept_arms.items():
        statement = facts.tree.statement_of(node)
        kept = next((block for block in statement.blocks if block.arm == arm and block.statements), None)
        if kept is not None and kept.statements[-1].leaves:
            if statement is not statement.block.statements[-1]:
                return node
    return None


def _stands_in(use: Use, imports: list[ApexImport]) -> bool:
    """True in the handler of a `try` around an import: what stands there is for machines without Apex."""
    attempts = {one.statement.block.owner for one in imports}
    return any(
        outer in attempts and (use.statement.arm_of(outer.node) or "").startswith("except")
        for outer in use.statement.path()[:-1]
    )


def _all_stay(facts: Facts, uses: list[Use], node: cst.CSTNode, rule: Rule, message: str) -> Companions:
    stays = {family(use.path): message for use in uses}
    return Companions(Edits(), (facts.finding(node, rule, message),), stays)


def _collapsed(facts: Facts, collapses: list[Collapse], edits: Edits) -> Iterator[Finding]:
    for collapse in collapses:
        edits.keep_arm(collapse.statement.node, collapse.arm)
        names = " and ".join(dict.fromkeys(facts.text(use.node) for use in collapse.uses))
        message = f"both arms do the same: the one with {names} goes"
        case = "buffers" if any(use.path == DDP for use in collapse.uses) else ""
        yield facts.finding(collapse.statement.node, EQUAL_ARMS, message, case)


def _chosen(facts: Facts, choices: list[Choice], edits: Edits) -> Iterator[Finding]:
    for choice in choices:
        edits.replace(choice.node, facts.text(choice.kept))
        message = f"both sides do the same: the one with {facts.text(choice.use.node)} goes"
        yield facts.finding(choice.node, EQUAL_ARMS, message, "buffers" if choice.use.path == DDP else "")


def _kept(facts: Facts, decisions: Decisions) -> Iterator[Finding]:
    for kept in decisions.stays.values():
        yield from (facts.finding(node, rule, message) for node, rule, message in kept)
    for path, node in decisions.substitutes:
        yield facts.finding(node, SUBSTITUTE_GOES, f"what stood in for {path.rpartition('.')[2]} goes")


class _Writer:
    """Writes the uses that are rewritten."""

    def __init__(
        self, facts: Facts, root: Function, decisions: Decisions, imports: Imports, gone: set[Use], edits: Edits
    ) -> None:
        self.facts = facts
        self.root = root
        self.decisions = decisions
        self.moved = {facts.names.variable_at(bound_name(alias)) for alias in imports.moves}
        self.gone = gone
        self.edits = edits
        self.needs_torch = False

    def rewrite(self) -> Iterator[Finding]:
        """Add the edits; what is to be known about them."""
        for use, (companion, arguments) in self.decisions.calls.items():
            if use not in self.gone:
                yield from self._call(use, companion, arguments)
        for use, companion in self.decisions.names.items():
            text = self._name(use, companion) if use not in self.gone else None
            if text is not None:
                self.edits.replace(use.node, text)

    def _name(self, use: Use, companion: Companion) -> str | None:
        """How torch's class is called in this place; None where the name stays."""
        if use.variable in self.moved:
            return None
        text = spelled(self.facts, companion.target, use.node)
        if text == companion.target and torch_name(self.facts, self.root) is None:
            self.needs_torch = True
        return text

    def _call(self, use: Use, companion: Companion, arguments: NewArguments) -> Iterator[Finding]:
        call = self.facts.tree.parents[use.node]
        assert isinstance(call, cst.Call)
        name = self._name(use, companion)
        if use.path == DDP:
            device, unused = device_of(self.facts, call), looks_for_unused(self.facts, call)
            devices = [("device_ids", f"[{device}]")] if device is not None else []
            looks = [("find_unused_parameters", unused)] if unused is not None else []
            arguments = dataclasses.replace(arguments, added=(*devices, *arguments.added, *looks))
            if device is None:
                yield self.facts.finding(
                    call, NO_DEVICE_IDS, f"{self.facts.text(use.node)}: no device is in sight for device_ids"
                )
        if name is not None:
            self.edits.replace(use.node, name)
        if name is not None or arguments.changes(call):
            self.edits.transform(call, partial(self._written, call, name, arguments))
        yield from self._said(use, call, companion, arguments)

    def _written(self, call: cst.Call, name: str | None, arguments: NewArguments, updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        args = written(call, updated, arguments)
        if name is not None and call.args and isinstance(call.whitespace_before_args, cst.SimpleWhitespace):
            before = indentation(self.facts.tree, self.facts.tree.statement_of(call).block)
            width = len(name) - len(self.facts.text(call.func))
            args = moved_along(args, self.facts.column(call.args[0]), len(before), width)
        return updated.with_changes(args=args)

    def _said(self, use: Use, call: cst.Call, companion: Companion, arguments: NewArguments) -> Iterator[Finding]:
        text = use.path.rpartition(".")[2]
        if companion.rule is not None:
            yield self.facts.finding(call, companion.rule, f"{text} becomes {companion.target}", companion.case)
        if arguments.dropped:
            names = " and ".join(arguments.dropped)
            case = "communication" if use.path == DDP else ""
            yield self.facts.finding(call, DROPPED_ARGUMENT, f"{text}: nothing takes the place of {names}", case)
