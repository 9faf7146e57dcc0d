"""The runs of statements that become regions: as short as they can be, split where something must stay out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import differentiated
from amp_migrate.facts.dataflow import overlaps, reads, writes
from amp_migrate.facts.tree import Block, Function, Statement, called_name, lowest_block, walk
from amp_migrate.findings import Inseparable, Refusal
from amp_migrate.plan.model import Backward, Recognition
from amp_migrate.plan.regions.arithmetic import computes, is_leading_arithmetic, is_trailing_arithmetic, is_untouched
from amp_migrate.plan.regions.barriers import Barriers
from amp_migrate.plan.regions.forwards import Forwards, has_no_gradients, is_no_grad
from amp_migrate.plan.regions.region import Region, has_no_casts
from amp_migrate.rules.regions import INSEPARABLE
from amp_migrate.rules.source_forms import PLAIN

_NAMES_OF_LOSSES = ("loss", "total_loss")


class Runs:
    """The regions of the `needed` statements of each function; what is `penalised` stays in float32."""

    def __init__(
        self,
        facts: Facts,
        found: Recognition,
        forwards: Forwards,
        barriers: Barriers,
        needed: dict[Function, set[Statement]],
        penalised: Callable[[Function], Collection[Statement]],
    ) -> None:
        self.facts = facts
        self.found = found
        self.forwards = forwards
        self.roles = forwards.roles
        self.barriers = barriers
        self._needed = needed
        self._penalised = penalised
        self._hoists: dict[Statement, Backward] = {}

    def hoist(self, backward: Backward) -> None:
        """A loss that is computed in the statement of its backward is computed in a region before it. Raises
        Inseparable where it has to have a line of its own for that.
        """
        if not computes(backward.loss):
            return
        self._check_has_a_line(backward)
        anchor = _before_guard(backward)
        self._hoists[anchor] = backward
        self._needed.setdefault(anchor.function, set())

    def of(self, function: Function) -> Iterator[Region]:
        """The regions of a function. Raises Refusal where a forward cannot be told from what must stay out."""
        needed = self._needed[function]
        anchors = [anchor for anchor in self._hoists if anchor.function is function]
        block = lowest_block([*needed, *anchors]) if needed or anchors else None
        if block is None:
            return
        while not anchors and block.owner is not None and self._is_step_by_step(block.owner, needed):
            block = block.owner.block
        runs = list(self._runs(block, needed))
        for anchor in anchors:
            yield from self._with_hoist(runs, anchor)
        yield from runs

    def _runs(self, block: Block, needed: set[Statement]) -> Iterator[Region]:
        """The maximal runs of needed statements in a block, split at barriers."""
        run: list[Statement] = []
        for statement in block.statements:
            holds = any(inner in needed for inner in statement.descendants())
            if statement in needed:
                self._check_separable(statement)
            if self._must_stay_out(statement, block, needed):
                yield from self._close(block, run)
                run = []
                if holds:
                    for child in statement.blocks:
                        yield from self._runs(child, needed)
            elif holds and self._hands_model_on(statement, run, needed):
                yield from self._close(block, run)
                yield from self._close(block, [statement])
                run = []
            elif holds:
                run.append(statement)
        yield from self._close(block, run)

    def _is_step_by_step(self, loop: Statement, needed: set[Statement]) -> bool:
        """True for a loop over the steps of one loss, all under autocast: around it, each weight is cast once."""
        if not loop.is_loop:
            return False
        inside = [inner for block in loop.blocks for one in block.statements for inner in one.descendants()]
        if any(self._must_stay_out(inner, inner.block, needed) for inner in inside):
            return False
        return all(one in needed or is_untouched(self.forwards, one) for one in inside)

    def _check_separable(self, statement: Statement) -> None:
        """A forward must run under autocast, a backward or a gradient of gradients must not."""
        if statement.blocks or not self.barriers.blocks(statement):
            return
        for call in self.facts.tree.calls(statement):
            if self.forwards.is_forward(call) and not self.barriers.call_blocks(call):
                message = f"{self.facts.text(call.func)} runs in the same statement as what must stay out of autocast"
                apart = self._differentiated(statement) or self._loss_around(call)
                raise Inseparable(call, message, apart, _NAMES_OF_LOSSES)

    def _differentiated(self, statement: Statement) -> cst.BaseExpression | None:
        """X of the statement `X.backward()`."""
        call = statement.node.value if isinstance(statement.node, cst.Expr) else None
        if not isinstance(call, cst.Call) or called_name(call) != "backward":
            return None
        return next(iter(differentiated(self.facts, call)), None)

    def _loss_around(self, forward: cst.Call) -> cst.BaseExpression | None:
        """X of `update(optimizer, X)`, in which a forward runs, for a function that takes it as its loss."""
        parents = self.facts.tree.parents
        child: cst.CSTNode = forward
        while not isinstance(child, cst.BaseSmallStatement) and child in parents:
            arg, child = child, parents[child]
            function = self.facts.objects.called_function(child) if isinstance(child, cst.Call) else None
            if isinstance(child, cst.Call) and function is not None and self.barriers.call_blocks(child):
                given = self.facts.objects.arguments(child, function)
                return next((one.value for param, one in given if one is arg and "loss" in param.name.value), None)
        return None

    def _check_has_a_line(self, backward: Backward) -> None:
        """What a plain loop computes in the statement of its backward would be read, and repaired, by nobody."""
        if self.found.form == PLAIN:
            message = f"{self.facts.text(backward.loss)} is computed in the statement of its backward"
            raise Inseparable(backward.loss, message, backward.loss, _NAMES_OF_LOSSES)

    def _must_stay_out(self, statement: Statement, block: Block, needed: set[Statement]) -> bool:
        if isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)):
            return True
        if any(inner in self._penalised(block.function) for inner in statement.descendants()):
            return True
        return self.barriers.blocks(statement) or self._needs_its_own(statement, block, needed)

    def _needs_its_own(self, statement: Statement, block: Block, needed: set[Statement]) -> bool:
        """A forward without gradients beside one with gradients of the same weights: autocast would hand the
        second the casts that the first cached without a graph ([T] pytorch#65766).
        """
        if not is_no_grad(self.facts, statement) or not self._runs_inside(statement):
            return False
        others = [
            inner
            for sibling in block.statements
            if sibling is not statement
            for inner in sibling.descendants()
            if inner in needed
        ]
        mine = self.forwards.models_run(list(statement.descendants()))
        return (
            not mine
            or not others
            or bool(mine & self.forwards.models_run(others))
            or not self.forwards.models_run(others)
        )

    def _hands_model_on(self, statement: Statement, run: list[Statement], needed: set[Statement]) -> bool:
        """True for `targets = guess(net, images)` before `net(images)`, if the function gets the model and may run it
        without gradients: the same cache of casts is in danger as above. A loss that is given the model comes later.
        """
        following = [inner for later in statement.next_siblings() for inner in later.descendants() if inner in needed]
        inside = [inner for inner in statement.descendants() if inner in needed]
        if run or not self.forwards.models_run(inside) & self.forwards.models_run(following):
            return False
        for call in (call for inner in inside for call in self.facts.tree.calls(inner)):
            if self.roles.is_forward(call) or not self.forwards.is_forward(call):
                continue
            function = self.facts.objects.called_function(call)
            if function is None or has_no_gradients(self.facts, function):
                return True
            if any(is_no_grad(self.facts, inner) for inner in function.descendants()):
                return True
        return False

    def _runs_inside(self, statement: Statement) -> bool:
        return any(
            self.forwards.runs_model(inner) or self.forwards.calls_an_object(inner) for inner in statement.descendants()
        )

    def _close(self, block: Block, run: list[Statement]) -> Iterator[Region]:
        """One region, without the arithmetic at its ends. A run inside one arm moves into that arm."""
        needed = self._needed[block.function]
        while run and (is_trailing_arithmetic(run[-1], needed) or _is_late_alias(run)):
            run = run[:-1]
        while len(run) > 1 and is_leading_arithmetic(self.forwards, run[0]):
            run = run[1:]
        if all(map(_is_alias, run)):
            return
        if len(run) == 1 and has_no_casts(run[0], self.found):
            return
        if len(run) == 1:
            inner = self._only_arm(run[0])
            if inner is not None:
                yield from self._runs(inner, needed)
                return
        self._check_line(block, run)
        yield Region(block, run[0], run[-1])

    def _check_line(self, block: Block, run: list[Statement]) -> None:
        """What shares a line with the region by a semicolon comes along into it."""
        for statement in block.statements:
            if statement.line in (run[0].line, run[-1].line) and self.barriers.blocks(statement):
                raise Refusal(INSEPARABLE, statement.node, "this shares a line with a forward, by a semicolon")

    def _only_arm(self, statement: Statement) -> Block | None:
        """The one block of a compound statement that holds everything needed of it."""
        needed = self._needed[statement.function]
        if statement in needed or self._is_step_by_step(statement, needed):
            return None
        holding = [
            block
            for block in statement.blocks
            if any(inner in needed for child in block.statements for inner in child.descendants())
        ]
        return holding[0] if len(holding) == 1 else None

    def _with_hoist(self, runs: list[Region], anchor: Statement) -> Iterator[Region]:
        """The loss expression is computed at the end of the run before it, or in a region of its own."""
        backward = self._hoists[anchor]
        for region in reversed(runs):
            between = anchor.block.statements[region.last.index + 1 : anchor.index]
            if region.block is anchor.block and region.last.index < anchor.index:
                if not any(self.barriers.blocks(statement) for statement in between):
                    made = [
                        path for statement in between for inner in statement.descendants() for path in writes(inner)
                    ]
                    if any(overlaps(path, own) for path in reads(backward.loss) for own in made):
                        region.last = between[-1]
                    region.hoisted = backward
                    return
        yield Region(anchor.block, anchor, anchor, hoisted=backward, only_hoisted=True)


def _before_guard(backward: Backward) -> Statement:
    """Where a loss expression can be computed: before a guard that goes, if the backward is the first in its arm."""
    if backward.collapsed and backward.guard is not None:
        if backward.statement.index == 0 and backward.statement.block.owner is backward.guard.statement:
            return backward.guard.statement
    return backward.statement


def _is_late_alias(run: list[Statement]) -> bool:
    """True for a `loss = main_loss` that comes after statements of another kind: they need no autocast."""
    return len(run) > 1 and run[-2].index + 1 < run[-1].index and _is_alias(run[-1])


def _is_alias(statement: Statement) -> bool:
    """True for another name of a value, or of a part of one: nothing is computed."""
    value = statement.node.value if isinstance(statement.node, cst.Assign) else None
    is_part = isinstance(value, (cst.Name, cst.Attribute, cst.Subscript))
    return is_part and value is not None and not any(isinstance(part, cst.Call) for part in walk(value))
