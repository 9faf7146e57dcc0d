"""Which statements make a value: reads, writes and backward slices inside one function.

Values are followed by how they are written: `loss`, `self.loss`, `losses["kl"]` are paths, and a write to a
path makes what is read from it or from a part of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate import models
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Block, Statement, children, names_in, targets

Path = tuple[str, ...]

_MUTATORS = frozenset("append extend update add insert setdefault".split())


def path_of(node: cst.BaseExpression) -> Path | None:
    """The path of a name, an attribute chain or a subscript; None for other expressions."""
    if isinstance(node, cst.Name):
        return (node.value,)
    if isinstance(node, cst.Attribute):
        base = path_of(node.value)
        return (*base, node.attr.value) if base is not None else None
    if isinstance(node, cst.Subscript):
        base = path_of(node.value)
        return (*base, f"[{', '.join(source_key(item) for item in node.slice)}]") if base is not None else None
    return None


def overlaps(one: Path, other: Path) -> bool:
    """True where one path is a part of the other; two different subscripts may be the same element."""
    return all(a == b or (a[0] == b[0] == "[" and not _both_constant(a, b)) for a, b in zip(one, other, strict=False))


def reads(node: cst.CSTNode) -> Iterator[Path]:
    """The paths whose values an expression uses. The name of a called function is not one of them, the
    object of a called method is.
    """
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        path = path_of(node)
        if path is not None:
            yield path
            yield from _subscript_reads(node)
            return
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            yield from reads(node.func.value)
        elif not isinstance(node.func, cst.Name):
            yield from reads(node.func)
        for arg in node.args:
            yield from reads(arg.value)
        return
    found = (path for child in children(node) for path in reads(child))
    if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        own = set(_comprehension_names(node.for_in))
        found = (path for path in found if path[0] not in own)
    yield from found


def _comprehension_names(loop: cst.CompFor | None) -> Iterator[str]:
    """The names that a comprehension binds for itself."""
    while loop is not None:
        yield from names_in(loop.target)
        loop = loop.inner_for_in


def writes(statement: Statement) -> list[Path]:
    """The paths that a statement itself gives a value: assignments, loop and with targets, `x.append(...)`, and
    `x.index_add_(0, rows, y)`.
    """
    node = statement.node
    found = targets(node)
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        func = node.value.func
        if isinstance(func, cst.Attribute) and (func.attr.value in _MUTATORS or _is_in_place(func.attr.value)):
            found.append(func.value)
    return [path for target in found if (path := path_of(target)) is not None]


def _is_in_place(name: str) -> bool:
    """True for the methods of tensors that write another tensor into them."""
    row = models.method(name)
    return row is not None and row.in_place and row.inputs > 1


def own_reads(statement: Statement) -> list[Path]:
    """The paths that a statement itself reads, targets of plain assignments left out."""
    node = statement.node
    if isinstance(node, cst.Assign):
        return list(reads(node.value))
    if isinstance(node, cst.AnnAssign):
        return list(reads(node.value)) if node.value is not None else []
    if isinstance(node, cst.AugAssign):
        return [*reads(node.target), *reads(node.value)]
    if isinstance(node, cst.For):
        return list(reads(node.iter))
    found: list[Path] = []
    for part in _parts(node):
        found.extend(reads(part))
    return found


@dataclasses.dataclass
class Slice:
    """The statements that make a value, and the paths that come from before the function's own code."""

    statements: set[Statement] = dataclasses.field(default_factory=set)
    open_paths: set[Path] = dataclasses.field(default_factory=set)


def backward_slice(
    at: Statement,
    wanted: Iterable[Path],
    ignored: Callable[[Path], bool],
    reads_of: Callable[[Statement], list[Path]] = own_reads,
    *,
    last_turn: bool = False,
) -> Slice:
    """The simple statements of the function before `at` that the wanted values are made by; with `last_turn`, those
    too that made them when the loops around it ran the last time.

    Paths that `ignored` accepts (models, `self`) are not followed: they are no values that flow. `reads_of` says what
    of a statement's reads is followed.
    """
    found = Slice(open_paths={path for path in wanted if not ignored(path)})
    current: Statement | None = at
    while current is not None:
        for sibling in reversed(current.block.statements[: current.index]):
            _take(sibling, found, ignored, reads_of, certain=True)
        owner = current.block.owner
        if last_turn and owner is not None and owner.is_loop:
            for sibling in reversed(current.block.statements):
                _take(sibling, found, ignored, reads_of, certain=False)
        if owner is not None and isinstance(owner.node, (cst.For, cst.With)):
            bound = writes(owner)
            kept = {path for path in found.open_paths if path[:1] not in bound}
            if isinstance(owner.node, cst.For) and len(kept) < len(found.open_paths):
                kept.update(path for path in reads_of(owner) if not ignored(path))
            found.open_paths = kept
        current = owner
    return found


def _take(
    statement: Statement,
    found: Slice,
    ignored: Callable[[Path], bool],
    reads_of: Callable[[Statement], list[Path]],
    *,
    certain: bool,
) -> None:
    """Add what `statement` contributes; `certain` is false where it does not always run."""
    is_branch = isinstance(statement.node, cst.If)  # in an arm, what it sets itself hides what was before
    always = is_branch or (certain and isinstance(statement.node, (cst.With, cst.Try)))
    around = set(found.open_paths)
    has_both_arms = is_branch and any(block.arm == "else" for block in statement.blocks)
    joined = set() if certain and has_both_arms else set(around)  # else the value before may stay
    for block in reversed(statement.blocks):
        if not isinstance(statement.node, cst.ClassDef) and not _ends(block):
            found.open_paths = set(around) if is_branch else found.open_paths
            for inner in reversed(block.statements):
                _take(inner, found, ignored, reads_of, certain=always)
            joined |= found.open_paths
    found.open_paths = joined if is_branch else found.open_paths
    written = writes(statement)
    if not any(overlaps(path, want) for path in written for want in found.open_paths):
        return
    found.statements.add(statement)  # a `for` as well: what its body wants of the target comes from what it loops over
    if certain and isinstance(statement.node, (cst.Assign, cst.AnnAssign)):
        found.open_paths = {want for want in found.open_paths if not any(want[: len(p)] == p for p in written)}
    found.open_paths.update(path for path in reads_of(statement) if not ignored(path))


def _ends(block: Block) -> bool:
    """True for a block that nothing comes after: not the next round of a loop, either."""
    last = block.statements[-1] if block.statements else None
    return last is not None and last.leaves and not isinstance(last.node, (cst.Break, cst.Continue))


def _parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in children(node):
        if not isinstance(child, (cst.BaseSuite, cst.Else, cst.Finally, cst.BaseCompoundStatement)):
            yield child


def _subscript_reads(node: cst.BaseExpression) -> Iterator[Path]:
    """What the indices of a subscript chain read."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if isinstance(node, cst.Subscript):
            for item in node.slice:
                yield from reads(item)
        node = node.value


def _both_constant(one: str, other: str) -> bool:
    return all(text[1:2] in "'\"0123456789-" for text in (one, other))
