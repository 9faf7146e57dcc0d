"""Autocast regions around forward and loss (rules E1 to E3).

From the loss back to the calls that reach a model: the region is the shortest run of statements, in the
lowest block that holds them all, from the first model call to the last statement on the way to the loss.
Arithmetic on the loss at the end stays outside; a backward, a step, a `torch.autograd.grad` or a `yield` is
never inside, the region splits around it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, backward_slice, overlaps, own_reads, path_of, reads, writes
from amp_migrate.facts.objects import ObjectSet
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Block, Class, Function, Statement, called_name, walk
from amp_migrate.findings import Inseparable, Refusal
from amp_migrate.plan.model import Backward, Recognition, Setup
from amp_migrate.plan.regions.barriers import Barriers, is_autograd_grad, read_by
from amp_migrate.plan.regions.carried_over import only_hands_on
from amp_migrate.plan.regions.forwards import Forwards, has_no_gradients, is_no_grad
from amp_migrate.plan.regions.penalties import Penalties
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.steps.events import Events
from amp_migrate.selection import PLAIN

_NAMES_OF_LOSSES = ("loss", "total_loss")
# What makes a tensor of values, without a graph; of a tensor, `as_tensor` makes nothing.
_MAKES = frozenset(("from_numpy", "tensor", "as_tensor", "FloatTensor"))


@dataclasses.dataclass(eq=False)
class Region:
    """The statements `first` to `last` of one block, to be run under autocast.

    `hoisted` is a loss expression that stands in the source form's own call and has to be computed inside;
    with `only_hoisted`, there is nothing else in the region, and it goes before `first`.
    """

    block: Block
    first: Statement
    last: Statement
    hoisted: Backward | None = None
    only_hoisted: bool = False

    @property
    def function(self) -> Function:
        return self.block.function

    def statements(self) -> list[Statement]:
        return self.block.statements[self.first.index : self.last.index + 1]

    def covers(self, statement: Statement) -> bool:
        return any(statement.inside(inner) for inner in self.statements())


def find_regions(facts: Facts, found: Recognition, forwards: Forwards, events: Events) -> list[Region]:
    """The regions of all scaled losses. Raises Refusal where a loss comes from outside of the file."""
    return _Finder(facts, found, forwards, events).find()


class _Finder:
    def __init__(self, facts: Facts, found: Recognition, forwards: Forwards, events: Events) -> None:
        self.facts = facts
        self.found = found
        self.forwards = forwards
        self.roles = forwards.roles
        self.barriers = Barriers(facts, events)
        self.tensors = Tensors(facts)
        self.penalties = Penalties(facts, forwards)
        self._needed: dict[Function, set[Statement]] = {}
        self._hoists: dict[Statement, Backward] = {}
        self._sliced: dict[tuple[Statement, frozenset[Path], bool], bool] = {}
        self._model_paths: dict[Function, set[Path]] = {}

    def find(self) -> list[Region]:
        for backward in self.found.backwards:
            wanted = list(reads(backward.loss))
            found = self._slice(backward.statement, wanted, by_name=True) or self._forward_in(backward)
            found = found or self._is_penalty(backward, wanted)
            if not found:
                found = self._is_kept_by_model(backward.statement, wanted)
                found = self._slice(backward.statement, wanted, by_name=False) or found
            if not found:
                raise Refusal(
                    "AMP908",
                    backward.loss,
                    f"the forward behind {self.facts.text(backward.loss)} is not in this file",
                )
            if self._computes(backward.loss):
                self._check_has_a_line(backward)
                anchor = _before_guard(backward)
                self._hoists[anchor] = backward
                self._needed.setdefault(anchor.function, set())
        for function, needed in self._needed.items():
            needed -= self._penalised(function) | {one for one in needed if _defines_lambda(one)}
        regions = [region for function in self._needed for region in self._regions_of(function)]
        regions = [region for region in regions if not self._is_preparation(region)]
        self._check_penalties(regions)
        self._check_anything_is_left(regions)
        return regions

    def _check_anything_is_left(self, regions: list[Region]) -> None:
        """A scaler without any autocast would be for nothing."""
        forwards = [one for function in self._needed for one in self._penalised(function)]
        inside = (inner for region in regions for one in region.statements() for inner in one.descendants())
        if any(map(self.forwards.runs_model, forwards)) and not any(map(self.forwards.runs_model, inside)):
            first = min(forwards, key=lambda one: one.order)
            text = self.facts.text(first.node)
            raise Refusal("AMP968", first.node, f"{text} is for a penalty as well, and nothing else for autocast")

    def _penalised(self, function: Function) -> frozenset[Statement]:
        """What stays in float32 for a penalty of its gradient; O1 had no such place."""
        return self.penalties.forwards_of(function) if not self.found.evaluates else frozenset()

    def _is_preparation(self, region: Region) -> bool:
        """True for what comes before the optimizer is built, or holds that: it makes the model that is trained.

        Where several trainings follow each other, the first ones come before the optimizers of the others.
        """
        later = [setup for setup in self.found.setups if setup.stays and self._is_built_after(setup, region)]
        optimizers = self._optimizers_of(node for setup in later for node in setup.optimizers)
        built = [place.order for setup in later for place in self._places_of(setup, region.function)]
        return bool(later) and not any(
            backward.statement.function is region.function
            and backward.statement.order > region.last.order
            and (backward.statement.order < min(built) or not self._optimizers_of(backward.optimizers) & optimizers)
            for backward in self.found.backwards
        )

    def _is_built_after(self, setup: Setup, region: Region) -> bool:
        return any(
            (region.covers(built) or region.last.order < built.order)
            and not any(outer.is_loop and built.inside(outer) for outer in region.first.path()[:-1])
            for built in self._places_of(setup, region.function)
        )

    def _optimizers_of(self, nodes: Iterable[cst.BaseExpression]) -> ObjectSet:
        return frozenset().union(*(self.facts.objects.objects(node) for node in nodes))

    def _places_of(self, setup: Setup, function: Function) -> Iterator[Statement]:
        """Where a function builds the optimizer, itself or by the function that it calls for that."""
        home = setup.statement.function
        if home is function:
            yield setup.statement
        yield from (site.statement for site in self.facts.calls.callers(home) if site.caller is function)

    def _check_penalties(self, regions: list[Region]) -> None:
        """The outputs of `autograd.grad(outputs, inputs, create_graph=True)` must not come from a region (rule H5), nor
        the inputs from a forward in one: their gradient would be in half, too.
        """
        for region in regions if not self.found.evaluates else ():
            inside = [inner for one in region.statements() for inner in one.descendants()]
            made = {path[0] for one in inside for path in writes(one)}
            outputs_of_models = {path[0] for one in inside if self.forwards.runs_model(one) for path in writes(one)}
            for statement in region.function.body.statements:
                for inner in statement.descendants():
                    if inner.order <= region.first.order:
                        continue
                    lost = self.penalties.inputs_at(inner) & outputs_of_models
                    for call in self.facts.tree.calls(inner):
                        if is_autograd_grad(self.facts, call):
                            lost |= made & {path[0] for path in read_by(call, "outputs", 0)}
                    if lost:
                        names = ", ".join(sorted(lost))
                        raise Refusal("AMP968", inner.node, f"{names} is made under autocast, for a loss as well")

    # -- from the loss back to the forward --------------------------------------------------------------

    def _slice(self, at: Statement, wanted: list[Path], *, by_name: bool) -> bool:
        """Note the statements that make the wanted values; False where no forward is among them.

        First the forwards are looked for by the models that are known by name, here and in all callers; only
        where there are none, other calls that may be one are taken.
        """
        key = (at, frozenset(wanted), by_name)
        if key in self._sliced:
            return self._sliced[key]
        self._sliced[key] = False
        found = backward_slice(at, wanted, lambda path: self._is_no_value(path, at.function), self._reads_of)
        forwards = [statement for statement in found.statements if self.forwards.runs_model(statement)]
        reached = False
        if not forwards and not by_name:
            forwards = _of_this_round(filter(self.forwards.calls_an_object, found.statements), at)
        if not forwards:
            for site, paths in self._callers_of(found.open_paths, at.function):
                reached = self._slice(site, paths, by_name=by_name) or reached
        if not forwards and not reached and not by_name:
            computing = [one for one in found.statements if not is_trailing_arithmetic(one, found.statements)]
            forwards = _of_this_round(filter(self.forwards.computes, computing), at)
        if forwards:
            reached = True
            needed = self._after_forward(found.statements, forwards)
            self._needed.setdefault(at.function, set()).update(needed)
        for statement, path in self._attributes_made_elsewhere(found.open_paths, at.function):
            if self._slice_attribute(statement, path):
                reached = True
                users = self._users_of(found.statements, [path])
                self._needed.setdefault(at.function, set()).update(users)
        self._sliced[key] = reached
        return reached

    def _reads_of(self, statement: Statement) -> list[Path]:
        """Behind a gradient of its own, a penalty is in float32 (rule H5); O1 had no such place. What comes back from
        NumPy has no gradients: labels that a model has made were made by an evaluation.
        """
        if not self.found.evaluates and (self.barriers.takes_gradient(statement) or _is_from_numpy(statement)):
            return []
        return own_reads(statement)

    def _is_penalty(self, backward: Backward, wanted: list[Path]) -> bool:
        """True for a loss that is made of gradients alone: its forward stays in float32."""
        made = backward_slice(backward.statement, wanted, lambda path: False, self._reads_of).statements
        return not self.found.evaluates and any(self.barriers.takes_gradient(statement) for statement in made)

    def _slice_attribute(self, statement: Statement, path: Path) -> bool:
        """An attribute that another method of the class sets: its forward is in that method."""
        end = statement.function.body.statements[-1]
        made = backward_slice(end, [path], lambda other: self._is_no_value(other, statement.function))
        statements = made.statements | {statement}
        forwards = [one for one in statements if self.forwards.runs_model(one)]
        if forwards:
            needed = self._after_forward(statements, forwards)
            self._needed.setdefault(statement.function, set()).update(needed)
        return bool(forwards)

    def _is_kept_by_model(self, at: Statement, wanted: list[Path]) -> bool:
        """`loss = self.net.loss` of what the last forward of a model has kept in it: notes that forward, and what is
        computed of such values afterwards.
        """
        made = backward_slice(at, wanted, lambda path: False, self._reads_of).statements
        read = {*wanted, *(path for statement in made for path in own_reads(statement))}
        before = [inner for inner in at.function.descendants() if inner.order < at.order and not inner.blocks]
        keeping = [statement for statement in before if self._held(statement, read)]
        forwards = _of_this_round(keeping, at)
        held = [path for statement in forwards for path in self._held(statement, read)]
        users = {one for one in self._users_of(made, held) if self.facts.tree.calls(one)}
        self._needed.setdefault(at.function, set()).update(forwards, users)
        return bool(forwards)

    def _held(self, statement: Statement, read: set[Path]) -> list[Path]:
        """What is read of `self.net` where a statement runs `self.net(x)`: a part of it may be what is trained."""
        called = [path for call in self.facts.tree.calls(statement) if (path := path_of(call.func)) is not None]
        return [one for one in read if any(len(one) > len(path) and one[: len(path)] == path for path in called)]

    def _forward_in(self, backward: Backward) -> bool:
        """True for `amp.scale_loss(model(x).mean(), optimizer)`: the forward is in the loss expression."""
        return self.forwards.in_expression(backward.loss)

    def _is_no_value(self, path: Path, function: Function) -> bool:
        """Models and instances are not values that flow from statement to statement."""
        receiver = function.receiver
        if path == (receiver,):
            return True
        variable = self.facts.names.visible(path[0], function)
        if variable is None:
            return True
        if any(binding.kind in ("import", "def", "class") for binding in variable.bindings):
            return True
        models = self.roles.trained if path[0] == receiver else self.roles.models
        if self.facts.objects.variable_objects(variable) & models:
            return True
        return self._path_is_model(path, function)

    def _path_is_model(self, path: Path, function: Function) -> bool:
        if function not in self._model_paths:
            self._model_paths[function] = {
                found
                for inner in function.descendants()
                for part in self.facts.tree.expressions(inner)
                if isinstance(part, (cst.Attribute, cst.Subscript)) and self.roles.is_model(part)
                if (found := path_of(part)) is not None
            }
        return any(model[: len(path)] == path for model in self._model_paths[function])

    def _computes(self, loss: cst.BaseExpression) -> bool:
        return any(
            isinstance(part, cst.Call) and called_name(part) not in ("mean", "float", "sum", "item")
            for part in walk(loss)
        )

    def _after_forward(self, statements: set[Statement], forwards: list[Statement]) -> set[Statement]:
        """The forwards, the losses of torch that come after them (of what a hook has kept, perhaps), and the statements
        that use the results of either. What only detaches a state before the first of them stays where it is.
        """
        start = min(statement.order for statement in forwards)
        losses = [
            one
            for one in statements
            if one.order > start and any(map(self.tensors.is_torch_loss, self.facts.tree.calls(one)))
        ]
        made = [path for statement in (*forwards, *losses) for path in writes(statement)]
        users = self._users_of(statements - set(forwards), made, [*forwards, *losses])
        carried_over = {one for one in users if one.order < start and only_hands_on(self.facts, one)}
        return {*forwards, *losses, *users - carried_over}

    def _users_of(
        self, statements: set[Statement], made: list[Path], makers: Iterable[Statement] = ()
    ) -> set[Statement]:
        """The statements that use the paths, directly or through what others of them make; where the `makers` of the
        paths are known, those to which they come.
        """
        users = set()
        makers = list(makers)
        for statement in sorted(statements, key=lambda statement: statement.order):
            used = (result for result in made if any(overlaps(path, result) for path in own_reads(statement)))
            if any(not makers or self._arrives(result, statement, makers) for result in used):
                if not isinstance(statement.node, cst.For):  # it only hands on: its body uses the result
                    users.add(statement)
                made = [*made, *writes(statement)]
                makers += [statement] if makers else []
        return users

    def _arrives(self, result: Path, statement: Statement, makers: list[Statement]) -> bool:
        """False for `lengths` where it is prepared for `outputs, lengths = net(x, lengths)`: what comes out of that is
        another value, and none that an earlier round has left.
        """
        own = [one for one in makers if any(overlaps(result, path) for path in writes(one))]
        variable = self.facts.names.visible(result[0], statement.function)
        changes = any(isinstance(one.node, cst.Expr) for one in own)  # `losses.append(loss)` binds nothing
        if len(result) > 1 or variable is None or changes or any(one.order < statement.order for one in own):
            return True
        return any(binding.statement in own for binding in reaching(variable, statement))

    # -- across functions -------------------------------------------------------------------------------

    def _open_parameters(self, paths: set[Path], function: Function) -> set[str]:
        names = {param.name.value for param in function.parameters}
        return {path[0] for path in paths if path[0] in names}

    def _callers_of(self, paths: set[Path], function: Function) -> Iterator[tuple[Statement, list[Path]]]:
        """Where the values of parameters come from: every call of the function."""
        wanted = self._open_parameters(paths, function)
        for site in self.facts.calls.callers(function):
            given: list[Path] = []
            for param, arg in self.facts.objects.arguments(site.call, function):
                if param.name.value in wanted:
                    given.extend(reads(arg.value))
                    if self.forwards.in_expression(arg.value):
                        self._needed.setdefault(site.caller, set()).add(site.statement)
            if given:
                yield site.statement, given

    def _attributes_made_elsewhere(self, paths: set[Path], function: Function) -> Iterator[tuple[Statement, Path]]:
        owner: Class | None = function.owner
        if owner is None or not function.parameters:
            return
        receiver = function.parameters[0].name.value
        for path in paths:
            if len(path) < 2 or path[0] != receiver:
                continue
            for method in owner.methods.values():
                if method is function or not method.parameters:
                    continue
                if method.name == "__init__" and not self.found.evaluates:
                    continue  # made once and for all, in float32
                target = (method.parameters[0].name.value, path[1])
                for statement in method.body.statements:
                    for inner in statement.descendants():
                        if any(written[:2] == target for written in writes(inner)):
                            yield inner, target

    # -- runs of statements -----------------------------------------------------------------------------

    def _regions_of(self, function: Function) -> Iterator[Region]:
        needed = self._needed[function]
        anchors = [anchor for anchor in self._hoists if anchor.function is function]
        block = lowest_block([*needed, *anchors]) if needed or anchors else None
        if block is None:
            return
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

    def _check_separable(self, statement: Statement) -> None:
        """A forward must run under autocast, a backward or a gradient of gradients must not."""
        if statement.blocks or not self.barriers.blocks(statement):
            return
        for call in self.facts.tree.calls(statement):
            function = self.facts.objects.called_function(call)
            if self.forwards.is_forward(call) and (function is None or not self.barriers.function_blocks(function)):
                message = f"{self.facts.text(call.func)} runs in the same statement as what must stay out of autocast"
                raise Inseparable(call, message, _differentiated(statement), _NAMES_OF_LOSSES)

    def _check_has_a_line(self, backward: Backward) -> None:
        """What a plain loop computes in the statement of its backward would be read, and repaired, by nobody."""
        if self.found.form == PLAIN:
            message = f"{self.facts.text(backward.loss)} is computed in the statement of its backward"
            raise Inseparable(backward.loss, message, _differentiated(backward.statement), _NAMES_OF_LOSSES)

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
        """One region, without the arithmetic at its end. A run inside one arm moves into that arm."""
        needed = self._needed[block.function]
        while run and (is_trailing_arithmetic(run[-1], needed) or _is_late_alias(run)):
            run = run[:-1]
        if not run:
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
                raise Refusal("AMP922", statement.node, "this shares a line with a forward, by a semicolon")

    def _only_arm(self, statement: Statement) -> Block | None:
        """The one block of a compound statement that holds everything needed of it."""
        needed = self._needed[statement.function]
        if statement in needed:
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


def _differentiated(statement: Statement) -> cst.BaseExpression | None:
    """X of the statement `X.backward()`."""
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    return call.func.value if called_name(call) == "backward" else None


def _of_this_round(forwards: Iterable[Statement], at: Statement) -> list[Statement]:
    """What may be forwards: those in the loop of the loss, where there are any. What stands before it prepares data."""
    found = list(forwards)
    loops = [outer for outer in at.path()[:-1] if isinstance(outer.node, (cst.For, cst.While))]
    return [one for one in found if loops and one.inside(loops[-1])] or found


def lowest_block(statements: list[Statement]) -> Block:
    """The innermost block of a function that holds all of the statements."""
    trails = [statement.path() for statement in statements]
    block = trails[0][0].block
    for level in zip(*trails, strict=False):
        if any(statement.block is not level[0].block for statement in level):
            break
        block = level[0].block
    return block


def _defines_lambda(statement: Statement) -> bool:
    """True for `score = lambda x: model(x)`, which runs nothing yet."""
    return isinstance(statement.node, cst.Assign) and isinstance(statement.node.value, cst.Lambda)


def _is_from_numpy(statement: Statement) -> bool:
    """True for `labels = torch.from_numpy(found).cuda()`, `torch.tensor(found)`, and `torch.as_tensor(x.numpy())`."""
    node = statement.node
    value = node.value if isinstance(node, cst.Assign) else None
    while isinstance(value, cst.Call) and called_name(value) not in _MAKES and isinstance(value.func, cst.Attribute):
        value = value.func.value
    if not isinstance(value, cst.Call) or called_name(value) not in _MAKES:
        return False
    inner = (called_name(part) for arg in value.args for part in walk(arg) if isinstance(part, cst.Call))
    return called_name(value) != "as_tensor" or "numpy" in inner


def has_no_casts(statement: Statement, found: Recognition) -> bool:
    """True for the `with` of the source form in which its casts are off."""
    node = statement.node
    return isinstance(node, cst.With) and any(item.item in found.no_casts for item in node.items)


def _before_guard(backward: Backward) -> Statement:
    """Where a loss expression can be computed: before a guard that goes, if the backward is the first in its arm."""
    if backward.collapsed and backward.guard is not None:
        if backward.statement.index == 0 and backward.statement.block.owner is backward.guard.statement:
            return backward.guard.statement
    return backward.statement


def _is_late_alias(run: list[Statement]) -> bool:
    """True for a `loss = main_loss` that comes after statements of another kind: they need no autocast."""
    node = run[-1].node
    return (
        len(run) > 1
        and run[-2].index + 1 < run[-1].index
        and isinstance(node, cst.Assign)
        and isinstance(node.value, (cst.Name, cst.Attribute, cst.Subscript))
    )


def is_trailing_arithmetic(statement: Statement, needed: set[Statement]) -> bool:
    """True for arithmetic that autocast does not touch: `loss = loss / k`, `loss = loss.mean()`.

    Of a compound statement only what is needed for the loss counts.
    """
    node = statement.node
    if isinstance(node, (cst.If, cst.With)):
        parts = [inner for inner in statement.descendants() if inner in needed]
        return bool(parts) and all(is_trailing_arithmetic(inner, needed) for inner in parts)
    if isinstance(node, cst.AugAssign):
        return _is_arithmetic(node.value)
    if isinstance(node, cst.Assign):
        return not isinstance(node.value, (cst.Name, cst.Attribute, cst.Subscript)) and _is_arithmetic(node.value)
    return False


def _is_setting(node: cst.Call) -> bool:
    """True for `config.get("weight", 1)`."""
    return called_name(node) == "get" and bool(node.args) and isinstance(node.args[0].value, cst.SimpleString)


def _is_arithmetic(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Name, cst.BaseNumber, cst.SimpleString)):
        return True
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        return _is_arithmetic(node.value)
    if isinstance(node, cst.BinaryOperation):
        plain = isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide))
        return plain and _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, (cst.Minus, cst.Plus)) and _is_arithmetic(node.expression)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        values = (node.func.value, *(arg.value for arg in node.args))
        plain = node.func.attr.value in ("mean", "item", "detach") or _is_setting(node)
        return plain and all(_is_arithmetic(value) for value in values)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in ("len", "float", "int") and len(node.args) == 1
    return False
