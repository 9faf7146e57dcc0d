"""The second stage of one file: from what the first one made of it, bytes to bytes.

Whatever goes wrong costs the companions and nothing else: a unit's mixed precision is migrated in all its files, or in
none, and has been by now.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.companions.decisions import Surroundings
from amp_migrate.companions.plan import plan_companions
from amp_migrate.companions.table import COMPANIONS, canonical, family, words_in
from amp_migrate.companions.uses import is_known
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.bindings import imported, stars_of
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.files.syntax import tree_of
from amp_migrate.findings import Finding
from amp_migrate.line_matcher import LineMatcher
from amp_migrate.module_text import module_text
from amp_migrate.plan.unused import now_unused
from amp_migrate.result import Result
from amp_migrate.rewrite import edited, new_violations, without_unused
from amp_migrate.rules.companions import COMPANIONS_FAILED
from amp_migrate.rules.source_forms import COMPANIONS as COMPANIONS_FORM
from amp_migrate.rules.source_forms import PLAIN


@dataclasses.dataclass(frozen=True)
class Stage:
    """What the second stage made of one file; `stays` are the families of companions left in it, with why."""

    result: Result
    stays: dict[str, str] = dataclasses.field(default_factory=dict)


def migrate_companions(result: Result, name: str, elsewhere: Elsewhere, surroundings: Surroundings) -> Stage:
    """Migrate the companions in the output of a file; `name` is what imports of it resolve to.

    A file that the first stage has refused keeps all of Apex, unless that was about a plain loop.
    """
    result = dataclasses.replace(result, companions=(count_uses(result.source),) * 2)
    if keeps_apex(result):
        return Stage(result, {family(path): "its mixed precision is not migrated" for path in COMPANIONS})
    try:
        module = parse(result.output)
    except Unparsable:
        return Stage(result)  # the first stage says so, if it has to do with amp at all
    facts = Facts([SourceFile(module, result.path, name)], elsewhere)
    (root,) = facts.tree.roots
    words = surroundings.words | words_in(result.output)
    plan = plan_companions(facts, root, dataclasses.replace(surroundings, words=words))
    after = facts
    if not plan.edits.is_empty:
        try:
            after = without_unused(edited(facts, plan.edits), facts, ())
        except Unparsable as error:
            return not_migrated(result, f"the output does not parse: {error.finding.message}")
        problems = new_violations(after, facts)
        if problems:
            return not_migrated(result, problems[0])
    line_before = _lines_before(result.source, result.output)
    findings = [*plan.findings, *(now_unused(facts, after) if after is not facts else ())]
    findings = [dataclasses.replace(one, line=line_before(one.line)) for one in findings]
    return Stage(_with(result, module_text(after.modules[0]).bytes, findings), plan.stays)


def keeps_apex(result: Result) -> bool:
    """True for a file of which the first stage has refused more than a plain loop."""
    return result.status in ("left", "error") and result.form != PLAIN


def not_migrated(result: Result, problem: str) -> Stage:
    """What the first stage made of a file, after an internal error in the second."""
    everything = {family(path): problem for path in COMPANIONS}
    return Stage(_with(result, result.output, [Finding(result.path, 1, COMPANIONS_FAILED.code, problem)]), everything)


def _with(result: Result, output: bytes, findings: list[Finding]) -> Result:
    """The result with the companions in it."""
    said = {(one.code, one.message): one for one in sorted(findings, reverse=True)}  # each thing once
    status = result.status
    if output != result.source:
        status = "migrated"
    elif said and status == "untouched":
        status = "left"
    findings_of_both = tuple(sorted({*result.findings, *said.values()}))
    form = result.form or (COMPANIONS_FORM if status != "untouched" else "")
    companions = (result.companions[0], count_uses(output))
    return dataclasses.replace(
        result,
        output=output,
        status=status,
        findings=findings_of_both,
        form=form,
        companions=companions,
        only_companions=result.status == "left",
    )


def _lines_before(source: bytes, output: bytes) -> Callable[[int], int]:
    """For a line of the first stage's output, the one of the file as it was: findings are about that."""
    if source == output:
        return lambda line: line
    old, new = ([line.strip() for line in text.splitlines()] for text in (source, output))
    lines = {}
    for _, first, end, new_first, new_end in LineMatcher(old, new).get_opcodes():
        for offset in range(new_end - new_first):
            lines[new_first + offset + 1] = min(first + offset, max(first, end - 1)) + 1
    return lambda line: lines.get(line, line)


# How often a file names a companion, read from its text alone: what the totals of a report are made of.
#
# The counting knows nothing of what was decided, so that what it finds before a migration, and what it finds after, are
# two facts and not one.


def count_uses(source: bytes) -> int:
    """The places outside of imports that name something of Apex beside amp; none where the file does not parse."""
    tree = tree_of(source)
    paths: dict[str, str] = {}
    for node in ast.walk(tree):
        paths |= {name: f"{module}.{name}" for module in stars_of(node) for name in APEX_EXPORTS.get(module, ())}
        paths |= {name: path for name, path in imported(node) if path.split(".")[0] == "apex"}
    return sum(is_known(_path(node, paths)) for node in ast.walk(tree)) if paths else 0


def _path(node: ast.AST, paths: dict[str, str]) -> str:
    """What a name or an attribute that is read means in Apex; empty for everything else."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return canonical(paths.get(node.id, ""))
    if isinstance(node, ast.Attribute):
        base = _path(node.value, paths)
        # What is known itself has parts of its own (`FusedAdam.step`): these are no further uses.
        return canonical(f"{base}.{node.attr}") if base and not is_known(base) else ""
    return ""
