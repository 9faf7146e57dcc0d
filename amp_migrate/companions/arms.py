"""Arms that differ only in whose class they use: the one with torch's own stays (rule B3).

if args.apex:
    model = ApexDDP(model, delay_allreduce=True)
else:
    model = DDP(model, device_ids=[args.gpu])        (stays)

norm = FusedLayerNorm(width) if args.fused else nn.LayerNorm(width)         norm = nn.LayerNorm(width)
"""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Iterator, Mapping

import libcst as cst

from amp_migrate.companions.arguments import NewArguments
from amp_migrate.companions.spelling import torch_path
from amp_migrate.companions.table import Companion
from amp_migrate.companions.uses import Use, statements_of
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Block, Function, Statement, walk
from amp_migrate.plan.purity import only_looks

# torch's DistributedDataParallel takes more than Apex's: what only says how, not what.
_MORE = frozenset("device_ids output_device find_unused_parameters broadcast_buffers".split())


@dataclasses.dataclass(frozen=True)
class Collapse:
    """An `if` of which only `arm` remains, which it may not have; `uses` are those that go with the other one."""

    statement: Statement
    arm: str
    uses: tuple[Use, ...]


@dataclasses.dataclass(frozen=True)
class Choice:
    """A conditional expression of which only `kept` remains; `use` goes with the other side."""

    node: cst.IfExp
    kept: cst.BaseExpression
    use: Use


def find_collapses(
    facts: Facts, root: Function, calls: Mapping[Use, tuple[Companion, NewArguments]]
) -> Iterator[Collapse]:
    """The `if` statements of a file with one arm that uses Apex and another that does the same with torch."""
    for statement in statements_of(facts, root):
        arms = {block.arm: block for block in statement.blocks}
        if (
            not isinstance(statement.node, cst.If)
            or set(arms) != {"body", "else"}
            or not only_looks(statement.node.test)
        ):
            continue
        for arm, other in (("body", "else"), ("else", "body")):
            inside = {use: new for use, new in calls.items() if _is_in(use.statement, arms[arm])}
            if inside and not any(_is_in(use.statement, arms[other]) for use in calls):
                if _same(facts, arms[arm], arms[other], inside):
                    yield Collapse(statement, other, tuple(inside))


def find_choices(facts: Facts, calls: Mapping[Use, tuple[Companion, NewArguments]]) -> Iterator[Choice]:
    """The conditional expressions that choose between a class of Apex and torch's own, made in the same way."""
    for use, (companion, arguments) in calls.items():
        call = facts.tree.parents[use.node]
        node = facts.tree.parents.get(call)
        if not isinstance(node, cst.IfExp) or call is node.test or not only_looks(node.test):
            continue
        other = node.orelse if node.body is call else node.body
        if isinstance(call, cst.Call) and isinstance(other, cst.Call):
            ours, theirs = _in_torch(call, companion, arguments), _of_torch(facts, other, companion.target)
            if ours is not None and theirs is not None and _dumped(ours) == _dumped(theirs):
                yield Choice(node, other, use)


def find_repeated(facts: Facts, names: Mapping[Use, Companion]) -> Iterator[Collapse]:
    """`if args.fused: make = FusedSGD` right after `make = optim.SGD`, which says the same now."""
    for use, companion in names.items():
        owner = use.statement.block.owner
        if owner is None or not isinstance(owner.node, cst.If) or not only_looks(owner.node.test) or not owner.index:
            continue
        before = owner.block.statements[owner.index - 1].node
        alone = owner.node.orelse is None and len(use.statement.block.statements) == 1
        if alone and isinstance(before, cst.Assign) and isinstance(use.statement.node, cst.Assign):
            targets = [[facts.text(one.target) for one in node.targets] for node in (before, use.statement.node)]
            if targets[0] == targets[1] and torch_path(facts, before.value) == companion.target:
                yield Collapse(owner, "else", (use,))


def _is_in(statement: Statement, block: Block) -> bool:
    return any(statement.inside(one) for one in block.statements)


def _same(facts: Facts, block: Block, plain: Block, uses: Mapping[Use, tuple[Companion, NewArguments]]) -> bool:
    """True where two arms are the same statements but for the imports, once both are written in torch's names."""
    ours: dict[cst.CSTNode, cst.CSTNode] = {}
    for use, (companion, arguments) in uses.items():
        call = facts.tree.parents[use.node]
        assert isinstance(call, cst.Call)
        written = _in_torch(call, companion, arguments)
        if written is None:
            return False
        ours[call] = written
    targets = {companion.target for companion, _ in uses.values()}
    inner = [one for statement in plain.statements for one in statement.descendants()]
    theirs: dict[cst.CSTNode, cst.CSTNode] = {
        call: written
        for statement in inner
        for call in facts.tree.calls(statement)
        for target in targets
        if (written := _of_torch(facts, call, target)) is not None
    }
    return bool(theirs) and _dump(facts, block, ours) == _dump(facts, plain, theirs)


def _in_torch(call: cst.Call, companion: Companion, arguments: NewArguments) -> cst.Call | None:
    """A call of Apex's class as one of torch's; None where an argument gets another name."""
    if any(keyword is not None for _, keyword in arguments.kept):
        return None
    kept = [call.args[position].with_changes(comma=cst.MaybeSentinel.DEFAULT) for position, _ in arguments.kept]
    added = [(name, cst.parse_expression(text)) for name, text in arguments.added if name not in _MORE]
    return _call(companion.target, [*kept, *(cst.Arg(value, cst.Name(name)) for name, value in added)])


def _of_torch(facts: Facts, call: cst.Call, target: str) -> cst.Call | None:
    """A call of a class of torch's, by its full name; None for any other."""
    if torch_path(facts, call.func) != target:
        return None
    kept = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in call.args]
    return _call(target, [arg for arg in kept if _name(arg) not in _MORE])


def _dumped(call: cst.Call) -> str:
    return ast.dump(ast.parse(cst.Module([]).code_for_node(call)))


def _call(target: str, args: list[cst.Arg]) -> cst.Call:
    return cst.Call(cst.parse_expression(target), args)


def _name(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def _dump(facts: Facts, block: Block, replaced: Mapping[cst.CSTNode, cst.CSTNode]) -> list[str]:
    """The statements of an arm as syntax, imports left out, some calls replaced."""
    found = []
    for statement in block.statements:
        node = statement.node
        if isinstance(node, (cst.Import, cst.ImportFrom)) or _only_imports(statement):
            continue
        if isinstance(node, cst.BaseCompoundStatement):
            node = node.with_changes(leading_lines=())
        changed = node.visit(_Replacer(replaced)) if any(part in replaced for part in walk(node)) else node
        assert isinstance(changed, cst.CSTNode)
        found.append(ast.dump(ast.parse(textwrap.dedent(facts.file_of(statement.node).module.code_for_node(changed)))))
    return found


def _only_imports(statement: Statement) -> bool:
    """`try: from apex.parallel import DistributedDataParallel`, whatever happens where that fails."""
    body = statement.blocks[0].statements if isinstance(statement.node, cst.Try) else []
    return bool(body) and all(isinstance(inner.node, (cst.Import, cst.ImportFrom)) for inner in body)


class _Replacer(cst.CSTTransformer):
    def __init__(self, replaced: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._replaced = replaced

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        return self._replaced.get(original_node, updated_node)  # type: ignore[return-value]
