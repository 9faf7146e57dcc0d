"""A Sigmoid that is the last module of a container: the loss takes the logits instead (rule E4).

    nn.Sequential(..., nn.Linear(16, 1), nn.Sigmoid())           nn.Sequential(..., nn.Linear(16, 1))
    criterion = nn.BCELoss()                             =>      criterion = nn.BCEWithLogitsLoss()
    output = netD(real)                                          output = netD(real)
    loss = criterion(output, label)                              loss = criterion(output, label)
    print(output.mean().item())                                  print(output.sigmoid().mean().item())

The sigmoid cannot be given float32 inputs inside of the container, and in half it saturates. This changes what the
model returns, so every use of that has to be in sight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Class, called_name, input_and_target
from amp_migrate.facts.variables import Variable
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.steps import Steps
from amp_migrate.models import traits
from amp_migrate.models.queries import is_refused, keeps_numbers_or_floats
from amp_migrate.plan.purity import is_unread
from amp_migrate.plan.regions.moved import before_casts

_LOSS = "BCELoss"
# What may be done with the model itself without looking at what it returns.
_HANDED_TO = frozenset("super print DataParallel DistributedDataParallel DDP len summary isinstance".split())
_SAME_FOR_LOGITS = ("description", "size", "like")


@dataclasses.dataclass
class Logits:
    """What changes: `sigmoids` leave their containers, `criteria` take logits, `probabilities` are made of them."""

    sigmoids: list[cst.Call] = dataclasses.field(default_factory=list)
    criteria: list[cst.Call] = dataclasses.field(default_factory=list)
    probabilities: list[cst.Name] = dataclasses.field(default_factory=list)


def plan_logits(facts: Facts) -> Logits:
    """The criteria that can take logits, with all that it needs; nothing where some use is not understood."""
    plan = Logits()
    planner = _Planner(facts)
    for made in planner.criteria:
        planned = planner.plan({made}) if made not in plan.criteria else None
        if planned is not None:
            plan.sigmoids += planned.sigmoids
            plan.criteria += planned.criteria
            plan.probabilities += planned.probabilities
    return plan


class _Planner:
    """`criteria` is every `nn.BCELoss(...)`; `losses` are the calls that may run a binary cross entropy, with all that
    they may run.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._steps = facts.analysis(Steps)
        made = (one for one in self._calls() if called_name(one) == _LOSS)
        self.criteria = [one for one in made if isinstance(one.func, cst.Attribute)]
        calls = self._calls() if self.criteria else ()
        meant = ((call, facts.objects.origins(call.func)) for call in calls)
        self.losses = {one: run for one, run in meant if not run.isdisjoint(self.criteria) or self._is_refused(one)}

    def _is_refused(self, call: cst.Call) -> bool:
        return any(row is not None and is_refused(row) for row in self._steps.of(Place(call)).rows)

    def plan(self, criteria: set[object]) -> Logits | None:
        """What some criteria need, with all others that are run in the same places or on outputs of the same models.

        None where a loss may be anything else or takes anything but the outputs of such models, or those go astray.
        """
        losses = [call for call, origins in self.losses.items() if origins & criteria]
        sigmoids: dict[cst.Call, None] = {}
        for call in losses:
            found = self._endings(call)
            if found is None or not self.losses[call] <= set(self.criteria):
                return None
            sigmoids |= dict.fromkeys(found)
        if not sigmoids:
            return None
        others = (one for one in self.losses if not sigmoids.keys().isdisjoint(self._endings(one) or ()))
        together = criteria.union(*(self.losses[one] for one in (*losses, *others)))
        if together != criteria:
            return self.plan(together)
        models = frozenset(one for sigmoid in sigmoids for one in self._models_of(sigmoid))
        probabilities = self._probabilities(models, losses)
        if probabilities is None or not self._stays_in_sight(models):
            return None
        return Logits([*sigmoids], [one for one in self.criteria if one in criteria], probabilities)

    def _endings(self, loss: cst.Call) -> list[cst.Call] | None:
        return _endings_behind(self.facts, input_and_target(loss)[0]) if loss.args else None

    def _calls(self) -> Iterator[cst.Call]:
        for part, _ in self.facts.tree.every(cst.Call):
            yield part

    def _models_of(self, sigmoid: cst.Call) -> ObjectSet:
        """The container itself, or the instances of the class that builds it for its forward."""
        owner = self.facts.tree.function_of(sigmoid).owner
        if owner is None or "forward" not in owner.methods:
            argument = self.facts.tree.parents[sigmoid]
            container = self.facts.tree.parents[argument]
            assert isinstance(container, cst.Call)
            return self.facts.objects.objects(container)
        makers = self.facts.objects.makers.get(owner, [])
        return frozenset(one for call in makers for one in self.facts.objects.objects(call))

    def _probabilities(self, models: ObjectSet, losses: list[cst.Call]) -> list[cst.Name] | None:
        """The loads of outputs that are no input of a loss; None for an output that is not kept under a name, and for a
        loss of anything but such an output: it may have been made a probability on the way.
        """
        found: list[cst.Name] = []
        outputs: set[Variable] = set()
        for call in self._calls():
            if not isinstance(call.func, (cst.Name, cst.Attribute)) or not self._is_run(call, models):
                continue
            target = self._target(call)
            if target is None:
                if not self._feeds_loss(call, losses):
                    return None
                continue
            variable = self.facts.names.variable_at(target)
            if variable is None or not all(self._is_output(one.value, models) for one in variable.bindings):
                return None
            outputs.add(variable)
            read = (load for load in variable.loads if self._reads_values(load))
            found += [load for load in read if not self._feeds_loss(load, losses) and load not in found]
        return found if all(self._takes_output(loss, outputs, models) for loss in losses) else None

    def _reads_values(self, load: cst.Name) -> bool:
        """False for `output.size()` and `torch.ones_like(output)`, which are the same for logits, and for a name that
        nothing reads.
        """
        if is_unread(self.facts, self.facts.tree.statement_of(load)):
            return False
        parent = self.facts.tree.parents.get(load)
        if isinstance(parent, cst.Attribute):
            return not any(parent.attr.value in traits.named(trait) for trait in _SAME_FOR_LOGITS)
        call = self.facts.tree.taker(load)
        return call is None or call.args[0].value is not load or called_name(call) not in traits.named("like")

    def _takes_output(self, loss: cst.Call, outputs: set[Variable], models: ObjectSet) -> bool:
        """True for `criterion(output.view(-1), label)` and `criterion(netD(real), label)`."""
        given = before_casts(input_and_target(loss)[0])
        if isinstance(given, cst.Name):
            return self.facts.names.variable_at(given) in outputs
        return isinstance(given, cst.Call) and self._is_run(given, models)

    def _is_run(self, call: cst.Call, models: ObjectSet) -> bool:
        objects = self.facts.objects.objects(call.func)
        inside = self.facts.tree.function_of(call).owner
        own = inside is not None and any(one.origin is inside for one in models)
        return bool(objects & models) and not own

    def _is_output(self, value: cst.BaseExpression | None, models: ObjectSet) -> bool:
        while isinstance(value, cst.Call) and not self._is_run(value, models):
            if not isinstance(value.func, cst.Attribute):
                return False
            value = value.func.value
        return isinstance(value, cst.Call)

    def _target(self, call: cst.Call) -> cst.Name | None:
        """The name that `output = netD(real).view(-1)` binds."""
        node: cst.CSTNode = call
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.Attribute, cst.Call)):
            node, parent = parent, self.facts.tree.parents.get(parent)
        if isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
            target = parent.targets[0].target
            return target if isinstance(target, cst.Name) else None
        return None

    def _feeds_loss(self, node: cst.CSTNode, losses: list[cst.Call]) -> bool:
        """True for `output` in `criterion(output.view(-1), label)`."""
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, (cst.Attribute, cst.Call)):
            node, parent = parent, self.facts.tree.parents.get(parent)
        return any(node is input_and_target(loss)[0] for loss in losses if loss.args)

    def _stays_in_sight(self, models: ObjectSet) -> bool:
        """False where a model is given to a function of another file, which may run it."""
        return not any(
            self.facts.objects.objects(arg.value) & models
            and called_name(call) not in _HANDED_TO
            and not self.facts.objects.candidates(call)
            for call in self._calls()
            for arg in call.args
            if isinstance(arg.value, (cst.Name, cst.Attribute))
        )


# The sigmoids that end the containers which make a value, where nothing but its shape changes on the way (rule E4).
#
# Narrower than `sigmoids`: a value that goes on as a logit must be nothing else on any way.


def _endings_behind(facts: Facts, value: cst.BaseExpression) -> list[cst.Call] | None:
    """Those that made a value; None where some of it comes from elsewhere."""
    steps = facts.analysis(Steps)
    ways = trace(steps, Place(value), keeps_numbers_or_floats)
    if any(steps.of(place).is_constant for place in ways.places):
        return None
    ends = [*(made.node for made in ways.ends), *(place.node for place in ways.open)]
    found = [_ending(facts, end) for end in ends]
    return [one for one in dict.fromkeys(found) if one is not None] if found and None not in found else None


def _ending(facts: Facts, node: cst.BaseExpression) -> cst.Call | None:
    """`nn.Sigmoid()` at the end of the one container that a call runs, itself or by `data_parallel(container, x)`; None
    for anything else.
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, (cst.Name, cst.Attribute)):
        return None
    run = node.args[0].value if called_name(node) == "data_parallel" and node.args else node.func
    origins = [one.origin for one in facts.objects.objects(run) if not isinstance(one.origin, Class)]
    if len(origins) != 1 or not isinstance(origins[0], cst.Call) or called_name(origins[0]) != "Sequential":
        return None
    args = origins[0].args
    last = args[-1].value if len(args) > 1 and not args[-1].star else None
    return last if isinstance(last, cst.Call) and called_name(last) == "Sigmoid" else None
