"""Binary cross entropy, which CUDA autocast refuses to run (rule E4).

`binary_cross_entropy` raises inside an enabled region, whatever the dtype of its inputs. It is computed
outside of autocast, on float32 inputs; a sigmoid in sight that feeds it runs in float32 too, since in half
it saturates from 8.5 on and its gradient is NaN.

    with autocast(...):                               with autocast(...):
        output = model(x)                   =>            output = torch.sigmoid(model(x).float())
        loss = bce(torch.sigmoid(output), y)          loss = bce(output, y)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction
from amp_migrate.facts.dataflow import Path, overlaps, reads, writes
from amp_migrate.facts.lookups import pattern_meant, text_looked_up
from amp_migrate.facts.running import Running
from amp_migrate.facts.tree import Function, Statement, called_name, input_and_target, walk
from amp_migrate.findings import Inseparable, Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import values_as_written
from amp_migrate.models import Operation
from amp_migrate.models.queries import in_half, is_refused, only_moves, refused
from amp_migrate.plan.regions.arithmetic import is_untouched
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.sigmoids import Sigmoids
from amp_migrate.plan.safety.namespaces import table_of
from amp_migrate.plan.safety.run_time_names import is_by_name
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.regions import INSEPARABLE

_CRITERION = re.compile(r"torch\.nn\.(?:\w+Loss|functional\.(?:\w+_loss|cross_entropy))")


@dataclasses.dataclass(eq=False)
class BceSite:
    """One binary cross entropy under autocast.

    `floats` are the expressions that get `.float()`; `islands` the statement that needs an
    `autocast(enabled=False)` of its own, None where its region simply ends before it. `sigmoid_in_sight`
    tells whether the probabilities are certainly computed in float32, once the calls `endings` of containers that end
    in a sigmoid give it float32, and the `products` on the way run in it.
    """

    call: cst.Call
    statement: Statement
    floats: list[cst.BaseExpression]
    island: Statement | None
    endings: list[cst.Call]
    products: list[cst.BaseExpression]
    sigmoid_in_sight: bool


def plan_bce(
    facts: Facts,
    forwards: Forwards,
    regions: list[Region],
    reached: Iterable[Statement],
    with_logits: list[cst.Call],
    *,
    splits: bool,
) -> list[BceSite]:
    """The binary cross entropies among the statements that the regions reach; regions that can are cut before theirs,
    and go where they hold nothing else.

    Those of the criteria `with_logits` are none any more. Without `splits`, containers stay as they are: a sigmoid that
    ends one gives half.
    """
    return _Finder(facts, forwards, regions, reached, with_logits, splits).find()


class _Finder:
    def __init__(
        self,
        facts: Facts,
        forwards: Forwards,
        regions: list[Region],
        reached: Iterable[Statement],
        with_logits: Sequence[cst.Call],
        splits: bool,
    ) -> None:
        self.facts = facts
        self.forwards = forwards
        self.regions = regions
        self.reached = reached
        self.sigmoids = Sigmoids(facts)
        self._steps = facts.analysis(Steps)
        self._values = facts.analysis(values_as_written)
        self.with_logits = with_logits
        self.splits = splits
        self._behind: set[Statement] = set()  # what regions end before, wherever it runs
        self._weighted: dict[cst.Call, bool] = {}

    def find(self) -> list[BceSite]:
        self._check_given_to_backward()
        found = [(call, statement, region) for call, statement, region in self._calls() if self._is_bce(call)]
        found.sort(key=lambda one: one[1].order, reverse=True)  # a region ends before all those at its end
        sites = [self._site(call, statement, region) for call, statement, region in found][::-1]
        for region in self.regions[:]:
            islands = [one for one in sites if one.island in region.statements()]
            if region.hoisted is None and {one.island for one in islands} == set(region.statements()):
                self.regions.remove(region)
                for one in islands:
                    one.island = None
        return sites

    def _calls(self) -> Iterator[tuple[cst.Call, Statement, Region]]:
        """Every call under autocast; with its region, or the first one where it is in code that regions run."""
        inside = [(one, region) for region in self.regions for one in region.statements()]
        places = [(inner, region) for one, region in inside for inner in one.descendants()]
        seen: set[cst.Call] = set()
        for statement, region in [*places, *((one, self.regions[0]) for one in self.reached)]:
            for call in self.facts.tree.calls(statement):
                if call not in seen:
                    seen.add(call)
                    yield call, statement, region

    def _dotted_names(self, call: cst.Call) -> Iterator[str]:
        """What a call runs, as it was imported: a function, or the class of an instance or of its method's owner."""
        callee = call.func
        yield from self.facts.names.imported_as(callee)
        for node in (callee, callee.value) if isinstance(callee, cst.Attribute) else (callee,):
            for one in self.facts.objects.objects(node):
                if isinstance(one.origin, cst.Call):
                    yield from self.facts.names.imported_as(one.origin.func)

    def _is_bce(self, call: cst.Call) -> bool:
        if self._is_refused(call.func) or called_name(call) in models.names(is_refused):
            return True
        origins = [one.origin for one in self.facts.objects.objects(call.func)]
        if any(isinstance(one, cst.Call) and self._is_looked_up(one) for one in origins):
            is_given_two = len(call.args) > 1 or any(arg.star for arg in call.args)  # no criterion takes one
            return is_given_two and self.sigmoids.may_be_behind(input_and_target(call)[0])
        place = self.facts.tree.statement_of(call)
        return self._is_other_name(call.func) or any(
            isinstance(origin, cst.Call)
            and called_name(origin) in refused()
            and origin not in self.with_logits
            and not is_excluded(self.facts, origin, place)
            for origin in origins
        )

    def _is_looked_up(self, made: cst.Call) -> bool:
        """True for `getattr(nn, name)()` and `eval("F." + name)` of a name of run time that may be such a criterion."""
        looked_up = made.func if isinstance(made.func, (cst.Call, cst.Subscript)) else made
        text, table = text_looked_up(looked_up), table_of(looked_up)
        known = pattern_meant(self.facts.objects.values_of(text) or [text]) if text is not None else None
        if table is not None and (self.facts.names.dotted(table) or "").startswith("torch.nn"):
            return known is None or any(map(known.fullmatch, refused()))
        written = [
            f"{module}.{name}" for module in ("nn", "F", "torch.nn", "torch.nn.functional") for name in refused()
        ]
        if known is None or not isinstance(looked_up, cst.Call) or not is_by_name(looked_up):
            return False
        return any(re.fullmatch(known.pattern.replace(r"\w*", r"[\w.]*"), one) for one in written)

    def _is_other_name(self, func: cst.BaseExpression) -> bool:
        """True after `bce = F.binary_cross_entropy`, and `bce = partial(F.binary_cross_entropy, reduction="sum")`."""
        for value in self.facts.objects.values_of(func):
            is_partial = isinstance(value, cst.Call) and called_name(value) == "partial" and value.args
            meant = value.args[0].value if isinstance(value, cst.Call) and is_partial else value
            if self._is_refused(meant):
                return True
        return False

    def _is_refused(self, function: cst.BaseExpression) -> bool:
        row = models.function(self.facts.names.dotted(function) or "")
        return row is not None and row.kind == "function" and is_refused(row)

    # -- one site ---------------------------------------------------------------------------------------

    def _site(self, call: cst.Call, statement: Statement, region: Region) -> BceSite:
        floats: list[cst.BaseExpression] = []
        endings: list[cst.Call] = []
        products: list[cst.BaseExpression] = []
        in_sight = False
        given = input_and_target(call)
        for index, value in enumerate(given[:2]):
            made = self.sigmoids.behind(value)
            if made is not None and (self.splits or not made.endings):
                floats += made.arguments
                endings += made.endings
                products += made.products
                in_sight = in_sight or index == 0
                is_half = any(self.facts.tree.function_of(one) is not statement.function for one in made.products)
                if is_half or not (made.arguments or made.endings):
                    floats.append(value)
            elif index == 0 or self._is_made_by(value, region):
                floats.append(value)
            elif any(not in_sight or one != self.facts.text(given[0]) for one in self._typed_as(value)):
                floats.append(value)  # of probabilities in float32 it is float32 as well
        self._check_separable(call, statement)
        floats += self._halves_beside(call, statement, region)
        ends = self._ends(statement, region)
        for last, ending in ends:
            ending.last = self._before(last, ending)
            while any(self.facts.tree.statement_of(product) is ending.last for product in products):
                ending.last = self._before(ending.last, ending)
        if ends:
            self._behind.add(statement)
        is_behind = statement.block is region.block and region.last.index < statement.index
        island = None if statement in self._behind or is_behind else statement
        if island is not None and statement.function.is_lambda:
            text = self.facts.text(call.func)
            message = f"{text}, a binary cross entropy, stands in a lambda, in which nothing can switch autocast off"
            raise Refusal(INSEPARABLE, call, message)
        return BceSite(call, statement, floats, island, endings, products, in_sight)

    def _ends(self, statement: Statement, region: Region) -> list[tuple[Statement, Region]]:
        """The ends of regions that run a statement, where nothing else does: of its own, or those with all calls of a
        function that does nothing else.
        """
        if _is_at_end(statement, region):
            return [(statement, region)]
        function = statement.function
        if function.is_module or function.body.statements != [statement] or not self._has_known_callers(function):
            return []
        sites = self.facts.calls.callers(function)
        found = [
            (site.statement, one)
            for site in sites
            for one in self.regions
            if _is_at_end(site.statement, one) and _only_calls(site.statement)
        ]
        return found if len(found) == len(sites) else []

    def _has_known_callers(self, function: Function) -> bool:
        """True where no call in sight may run a function but those that are known to, and none is out of sight."""
        if (
            function.is_of_network
            or function.name.startswith("__")
            or self.facts.calls.value_uses(function)
            or self.facts.is_used_outside(function)
        ):
            return False
        known = {site.call for site in self.facts.calls.callers(function)}
        every = self.facts.tree.every(cst.Call)
        return not any(called_name(call) == function.name and call not in known for call, _ in every)

    def _before(self, statement: Statement, region: Region) -> Statement:
        """What a region ends with that is cut before a statement; `optimizer.zero_grad()` stays outside, too, and so do
        data that are only shaped.
        """
        last = region.block.statements[statement.index - 1]
        while last is not region.first and (self._clears(last) or self._shapes_data(last)):
            last = region.block.statements[last.index - 1]
        return last

    def _clears(self, statement: Statement) -> bool:
        return any(called_name(one) == "zero_grad" for one in self.facts.tree.calls(statement))

    def _shapes_data(self, statement: Statement) -> bool:
        """True for `flat = labels.view(n, -1)` of labels from outside of the regions: they keep their type."""
        node = statement.node
        value = node.value if isinstance(node, cst.Assign) else None
        shapes = isinstance(value, cst.Call) and called_name(value) in models.names(only_moves)
        return shapes and is_untouched(self.forwards, statement)

    def _check_separable(self, call: cst.Call, statement: Statement) -> None:
        """The forward has to run under autocast, what computes the cross entropy must not."""
        for other in self.facts.tree.calls(statement):
            if not self._is_bce(other) and self._needs_autocast(other):
                message = (
                    f"{self.facts.text(call.func)}, a binary cross entropy, stands in one statement with a forward"
                )
                raise Inseparable(other, message, self._given_with(other), ("output", "prediction"))

    def _check_given_to_backward(self) -> None:
        """A loss that stands in a source form's own call is computed inside: `amp.scale_loss(bce(output, y), ...)`."""
        losses = [region.hoisted.loss for region in self.regions if region.hoisted is not None]
        for call in (part for loss in losses for part in walk(loss)):
            if isinstance(call, cst.Call) and self._is_bce(call):
                what = f"{self.facts.text(call.func)}, a binary cross entropy,"
                raise Refusal(INSEPARABLE, call, f"{what} stands in one statement with a backward")

    def _given_with(self, forward: cst.Call) -> cst.BaseExpression | None:
        """The first argument of a binary cross entropy that a forward is a part of."""
        node: cst.CSTNode | None = forward
        while node is not None and not isinstance(node, cst.BaseSmallStatement):
            call = self.facts.tree.taker(node)
            if call is not None and self._is_bce(call):
                return node if input_and_target(call)[0] is node else None
            node = self.facts.tree.parents.get(node)
        return None

    def _needs_autocast(self, call: cst.Call) -> bool:
        """True where a call multiplies by weights, itself or in what it runs: half and float32 have no product."""
        if (weighted := self._weighted.get(call)) is None:
            self._weighted[call] = False
            frames = self._steps.calls.entered(call)
            statements = [inner for frame in frames for inner in frame.function.descendants()]
            inside = (self._needs_autocast(other) for one in statements for other in self.facts.tree.calls(one))
            weighted = self._weighted[call] = any(inside) if frames else self._may_be_layer(call)
        return weighted

    def _may_be_layer(self, call: cst.Call) -> bool:
        step = self._steps.of(Place(call))
        rows = (row for row in step.rows if row is not None)
        is_open = step.is_lost and self.forwards.is_of_object(call)
        return self.forwards.is_forward(call) or is_open or any(in_half(row) and row.parameters for row in rows)

    def _halves_beside(self, call: cst.Call, statement: Statement, region: Region) -> list[cst.BaseExpression]:
        """Results of the region that other calls of the statement take; where it is a loss that the region calls, what
        the other criteria of torch in it are given first.
        """
        inside = set(walk(call))
        others = [other for other in self.facts.tree.calls(statement) if other not in inside]
        results: list[cst.BaseExpression] = [
            value
            for other in others
            for value in input_and_target(other)[2 if self._is_bce(other) else 0 :]
            if isinstance(value, cst.Name) and self._is_made_by(value, region)
        ]
        if statement.function is region.first.function:
            return results
        given = [input_and_target(other)[0] for other in others if other.args and self._is_criterion(other)]
        return [*results, *(value for value in given if value not in results)]

    def _is_criterion(self, call: cst.Call) -> bool:
        """True for `F.cross_entropy(...)` and for an instance of one of torch's losses that is called."""
        if isinstance(call.func, (cst.Name, cst.Attribute)):
            names = [self.facts.names.dotted(call.func) or "", *self._dotted_names(call)]
            return any(_CRITERION.fullmatch(name) for name in names)
        return False

    def _typed_as(self, value: cst.BaseExpression) -> Iterator[str]:
        """The outputs in `y.type_as(output)` and `torch.ones_like(output)`, which are half where these are."""
        for made in trace(self._steps, Place(value), _keeps_type, _has_type_of_another).ends:
            other = made.operands[0] if made.cast is None and made.is_a("like") else made.cast
            if isinstance(other, Place):
                yield self.facts.text(other.node)

    def _is_made_by(self, value: cst.BaseExpression, region: Region) -> bool:
        """True for what the region makes, and may make in half."""
        if not isinstance(value, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
            return False
        if not self._values.of(value).may_be_half:
            return False
        makers = (one for one in region.statements() if not self._shapes_data(one))
        made = [path for statement in makers for path in _written_in(statement)]
        return any(overlaps(one, other) for one in reads(value) for other in made)


def _is_at_end(statement: Statement, region: Region) -> bool:
    """True for the last statement of a region that computes something, if it is not the only one."""
    if statement.block is not region.block or not region.covers(statement) or statement is region.first:
        return False
    after = region.block.statements[statement.index + 1 : region.last.index + 1]
    return all(isinstance(one.node, cst.Assign) and isinstance(one.node.value, cst.Name) for one in after)


def _only_calls(statement: Statement) -> bool:
    """True for `loss = measure(output, labels)`: what is given is computed before."""
    call = statement.node.value if isinstance(statement.node, cst.Assign) else None
    return isinstance(call, cst.Call) and all(isinstance(one.value, (cst.Name, cst.Attribute)) for one in call.args)


def _written_in(statement: Statement) -> Iterator[Path]:
    return (path for inner in statement.descendants() for path in writes(inner))


def _keeps_type(row: Operation) -> bool:
    return row.shape_only or row.in_place


def _has_type_of_another(made: Made) -> bool:
    return made.is_a("like") or isinstance(made.cast, Place)


# What a place can be given: nothing that is never made, or was made under a condition which excludes its own.
#
# What `self.criterion = nn.BCELoss()` stores under `if kind == "bce":` is not what `self.criterion(1 - output)` calls
# under `if self.kind == "hinge":`.


def is_excluded(facts: Facts, origin: cst.CSTNode, place: Statement) -> bool:
    """True where what `origin` makes cannot be met at a place: the tests around both never hold together, or no caller
    in sight lets it be made.
    """
    running = facts.analysis(Running)
    if running.may_run(place.node) and not running.may_run(origin):
        return True
    made, met = (enclosing_guards(facts, one) for one in (facts.tree.statement_of(origin), place))
    guards = [*made, *met]
    if not made or not met or not all(_keeps_its_value(facts, guard.statement.node) for guard in guards):
        return False
    return facts.conditions.constant(conjunction([guard.formula for guard in guards])) is False


def _keeps_its_value(facts: Facts, holder: cst.CSTNode) -> bool:
    """True for a test of names that are bound once, and of attributes that nothing but constructors set."""
    assert isinstance(holder, cst.If)
    for part in walk(holder.test):
        if isinstance(part, cst.Attribute):
            stores = facts.objects.stores_of(part.attr.value)
            if any(store.statement.function.name != "__init__" for store in stores):
                return False
        elif isinstance(part, cst.Name):
            variable = facts.names.variable_at(part)
            if variable is not None and len(variable.bindings) > 1:
                return False
    return True
