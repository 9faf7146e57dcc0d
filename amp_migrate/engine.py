"""One file, bytes to bytes: screen, parse, recognise, plan, emit, apply, check."""

from __future__ import annotations

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.findings import Finding, Refusal
from amp_migrate.native.apply import apply_edits
from amp_migrate.native.cleanup import emit_cleanup
from amp_migrate.native.edits import Edits
from amp_migrate.native.emit import emit
from amp_migrate.native.spelling import Spelling
from amp_migrate.native.torch_import import add_torch_import, torch_name
from amp_migrate.native.unused import drop_unused
from amp_migrate.options import Options
from amp_migrate.plan.cleanup import plan_cleanup
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.planner import make_plans
from amp_migrate.plan.print import print_plans
from amp_migrate.plan.training_plan import TrainingPlan
from amp_migrate.plan.unused import now_unused
from amp_migrate.result import Result, Status
from amp_migrate.sources import apex_amp


def migrate(source: bytes, options: Options, path: str, elsewhere: Elsewhere) -> Result:
    """Migrate one file. Never raises for bad input: the Result says what is wrong with it.

    `elsewhere` is asked about functions and classes of other modules.
    """
    try:
        module = parse(source)
    except Unparsable as error:
        return Result(path, source, source, "error", (error.finding,))
    return _Migration(Facts(module, elsewhere), source, options, path).run()


class _Migration:
    def __init__(self, facts: Facts, source: bytes, options: Options, path: str) -> None:
        self.facts = facts
        self.source = source
        self.options = options
        self.path = path

    def run(self) -> Result:
        found, refusals = apex_amp.recognise(self.facts)
        if not found.sites:
            return Result(self.path, self.source, self.source, "untouched")
        try:
            if refusals:
                raise refusals[0]
            plans = make_plans(self.facts, found, self.options)
            return self._written(found, plans)
        except Refusal as refusal:
            finding = Finding(self.facts.line(refusal.node), refusal.code, refusal.message)
            return self._result("left", (finding,), found.sites)

    def _written(self, found: Recognition, plans: list[TrainingPlan]) -> Result:
        """Emit, apply, and check what came out before anybody sees it. Raises Refusal."""
        cleanup = plan_cleanup(self.facts, found)
        name = torch_name(self.facts)
        spelling = Spelling(
            name or "torch", self.options.api or "torch.cuda.amp", self.options.dtype, self.facts.quoted("")[:1]
        )
        edits = emit(self.facts, plans, spelling)
        emit_cleanup(cleanup, edits)
        if name is None:
            add_torch_import(self.facts, found, edits)
        printed = print_plans(self.facts, plans)
        try:
            after = self._applied(edits, found)
        except Unparsable as error:
            return self._broken(f"the output does not parse: {error.finding.message}", found.sites)
        problems = self._problems(after, plans)
        if problems:
            return self._broken(problems[0], found.sites)
        findings = [*(finding for plan in plans for finding in plan.findings), *cleanup.findings]
        findings += now_unused(self.facts, after)
        return self._result("migrated", tuple(sorted(set(findings))), found.sites, after.module.bytes, printed)

    def _applied(self, edits: Edits, found: Recognition) -> Facts:
        """The facts of the edited module, without what became unused, and then unused by that. Raises Unparsable."""
        is_program = any(setup.statement.function.is_module for setup in found.setups)
        after = Facts(parse(apply_edits(self.facts.tree, edits).bytes))
        while not (unused := drop_unused(after, self.facts, is_program=is_program)).is_empty:
            after = Facts(parse(apply_edits(after.tree, unused).bytes))
        return after

    def _problems(self, after: Facts, plans: list[TrainingPlan]) -> list[str]:
        """What is wrong with our own output; bugs of the source that are kept on purpose are not."""
        kept = {self.facts.tree.function_of(clip).name for plan in plans for clip in plan.clips_of_scaled}
        left, _ = apex_amp.recognise(after)
        problems = [f"{left.sites} references to apex.amp are left"] if left.sites else []
        for violation in check_module(after, self.facts):
            if violation.kind != "clip of scaled gradients" or violation.function not in kept:
                problems.append(f"{violation.kind} in {violation.function}: {violation.message}")
        return problems

    def _broken(self, message: str, sites: int) -> Result:
        return self._result("error", (Finding(1, "AMP999", message),), sites)

    def _result(
        self, status: Status, findings: tuple[Finding, ...], sites: int, output: bytes | None = None, plan: str = ""
    ) -> Result:
        return Result(self.path, self.source, output or self.source, status, findings, sites, plan)
