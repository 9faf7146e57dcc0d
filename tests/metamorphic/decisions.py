"""What was decided about a program, read from its output: what the output has and the program had not, in numbers.

Numbers and not places, since a rewrite may move a statement. Nothing of the planner is asked.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from amp_migrate import Result
from amp_migrate.files.syntax import parsed
from amp_migrate.findings import Finding
from tests.metamorphic.reach import Reach
from tests.metamorphic.scopes import FUNCTIONS

_SCALER_CALLS = "scale unscale_ update get_scale is_enabled state_dict load_state_dict".split()
_FLOAT32 = ("torch.float32", "torch.float", "torch.float64", "torch.double")
_OF_PLACES = ("regions ", "is_enabled ")
PROTECTIONS = ("modules in regions", "functions in regions", "islands and casts", "unscale_", "kept float32")


@dataclasses.dataclass(frozen=True)
class Decision:
    """The status of a program, how often its output has more of each kind, and its findings by code."""

    status: str
    counts: Counter[str]
    findings: Counter[str]

    @classmethod
    def of(cls, status: str, counts: Mapping[str, int], findings: Mapping[str, int]) -> Decision:
        return cls(status, Counter({kind: number for kind, number in counts.items() if number}), Counter(findings))


def decided(status: str, results: Iterable[Result]) -> Decision:
    """What these results of a program say."""
    every = list(results)
    before, after = _trees(one.source for one in every), _trees(one.output for one in every)
    counts = _counted(after)
    counts.subtract(_counted(before))
    findings = Counter(finding.code for one in every for finding in one.findings if not _is_about_places(finding))
    return Decision.of(status, counts, findings)


def differences(base: Decision, mutant: Decision, *, of_places: bool = True) -> tuple[str, ...]:
    """What differs between two decisions: `unscale_ 1 -> 0`. Into how many regions the same code is split, and how often
    their condition is written, is asked with `of_places`.
    """
    told = [] if base.status == mutant.status else [f"{base.status} -> {mutant.status}"]
    if not told:
        changes = _changes(base.counts, mutant.counts)
        told += changes if of_places else [one for one in changes if not one.startswith(_OF_PLACES)]
    return (*told, *_changes(base.findings, mutant.findings))


def is_weaker(base: Decision, mutant: Decision) -> bool:
    """True where a refusal is lost, or a protection and no finding says so."""
    if mutant.status != "migrated" or base.status == "left":
        return mutant.status == "migrated"
    lost = any(mutant.counts[kind] < base.counts[kind] for kind in PROTECTIONS)
    return base.status == "migrated" and lost and not mutant.findings - base.findings


def _changes(one: Counter[str], other: Counter[str]) -> list[str]:
    kinds = sorted({*one, *other})
    return [f"{kind} {one[kind]} -> {other[kind]}" for kind in kinds if one[kind] != other[kind]]


def _is_about_places(finding: Finding) -> bool:
    """Files that belong together are refused together, and a parameter without effect may be one that a rewrite has
    added: how many there are says nothing about the decision.
    """
    starts = {"AMP901": "belongs together with", "AMP103": "the parameter "}
    return finding.code in starts and finding.message.startswith(starts[finding.code])


def _trees(sources: Iterable[bytes]) -> list[ast.Module]:
    found = []
    for source in sources:
        try:
            found.append(parsed(source))
        except SyntaxError:
            continue
    return found


def _counted(trees: list[ast.Module]) -> Counter[str]:
    nodes = [node for tree in trees for node in ast.walk(tree)]
    counts = Counter(kind for node in nodes for kind in _kinds(node))
    counts["islands and casts"] = counts["islands"] + counts["casts"]
    regions = [node for node in nodes if "regions" in _kinds(node)]
    if regions:
        counts["modules in regions"], counts["functions in regions"] = Reach(trees).reached(regions)
    return counts


def _kinds(node: ast.AST) -> Iterator[str]:
    """The kinds under which a node is counted."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        yield from (_kind_of_region(one.context_expr) for one in node.items if _is_autocast(one.context_expr))
    elif isinstance(node, FUNCTIONS):
        decorators = [ast.unparse(one) for one in node.decorator_list]
        yield from ("regions" for one in node.decorator_list if _is_autocast(one))
        yield from ("kept float32" for one in decorators if "custom_fwd" in one or "custom_bwd" in one)
    elif isinstance(node, ast.Call):
        yield from _kinds_of_call(node)


def _kinds_of_call(call: ast.Call) -> Iterator[str]:
    if not isinstance(call.func, ast.Attribute):
        return
    name = call.func.attr
    values = {ast.unparse(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))}
    if name in ("float", "double") and not values and _is_tensor(call.func.value):
        yield "casts"
    if name in ("to", "type") and values & {*_FLOAT32}:
        yield "casts"
    if name == "half" or (name in ("to", "type") and values & {"torch.float16", "torch.half"}):
        yield "half casts"
    if name in _SCALER_CALLS:
        yield name
    if name == "step" and call.args and "scaler" in ast.unparse(call.func.value):
        yield "step"
    if name == "GradScaler":
        yield "scalers"


def _is_tensor(receiver: ast.expr) -> bool:
    return ast.unparse(receiver) != "torch"


def _is_autocast(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "autocast"


def _kind_of_region(node: ast.expr) -> str:
    keywords = node.keywords if isinstance(node, ast.Call) else []
    is_off = any(one.arg == "enabled" and ast.unparse(one.value) == "False" for one in keywords)
    return "islands" if is_off else "regions"
