"""A plain training script with the repairs of the safety scan and native AMP around it, without a front end."""

from __future__ import annotations

import textwrap

import libcst as cst

from amp_migrate import Options
from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.facts.source_file import SourceFile
from amp_migrate.facts.tree import called_name
from amp_migrate.files.parse import parse
from amp_migrate.native.apply import apply_edits
from amp_migrate.native.emit import emit
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.model import Backward, LossScale, Recognition, Setup
from amp_migrate.plan.planner import make_plans
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.plan.safety.scan import scan
from amp_migrate.plan.training_plan import TrainingPlan

OPTIONS = Options(api="torch.amp")


def facts_of(code: str, elsewhere: Elsewhere | None = None) -> Facts:
    return Facts([SourceFile(parse(textwrap.dedent(code).lstrip().encode()))], elsewhere)


def recognition(facts: Facts) -> Recognition:
    """The optimizers made of `model.parameters()`, and the backwards of names."""
    found = Recognition("plain", is_scaled=False)
    for statement in facts.tree.all_statements():
        for call in (part for part in facts.tree.expressions(statement) if isinstance(part, cst.Call)):
            if (facts.names.dotted(call.func) or "").startswith("torch.optim.") and isinstance(
                statement.node, cst.Assign
            ):
                models = [part.func.value for part in (call.args[0].value,) if isinstance(part, cst.Call)]
                optimizer = statement.node.targets[0].target
                found.setups.append(Setup(statement, call, models, [optimizer], [], [], LossScale(), stays=True))
            elif (
                called_name(call) == "backward"
                and isinstance(call.func, cst.Attribute)
                and statement.function.owner is None
            ):
                found.backwards.append(Backward(statement, call, call.func.value, [], arguments=list(call.args)))
    for backward in found.backwards:
        backward.optimizers = [setup.optimizers[0] for setup in found.setups]
    found.sites = [backward.call for backward in found.backwards]
    return found


def planned(facts: Facts) -> TrainingPlan:
    """The plan of the script, with what the scan found. Raises Refusal."""
    (plan,) = make_plans(facts, recognition(facts), OPTIONS)
    regions = [found.region for found in plan.regions if not found.evaluation]
    plan.safety = scan(facts, Reach(facts, Forwards(facts, plan.roles), regions), plan.bce, plan.found.backwards)
    return plan


def migrated(code: str) -> str:
    """The script after it. Raises Refusal."""
    facts = facts_of(code)
    edits = emit(facts, [planned(facts)], Spellings(facts, "torch.amp", "float16"))
    return apply_edits(facts.tree, facts.tree.roots[0], edits).code
