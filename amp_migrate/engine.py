"""One unit, bytes to bytes: parse, recognise, plan, emit, apply, check."""

from __future__ import annotations

import dataclasses
import gc
from collections import Counter
from collections.abc import Sequence

import libcst as cst

from amp_migrate.check import check_module
from amp_migrate.check.violation import Violation
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.facts.tree import grown
from amp_migrate.files.helpers import forget_parsed
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.findings import Finding, Inseparable, Refusal
from amp_migrate.modernise import modernise
from amp_migrate.module_text import module_text
from amp_migrate.native.apart import NameApart, names_given_apart, taken_apart
from amp_migrate.native.cleanup import emit_cleanup
from amp_migrate.native.edits import Edits
from amp_migrate.native.emit import emit
from amp_migrate.native.lower import lines_before, lower
from amp_migrate.native.named_methods import NamedMethod, in_place, named_methods
from amp_migrate.native.spelling import Spellings
from amp_migrate.native.torch_import import add_torch_import
from amp_migrate.options import Options
from amp_migrate.plan.bystanders import check_not_called, without_bystanders
from amp_migrate.plan.cleanup import plan_cleanup
from amp_migrate.plan.folding import Cleanup
from amp_migrate.plan.model import Lowering, Recognition
from amp_migrate.plan.planner import make_plans
from amp_migrate.plan.print import print_plans
from amp_migrate.plan.steps.step_graph import Unstepped
from amp_migrate.plan.training_plan import TrainingPlan
from amp_migrate.plan.unused import now_unused
from amp_migrate.plan.version_switch import plan_version_switch
from amp_migrate.reading import Input, Unreadable, read_unit, too_deep
from amp_migrate.result import Result, Status
from amp_migrate.review import review
from amp_migrate.rewrite import edited, new_violations, without_unused
from amp_migrate.rules.apex import UNKNOWN_AMP_USE
from amp_migrate.rules.source_forms import FP16_UTILS, MODERNISE, NATIVE, PLAIN, TITLES
from amp_migrate.rules.steps import NO_GRADIENTS
from amp_migrate.rules.units import INTERNAL_ERROR
from amp_migrate.seen import Seen, seen_in
from amp_migrate.selection import Selection
from amp_migrate.sources.forms import recognise

_MODULES_OF_MANY_UNITS = 24  # units share helpers, but memory may not grow with their number


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a unit: a Result for each file, and why it was refused, if it was.

    `given` are the functions that got a parameter, and the constructors of what trains in another way, by file and
    name: whoever calls them must be in the unit, too. `savers` save the optimizer's state in other files, by name.
    """

    results: list[Result]
    refusal: Refusal | None = None
    given: tuple[tuple[str, str], ...] = ()
    savers: frozenset[str] = frozenset()

    @property
    def unread(self) -> frozenset[str]:
        """Names of other local modules, whose code decides whether the training survives half precision."""
        return frozenset(self.refusal.unread if self.refusal is not None else ())


def migrate(files: Sequence[Input], options: Options, elsewhere: Elsewhere) -> Outcome:
    """Migrate the files of one unit, all of them or none. Never raises for bad input: the Results say what is wrong.

    `elsewhere` is asked about functions and classes of other modules.
    """
    try:
        return _migrate(files, options, elsewhere)
    except Unreadable as error:
        return Outcome(error.results)
    except RecursionError:
        return Outcome(too_deep(files))


def _migrate(files: Sequence[Input], options: Options, elsewhere: Elsewhere) -> Outcome:
    read = read_unit(files)
    parsed = [SourceFile(parse(file.source), file.path, file.name) for file in read.files]
    facts = Facts(parsed, elsewhere)
    edits, apart = names_given_apart(facts)
    facts = _parsed_again(facts, edits) if apart else facts
    methods = named_methods(facts)
    outcome = _Migration(facts, read.files, options, methods, apart).run()
    anew = [one for one in methods if one.is_called_anew(outcome.results)]
    if outcome.refusal is None and len(anew) < len(methods):
        outcome = _Migration(facts, read.files, options, anew, apart).run()
    return dataclasses.replace(outcome, results=read.as_written(outcome.results))


def _parsed_again(facts: Facts, edits: Edits) -> Facts:
    """The facts of the edited files, which know the lines that their own were."""
    again = edited(facts, edits)
    files = []
    for file, own in zip(again.files.values(), facts.files.values(), strict=True):
        lines = lines_before(module_text(own.module).code, module_text(file.module).code)
        lines = tuple(own.lines[line - 1] for line in lines) if own.lines else lines
        files.append(dataclasses.replace(file, lines=lines))
    return Facts(files, facts.elsewhere)


def forget_modules() -> None:
    """Frees what is kept of files between two tries of their unit, where that was a large one."""
    if parse.cache_info().currsize > _MODULES_OF_MANY_UNITS:
        for kept in (parse, module_text, grown):
            kept.cache_clear()
        gc.collect()
    forget_parsed(_MODULES_OF_MANY_UNITS)


def modernise_and_check(
    file: Input, torch: tuple[int, int] | None, selection: Selection, elsewhere: Elsewhere
) -> Result:
    """Native AMP of a file that belongs to no unit: in the new spelling where the project's torch has it, from the
    version `torch` on (None: unknown); its mistakes are reported and stay. Never raises for bad input: a file that
    does not parse is nobody's business here.
    """
    untouched = Result(file.path, file.source, file.source, "untouched")
    try:
        before = Facts([SourceFile(parse(file.source), file.path, file.name)], elsewhere)
    except Unparsable:
        return untouched
    modern = modernise(before, torch)
    reported = {*modern.findings} if selection.has(MODERNISE) else set()
    reported |= {*review(before)} if selection.has(NATIVE) else set()
    findings = tuple(sorted(reported))
    if modern.edits.is_empty or not selection.has(MODERNISE):
        return dataclasses.replace(untouched, findings=findings)
    after = without_unused(edited(before, modern.edits), before, ())
    new = new_violations(after, before)
    if new:
        return dataclasses.replace(
            untouched, status="error", findings=(Finding(file.path, 1, INTERNAL_ERROR.code, new[0]),)
        )
    output = module_text(after.modules[0]).bytes
    return Result(file.path, file.source, output, "migrated", findings, len(modern.sites), form=MODERNISE)


class _Migration:
    def __init__(
        self,
        facts: Facts,
        files: Sequence[Input],
        options: Options,
        methods: Sequence[NamedMethod] = (),
        apart: Sequence[NameApart] = (),
    ) -> None:
        self.facts = facts
        self.written = facts  # what stands in the files, where `facts` become those of the plain program
        self.files = files
        self.options = options
        self.methods = methods
        self.apart = apart
        self.found: Sequence[cst.CSTNode] = ()
        self.sites: Counter[str] = Counter()
        self.form = ""
        self.seen: list[Seen] = []
        self.also: list[Finding] = []
        self.plain: set[cst.CSTNode] = set()  # the statements of backwards whose gradients reach no step

    def run(self) -> Outcome:
        """The outcome. What we write and cannot be read is a bug of ours."""
        try:
            if self.methods:
                self.facts = self.written = _parsed_again(self.facts, in_place(self.methods))
            outcome = self._run_whole()
        except Unparsable as error:
            outcome = self._broken(f"the output does not parse: {error.finding.message}")
        return dataclasses.replace(outcome, results=[self._with_seen(one) for one in outcome.results])

    def _with_seen(self, result: Result) -> Result:
        seen = tuple(one for one in self.seen if one.path == result.path)
        also = tuple(one for one in self.also if one.path == result.path)
        return dataclasses.replace(result, seen=seen, also=also)

    def _run_whole(self) -> Outcome:
        """The outcome; what prevents the migration of a plain loop may be none of its program's business."""
        outcome = self._run_apart()
        whole = self.written
        while outcome.refusal is not None and self.form == PLAIN:
            node = outcome.refusal.node
            is_hidden = self.facts.tree.is_hidden(self.facts.tree.statement_of(node))
            seen = without_bystanders(whole, self.found, node) if not is_hidden else None
            if seen is None:
                return self._with_plain_backwards(outcome) if self.facts is whole else outcome
            self.facts = seen
            rest = self._run()
            if not self.sites:
                break
            outcome = rest
        return outcome

    def _with_plain_backwards(self, outcome: Outcome) -> Outcome:
        """The outcome, with backwards that stay as they are where nothing else prevents the migration."""
        while isinstance(outcome.refusal, Unstepped) and outcome.refusal.may_stay:
            self.plain.add(outcome.refusal.node)
            outcome = self._run_apart()
        return outcome

    def _run_apart(self) -> Outcome:
        """The outcome, with statements of a plain loop taken apart where nothing else prevents its migration. (Apex ran
        no binary cross entropy on what it had patched: such a script never trained.)
        """
        outcome = self._run()
        names: set[str] = set()
        while isinstance(outcome.refusal, Inseparable) and self.form == PLAIN:
            apart = taken_apart(self.facts, outcome.refusal, names)
            if apart is None:
                break
            edits, name = apart
            names.add(name)
            self.facts = self.written = _parsed_again(self.facts, edits)
            outcome = self._run()
        return outcome

    def _run(self) -> Outcome:
        found, refusals = self._recognised()
        self.form = found.form
        self.found = found.sites
        self.sites = Counter(self.facts.file_of(node).path for node in found.sites)
        if not found.sites or not self.options.selection.has(self.form):
            return Outcome([Result(file.path, file.source, file.source, "untouched") for file in self.files])
        try:
            switch = plan_version_switch(self.facts, found)
            if switch is not None:
                return self._folded(found, switch)
            if refusals:
                raise refusals[0]
            while found.lowering is not None:
                source = found
                found = self._lowered(found.lowering)
                found.findings += source.findings
                if not found.setups and found.lowering is None:
                    self.facts = self.written
                    what = TITLES[source.form]
                    message = f"no training that uses {what} was found in these files"
                    raise Refusal(UNKNOWN_AMP_USE, source.sites[0], message, case="no training")
            plans = make_plans(self.facts, found, self.options)
            return self._written(found, plans)
        except Refusal as refusal:
            finding = self.facts.finding(refusal.node, refusal.rule, refusal.message, refusal.case)
            return Outcome(self._refused(finding), refusal)

    def _lowered(self, lowering: Lowering) -> Recognition:
        """What is found in the plain program inside of a source form: the migration goes on with it. Raises Refusal."""
        self.facts = _parsed_again(self.facts, lower(lowering))
        found, refusals = self._recognised()
        if refusals:
            raise refusals[0]
        return found

    def _recognised(self) -> tuple[Recognition, list[Refusal]]:
        """What the front ends find now; it is kept for who goes on by hand."""
        found, refusals = recognise(self.facts)
        found.backwards = [one for one in found.backwards if one.statement.node not in self.plain]
        self.seen += seen_in(self.facts, found)
        self.also += [self.facts.finding(one.node, one.rule, one.message) for one in refusals[1:]]
        return found, refusals

    def _folded(self, found: Recognition, switch: Cleanup) -> Outcome:
        """Nothing but what never runs goes: native AMP is there already."""
        edits = Edits()
        emit_cleanup(switch, edits)
        after = self._applied(edits, found)
        new = new_violations(after, self.facts)
        if new:
            return self._broken(new[0])
        return Outcome(self._migrated(after, switch.findings, ""))

    def _written(self, found: Recognition, plans: list[TrainingPlan]) -> Outcome:
        """Emit, apply, and check what came out before anybody sees it. Raises Refusal."""
        check_not_called(self.written, self.facts, plans)
        cleanup = plan_cleanup(self.facts, found)
        spellings = Spellings(self.facts, self.options.api or "torch.cuda.amp", self.options.dtype)
        edits = emit(self.facts, plans, spellings)
        emit_cleanup(cleanup, edits)
        for root in spellings.without_torch:
            add_torch_import(self.facts, root, found, edits)
        printed = print_plans(self.facts, plans) if self.options.prints_plans else ""
        after = self._applied(edits, found)
        if self.form == PLAIN:
            self.facts = self.written  # what was out of sight has to be right as well
        problems = self._problems(after, plans)
        if problems:
            return self._broken(problems[0])
        findings = [*(finding for plan in plans for finding in plan.findings), *cleanup.findings]
        findings += now_unused(self.written, after)
        results = self._migrated(after, sorted(set(findings)), printed)
        return Outcome(results, given=self._given(plans), savers=frozenset(found.savers))

    def _applied(self, edits: Edits, found: Recognition) -> Facts:
        """The facts of the edited files, without what became unused. Raises Unparsable."""
        programs = {self.facts.file_of(setup.call).path for setup in found.setups if setup.statement.function.is_module}
        return without_unused(edited(self.facts, edits), self.written, programs)

    def _problems(self, after: Facts, plans: list[TrainingPlan]) -> list[str]:
        """What is wrong with our own output; bugs of the source that are kept on purpose are not. Raises Refusal."""
        kept = {self.facts.tree.function_of(clip).name for plan in plans for clip in plan.clips_of_scaled}
        left, _ = recognise(after)
        if left.sites and left.form != self.form:
            self._refuse_second_form(after, left)
        problems = [f"{len(left.sites)} uses of {TITLES[left.form]} are left"] if left.sites else []
        for violation in check_module(after, self.facts):
            self._refuse_second_step(violation, plans)
            if violation.kind != "clip of scaled gradients" or violation.function not in kept:
                problems.append(f"{violation.kind} in {violation.function}: {violation.message}")
        return problems

    def _refuse_second_form(self, after: Facts, left: Recognition) -> None:
        """A script with two ways into mixed precision, for its user to choose from. Raises Refusal."""
        text = after.text(left.sites[0])
        calls = (call for call, _ in self.written.tree.every(cst.Call) if self.written.text(call) == text)
        site = next(calls, self.found[0])
        self.facts = self.written
        one, other = TITLES[left.form], TITLES[self.form]
        message = f"{text} is of {one}, which this script can choose in place of {other}"
        raise Refusal(UNKNOWN_AMP_USE, site, message, case="two forms")

    def _refuse_second_step(self, violation: Violation, plans: list[TrainingPlan]) -> None:
        """The source steps twice on the same gradients, as apex allowed: no bug of ours. Raises Refusal."""
        if violation.kind != "step twice":
            return
        steps = [step.call for plan in plans for step in plan.steps.steps]
        own = [call for call in steps if self.facts.tree.function_of(call).name == violation.function]
        if len(own) > 1:
            raise Refusal(NO_GRADIENTS, own[-1], "no backward is between this step and the one before it")

    def _given(self, plans: list[TrainingPlan]) -> tuple[tuple[str, str], ...]:
        functions = [
            parameter.function for plan in plans for scaler in plan.scalers for parameter in scaler.binding.parameters
        ]
        if self.form == FP16_UTILS:  # whoever has an optimizer of theirs calls what only the wrapper had
            functions += [setup.statement.function for plan in plans for setup in plan.found.setups]
        for backward in (one for plan in plans if plan.found.casts_models for one in plan.found.backwards):
            owner = backward.statement.function.owner  # it no longer casts: whoever trains by it needs autocast
            if owner is not None and "__init__" in owner.methods:
                functions.append(owner.methods["__init__"])
        return tuple(dict.fromkeys(self.facts.name_of(function) for function in functions))

    # -- results ----------------------------------------------------------------------------------------

    def _migrated(self, after: Facts, findings: list[Finding], printed: str) -> list[Result]:
        results = []
        for file, module in zip(self.files, after.modules, strict=True):
            own = tuple(finding for finding in findings if finding.path == file.path)
            output = module_text(module).bytes
            for one in (one for one in self.apart if one.path == file.path):
                texts = (text.decode(module.encoding) for text in (output, file.source))
                output = one.put_back(*texts).encode(module.encoding)
            changed = output != file.source
            status: Status = "migrated" if changed or self.sites[file.path] else "untouched"
            results.append(
                Result(
                    file.path,
                    file.source,
                    output,
                    status,
                    own,
                    self.sites[file.path],
                    plan=printed,
                    form=self.form if status == "migrated" else "",
                )
            )
            printed = ""  # the plan is that of the whole unit: it goes with its first file
        return results

    def _refused(self, finding: Finding) -> list[Result]:
        return [self._stays(file, "left", finding) for file in self.files]

    def _broken(self, message: str) -> Outcome:
        first = next(file for file in self.files if self.sites[file.path])
        finding = Finding(first.path, 1, INTERNAL_ERROR.code, message)
        return Outcome([self._stays(file, "error", finding) for file in self.files])

    def _stays(self, file: Input, status: Status, finding: Finding) -> Result:
        """A file of a unit that is not migrated: one of them holds the reason."""
        sites = self.sites[file.path]
        if finding.path == file.path:
            return Result(file.path, file.source, file.source, status, (finding,), sites, form=self.form)
        if sites:
            return Result(file.path, file.source, file.source, "left", (), sites, form=self.form)
        return Result(file.path, file.source, file.source, "untouched")
