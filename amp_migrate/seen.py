"""What was recognised of a training, as data that outlives its syntax trees: for whoever goes on by hand.

It is what a front end found, and a look at the calls around it. No decision of a plan is in it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amp_migrate.findings import Span

if TYPE_CHECKING:  # reports import this file, and need no LibCST
    import libcst as cst

    from amp_migrate.facts import Facts
    from amp_migrate.facts.tree import Statement
    from amp_migrate.plan.model import Recognition

_OF_DEVICES = frozenset(("cuda", "to", "device", "is_available", "set_device"))
_IS_TORCH_OR_MADE = re.compile(r"torch\b|[\w.]*\b[A-Z]\w*\(")  # `torch.device(...)`, `Net().to(device)`
_OTHER_PARTS = re.compile(r"apex\.(?!amp\b|fp16_utils\b)")  # `apex.parallel.DistributedDataParallel(...)`
_CLIPS = ("clip_grad_norm", "clip_grad_value", "clip_master_grads")


@dataclasses.dataclass(frozen=True)
class Seen:
    """`what` stands at a line (from 1) of a file, as its `text`; `cell` and `span` are those of a `Finding`."""

    path: str
    line: int
    what: str
    text: str
    cell: tuple[int, int] | None = None
    span: Span | None = None

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """As it stands in the files."""
        return self.path, self.line, self.span.column if self.span is not None else 0, self.what, self.text


def seen_in(facts: Facts, found: Recognition) -> list[Seen]:
    """What a front end found, and the steps, forwards, clips and devices beside it, in their order in the files."""
    if not found.sites:
        return []
    every = dict.fromkeys([*_found(found), *_around(facts, found)])
    is_written = facts.tree.parents.__contains__
    nodes = {(what, node): None for what, node in every if what != "loss scale" or is_written(node)}  # no default
    trained = [node for what, node in nodes if what != "device"]
    nodes |= dict.fromkeys(("guard", test) for test in _guards(facts, trained))
    return sorted({_seen(facts, what, node) for what, node in nodes}, key=lambda one: one.order)


def _seen(facts: Facts, what: str, node: cst.CSTNode) -> Seen:
    return Seen(facts.file_of(node).path, facts.line(node), what, facts.text(node).strip(), span=facts.span(node))


def _found(found: Recognition) -> Iterator[tuple[str, cst.CSTNode]]:
    """By what it is: the nodes that mean something to the source form."""
    from amp_migrate.facts.tree import argument_value

    yield from (("import", one.node) for one in found.imports)
    for setup in found.setups:
        yield from [] if setup.stays else [("setup", setup.call)]
        yield from (("model", one) for one in setup.models)
        yield from (("optimizer", one) for one in setup.optimizers)
        yield from (("condition", one.node) for one in setup.conditions)
        level = argument_value(setup.call, "opt_level")
        yield from [("level", level)] if level is not None else []
        scale = (setup.loss_scale.name, setup.loss_scale.runtime, setup.loss_scale.initial)
        yield from (("loss scale", one) for one in scale if one is not None)
    for backward in found.backwards:
        yield "backward", backward.call
        yield "loss", backward.loss
        yield from (("optimizer", one) for one in backward.optimizers)
    yield from (("gradients", one.node) for one in found.parameters)
    yield from (("state", one.node) for one in (*found.saves, *found.loads))
    yield from (("loss scale", one.node) for one in found.scale_reads)
    yield from (("skipped step", one.node) for one in found.skip_reads)
    yield from (("handed on", one.node) for one in found.handed)
    yield from (("cast", one) for one in (*(cast.node for cast in found.casts), *found.no_casts, *found.floats))
    yield from (("use", one) for one in found.sites)


def _around(facts: Facts, found: Recognition) -> Iterator[tuple[str, cst.CSTNode]]:
    """The calls that an edit has to look at as well: by names alone, for a refusal may come before anything is followed
    to where it is made.
    """
    import libcst as cst

    from amp_migrate.facts.tree import called_name

    models = {facts.text(one) for setup in found.setups for one in setup.models}
    models |= {f"self.{name}" for name in models if name.isidentifier()}  # as whoever trains it mostly calls it
    optimizers = {facts.text(one) for setup in found.setups for one in setup.optimizers}
    for call, _ in facts.tree.every(cst.Call):
        name = called_name(call)
        receiver = facts.text(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        if name == "step" and (receiver in optimizers or "optim" in receiver.lower()):
            yield "step", call
        elif name.startswith(_CLIPS):
            yield "gradients", call
        elif facts.text(call.func).removesuffix(".forward") in models or (
            name == "forward" and "super" not in receiver
        ):
            yield "forward", call
        elif name in _OF_DEVICES and (name == "cuda" or receiver in models or _IS_TORCH_OR_MADE.match(receiver)):
            yield "device", call
        elif _OTHER_PARTS.match(facts.names.dotted(call.func) or ""):
            yield "part of Apex", call


def _guards(facts: Facts, nodes: Iterable[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
    """The tests under which something of the training stands, in its own function."""
    import libcst as cst

    for node in nodes:
        statement: Statement | None = facts.tree.statement_of(node)
        while statement is not None:
            if isinstance(statement.node, cst.If) and node is not statement.node.test:
                yield statement.node.test
            statement = statement.block.owner
