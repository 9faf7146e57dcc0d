"""Which expressions are the optimizers and the models that mixed precision was set up for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet, overlap
from amp_migrate.facts.tree import Class, Function, argument_value, called_name, wholes
from amp_migrate.facts.values import literal_value
from amp_migrate.models import names
from amp_migrate.models.queries import makes_leaf
from amp_migrate.plan.given_models import GivenModels
from amp_migrate.plan.model import Recognition
from amp_migrate.vocabulary import is_no_forward

_NOT_FORWARD_PREFIXES = tuple(
    "get_ set_ is_ has_ convert load save init freeze unfreeze update print count register add_ remove_ to_ log "
    "restore resume reset copy parse_".split()
)

_OF_TORCH = ("torch.optim.", "torch.nn.")

# What makes a network, or a layer of one.
_NETWORKS = re.compile(r"torch\.nn\.(?!Parameter)[A-Z]\w*(?<!Loss)|torchvision\.models\..*|timm\.create_model")


class Roles:
    """Optimizers and models by the objects they may be; `trained` are the models of which an optimizer has all that it
    is given, the others are networks around them.
    """

    def __init__(self, facts: Facts, found: Recognition) -> None:
        self.facts = facts
        self.models_given = facts.analysis(GivenModels).of
        self._set_up = self._contents(node for setup in found.setups for node in setup.optimizers)
        self.optimizers = self._set_up | self._contents(
            node for backward in found.backwards for node in backward.optimizers
        )
        models = [node for setup in found.setups for node in setup.models]
        trained = list(self._trained())
        self.trained = self._contents(models) | self._namesakes(models) | self._contents(trained)
        # `model` where an optimizer has the parameters of `model.head`: the script runs the whole network.
        around = [above for node in trained for above in [*wholes(node)][1:]]
        self._holding = self.trained | self._contents(around)
        self.models = self.trained | self._contents(filter(self._may_be_network, around))

    def optimizers_at(self, node: cst.BaseExpression) -> ObjectSet:
        """The optimizers in mixed precision that an expression may mean (elements, for a container)."""
        return frozenset(one for one in self._contents([node]) if self._known(one, self.optimizers))

    def may_be_set_up(self, node: cst.BaseExpression) -> bool:
        """False for a name that is bound nowhere, and for objects made in this file that were not set up."""
        if isinstance(node, cst.Name) and self.facts.names.variable_at(node) is None:
            return bool(self.facts.names.star_imports)
        found = self._contents([node])
        return not found or any(one.kind != "call" or self._known(one, self._set_up) for one in found)

    def is_model(self, node: cst.BaseExpression) -> bool:
        """True where an expression may mean one of the models, or something inside one."""
        current = part = node
        while True:
            if self.facts.objects.may_be(current, self.models):
                is_around = current is not node and self._is_receiver(current) and not self._is_trained(current)
                return not is_around or self._may_be_network(part)
            if not isinstance(current, (cst.Attribute, cst.Subscript)):
                return False
            part, current = current, current.value

    def _is_trained(self, node: cst.BaseExpression) -> bool:
        return self.facts.objects.may_be(node, self.trained)

    def _is_receiver(self, node: cst.BaseExpression) -> bool:
        """True for `self`. A network that trains its parts has losses and criteria beside them."""
        function = self.facts.tree.function_of(node)
        first = function.receiver
        return isinstance(node, cst.Name) and node.value == first

    def is_whole_model(self, node: cst.BaseExpression) -> bool:
        """True where an expression may mean one of the models, or what a wrapper holds (`model.module`)."""
        if isinstance(node, cst.Attribute) and node.attr.value == "module":
            node = node.value
        return self.facts.objects.may_be(node, self.models)

    def is_forward(self, call: cst.Call) -> bool:
        """True for calls of a model and of its methods that compute, `run = net.forward` and `run(x)` included."""
        if self._knows_no_instance(call):
            return False
        values = self.facts.objects.values_of(call.func) if isinstance(call.func, cst.Name) else []
        methods = [one for one in values if isinstance(one, cst.Attribute)]
        return any(self._is_forward_by(func, call) for func in (call.func, *methods))

    def _is_forward_by(self, func: cst.BaseExpression, call: cst.Call) -> bool:
        """The same for what is called, or is called by another name."""
        if isinstance(func, cst.Attribute):
            name = func.attr.value
            if self.is_model(func.value) and not self.facts.objects.may_be(func, self.models):
                if is_no_forward(name) or not call.args or name.startswith(_NOT_FORWARD_PREFIXES):
                    return False
        if isinstance(func, cst.Attribute) and "tokenizer" in self.facts.text(func.value):
            return False  # many models carry theirs along
        return isinstance(func, (cst.Name, cst.Attribute, cst.Subscript)) and self.is_model(func)

    def is_about_trained(self, call: cst.Call) -> bool:
        """True for any method of what is trained, or of what holds that, network or not: `model.get_loss(x)` beside
        `Adam(model.critic.parameters())`.
        """
        return any(self.facts.objects.may_be(node, self._holding) for node in [*wholes(call.func)][1:])

    def _knows_no_instance(self, call: cst.Call) -> bool:
        """True for `model.collate(samples)` of a static method that gets no model: it has no weights."""
        functions = self.facts.objects.candidates(call)
        static = [one for one in functions if one.is_static or one.has_decorator("classmethod")]
        return len(static) == len(functions) > 0 and not any(self.is_model(arg.value) for arg in call.args)

    def holders(self, model: cst.BaseExpression) -> ObjectSet | None:
        """The optimizers that are built from parameters of a model, and no others; None where that cannot be said."""
        wanted = self.facts.objects.objects(model)
        given = {one: self.models_given(one) for one in self.optimizers}
        if not all(nodes or self._loose_of(one) for one, nodes in given.items()):
            return None
        found = {one for one, nodes in given.items() if any(self.facts.objects.may_be(node, wanted) for node in nodes)}
        others = [node for one, nodes in given.items() if one not in found for node in nodes]
        if not found or any(self._is_part(node, wanted) for node in others):
            return None
        return frozenset(found)

    def holders_of_loose(self, tensors: cst.BaseExpression) -> ObjectSet | None:
        """The optimizers of tensors that belong to no module, and no others; None where that cannot be said."""
        wanted = loose_tensors(self.facts, tensors)
        of_each = {one: self._loose_of(one) for one in self.optimizers}
        if not wanted or not all(loose or self.models_given(one) for one, loose in of_each.items()):
            return None
        return frozenset(one for one, loose in of_each.items() if loose & wanted) or None

    def _loose_of(self, optimizer: Object) -> ObjectSet:
        """Nothing where an optimizer has parameters of modules."""
        call = optimizer.origin
        is_loose = isinstance(call, cst.Call) and bool(call.args) and not self.models_given(optimizer)
        return loose_tensors(self.facts, call.args[0].value) if is_loose and isinstance(call, cst.Call) else frozenset()

    def _is_part(self, node: cst.BaseExpression, wholes: ObjectSet) -> bool:
        """True where a call that makes one of the models is given another one, or is out of sight: `Net(backbone)`."""
        objects = self.facts.objects.objects(node)
        makers = [self._makers(one) for one in wholes]
        given = [arg.value for calls in makers for call in calls for arg in call.args]
        return not all(makers) or any(self.facts.objects.may_be(one, objects) for one in given)

    def _makers(self, model: Object) -> list[cst.Call]:
        if isinstance(model.origin, Class):
            return self.facts.objects.family_makers.get(model.origin, [])
        return [model.origin] if isinstance(model.origin, cst.Call) else []

    def _contents(self, nodes: Iterable[cst.BaseExpression]) -> ObjectSet:
        """The objects of expressions; a list stands for its elements as well."""
        found: set[Object] = set()
        for node in nodes:
            found |= self.facts.objects.contents(node)
            if _is_plural(node) and not self._are_single(self.facts.objects.objects(node)):
                found |= self.facts.objects.elements(node)
        return frozenset(found)

    def _are_single(self, objects: ObjectSet) -> bool:
        """True for what classes of torch have made, whatever it is called: `opt_dis = Adam(dis.parameters())`."""
        makers = [one.origin.func for one in objects if isinstance(one.origin, cst.Call)]
        names = [self.facts.names.dotted(maker) or "" for maker in makers]
        return len(names) == len(objects) > 0 and all(name.startswith(_OF_TORCH) for name in names)

    def _trained(self) -> Iterator[cst.BaseExpression]:
        """X in `SGD(list(model.parameters()) + list(X.parameters()))`: apex patched torch for all of them."""
        for one in self.optimizers:
            yield from self.models_given(one)

    def _may_be_network(self, node: cst.BaseExpression) -> bool:
        return any(self._is_network(one) for one in self.facts.objects.objects(node))

    def _is_network(self, one: Object) -> bool:
        """True for an instance of a class of torch.nn that is no loss, or of one derived from it in the unit."""
        if isinstance(one.origin, cst.Call):
            return _NETWORKS.fullmatch(self.facts.names.dotted(one.origin.func) or "") is not None
        if not isinstance(one.origin, Class):
            return False
        bases = [base.value for owner in self.facts.objects.ancestors(one.origin) for base in owner.node.bases]
        return any((self.facts.names.dotted(base) or "").startswith("torch.nn.") for base in bases)

    def _namesakes(self, models: list[cst.BaseExpression]) -> ObjectSet:
        """Parameters of functions that nothing in the file calls, named like a model: scripts and trainers
        hand the model around under one name. What a `forward` is given under it is an output: of a student, say.
        """
        names = {node.value for node in models if isinstance(node, cst.Name)}
        return frozenset(
            self.facts.objects.object_of("parameter", variable)
            for variable in self.facts.names.all_variables()
            if variable.name in names and any(binding.kind == "param" for binding in variable.bindings)
            if not (isinstance(variable.scope.owner, Function) and _is_forward(variable.scope.owner))
        )

    def _known(self, one: Object, candidates: ObjectSet) -> bool:
        return one in candidates or any(overlap(one, other) for other in candidates)


def _is_forward(function: Function) -> bool:
    return function.name == "forward" and function.is_method


def _is_plural(node: cst.BaseExpression) -> bool:
    """A name such as `optimizers` or `models`: a container whose elements cannot be seen."""
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return name.endswith("s")


# Tensors that are trained, and that no module has among its parameters.
#
# self.alphas = Variable(1e-3 * torch.randn(k, n), requires_grad=True)
# def arch_parameters(self): return [self.alphas, self.betas]
#
# Adam(model.arch_parameters())                           has these alone
# clip_grad_norm_(model.parameters(), 5.0)                has none of them


def loose_tensors(facts: Facts, node: cst.BaseExpression) -> ObjectSet:
    """The elements of a list, where all of them are such tensors; nothing where one may be anything else."""
    found = facts.objects.elements(node)
    return found if all(map(_is_loose, found)) else frozenset()


def _is_loose(tensor: Object) -> bool:
    call = tensor.origin
    if not isinstance(call, cst.Call) or called_name(call) not in names(makes_leaf):
        return False
    wanted = argument_value(call, "requires_grad")
    return wanted is not None and literal_value(wanted) is True
