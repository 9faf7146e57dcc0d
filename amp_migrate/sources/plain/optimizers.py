"""The optimizers of a plain training loop: where they are built, and where they step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.answers import Answers
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Class, Statement, argument_value, called_name, walk
from amp_migrate.facts.variables import Variable
from amp_migrate.files.returned import own_nodes
from amp_migrate.files.syntax import tree_of
from amp_migrate.plan.given_models import GivenModels
from amp_migrate.sources.optimizers import makes_scheduler
from amp_migrate.sources.plain.own_optimizers import has_param_groups

# Classes of other packages by their names: timm's AdamP, transformers' AdamW, BertAdam, Ranger ...
_OPTIMIZER_CLASS = re.compile(
    r"(?:Adam|SGD|RMSprop|Adagrad|Adadelta|Adafactor|Lamb|LAMB|LARS|Ranger|Lion|NovoGrad|Yogi|AdaBelief|AdaBound|"
    r"Lookahead|Shampoo|Optimizer)"
)
_OPTIMIZER_FACTORY = re.compile(r"(?:^|_)(?:create|build|make|get|init|configure|setup|set)_optim(?:izer)?s?(?:_|$)")
_OF_MODELS = ("train", "parameters", "named_parameters")
_VALUES = ("call", "instance", "parameter")
_WRAPS_OPTIMIZER = re.compile(r"Schedul|Warmup|LR$|Noam")


class Optimizers:
    """What the unit steps.

    `built` are the calls that build the stepped optimizers, in the order of the files, `objects` the optimizers by
    their origin, and `steps` the calls of `step()` with their statements. `unknown` are steps of what may be an
    optimizer that is built out of sight.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._given = facts.analysis(GivenModels)
        self._building: Answers[cst.Call, bool] = Answers(False)
        self.steps: list[tuple[cst.Call, Statement]] = []
        self.unknown: list[cst.Call] = []
        stepped: set[Object] = set()
        for call, statement in _step_calls(facts):
            assert isinstance(call.func, cst.Attribute)
            objects = self.optimizers_at(call.func.value)
            if objects:
                self.steps.append((call, statement))
                stepped |= objects
            elif self._may_be_optimizer(call.func.value):
                self.unknown.append(call)
        self.objects: ObjectSet = frozenset(stepped)
        self.built = [call for call in self._constructions() if facts.objects.may_be(call, self.objects)]
        if not self.built:
            self.unknown += [call for call, _ in self.steps]  # one of several results of a function out of sight

    @cached_property
    def models(self) -> ObjectSet:
        """What has its parameters in them."""
        nodes = [node for call in self.built for node in self.models_of(call)]
        return frozenset(one for node in nodes for one in self.facts.objects.objects(node))

    @property
    def given_unseen(self) -> cst.Call | None:
        """Where no model is known: what builds an optimizer of anything but tensors that it is given in a list."""
        if self.models:
            return None
        return next((call for call in self.built if not (call.args and isinstance(call.args[0].value, cst.List))), None)

    def makers_unseen(self, call: cst.Call) -> tuple[str, ...]:
        """The functions of local modules not at hand that make what it is given, by their names."""
        _, seen = self._given.behind([arg.value for arg in call.args])
        calls = (part for node in seen for part in walk(node) if isinstance(part, cst.Call))
        paths = dict.fromkeys(path for one in calls for path in self.facts.objects.import_paths(one.func))
        return tuple(path for path in paths if self.facts.elsewhere.source_of(path) is not None)

    def optimizers_at(self, node: cst.BaseExpression) -> ObjectSet:
        """The optimizers that an expression may mean; elements, for a list of them."""
        return frozenset(filter(self._is_optimizer, self.facts.objects.contents(node)))

    def not_for_a_scaler(self, node: cst.BaseExpression) -> Class | None:
        """A class whose instance may stand where an optimizer does, and that a GradScaler cannot step."""
        origins = [one.origin for one in self.facts.objects.objects(node) if one.kind == "instance"]
        classes = [one for one in origins if isinstance(one, Class) and "step" in one.methods]
        return next((one for one in classes if not has_param_groups(self.facts, one)), None)

    def models_of(self, call: cst.Call) -> list[cst.BaseExpression]:
        """X in `SGD(X.parameters())`, also through names that were bound to the parameters, and in
        `X.get_optimizer()`.
        """
        found: list[cst.BaseExpression] = []
        if isinstance(call.func, cst.Attribute) and self._is_factory_out_of_sight(call):
            found.append(call.func.value)
        models, seen = self._given.behind([arg.value for arg in call.args])
        found += models
        if found:
            return found
        # `model.get_1x_lr_params()`, `group_weights(model)`, `get_optimizer(args, model)`
        calls = [call, *(part for node in seen for part in walk(node) if isinstance(part, cst.Call))]
        given = [arg.value for one in calls for arg in one.args]
        given += [one.func.value for one in calls if isinstance(one.func, cst.Attribute)]
        found = [node for node in given if self.facts.objects.objects(node) & self._with_parameters]
        return found or (self._put_in_training_mode if len(self.built) == 1 else [])

    @cached_property
    def _put_in_training_mode(self) -> list[cst.BaseExpression]:
        """X in `X.train()`: all that the only optimizer of a unit can have, where its parameters are out of sight."""
        return [
            part.func.value
            for part, _ in self.facts.tree.every(cst.Call)
            if isinstance(part.func, cst.Attribute) and called_name(part) == "train"
            if not part.args and isinstance(part.func.value, (cst.Name, cst.Attribute))
            if self.facts.text(part.func.value) != "self"
        ]

    @cached_property
    def _with_parameters(self) -> ObjectSet:
        """What has a method that only models have, or is a variable or an attribute that is called."""
        found: set[Object] = set()
        for call, _ in self.facts.tree.every(cst.Call):
            if isinstance(call.func, (cst.Name, cst.Attribute)):
                found |= {one for one in self.facts.objects.objects(call.func) if one.kind in _VALUES}
            if isinstance(call.func, cst.Attribute) and called_name(call) in _OF_MODELS:
                found |= self.facts.objects.objects(call.func.value)
        return frozenset(found)

    def _constructions(self) -> Iterator[cst.Call]:
        for call, _ in self.facts.tree.every(cst.Call):
            if any(one.origin is call or one.kind == "instance" for one in self.facts.objects.objects(call)):
                if self._builds(call):
                    yield call

    def models_in(self, optimizer: Object) -> list[cst.BaseExpression]:
        """The same for an optimizer; of a function that builds several, what this one was given."""
        if not isinstance(optimizer.origin, cst.Call):
            return []
        return self._given.of(optimizer) or self.models_of(optimizer.origin)

    def _is_optimizer(self, one: Object) -> bool:
        if one.kind == "instance" and isinstance(one.origin, Class):
            return self._derives_from_optimizer(one.origin)
        while one.kind == "field" and one.holder is not None and str(one.origin).startswith("["):
            one = one.holder  # `optimizer, scheduler = get_optimizer(model)`
        return one.kind == "call" and isinstance(one.origin, cst.Call) and self._builds(one.origin)

    def _builds(self, call: cst.Call) -> bool:
        """True for a call that builds an optimizer. A lambda that calls itself for it builds none."""
        return self._building.to(call, lambda: self._is_built_by(call) and not self._has_what_nobody_runs(call))

    def _has_what_nobody_runs(self, call: cst.Call) -> bool:
        """True for an optimizer of weights that nothing else names, beside no backward: a schedule is drawn with it."""
        beside = self.facts.tree.function_of(call).descendants()
        is_torch = (self.facts.names.dotted(call.func) or "").startswith("torch.optim.")
        if not is_torch or any(called_name(one) == "backward" for at in beside for one in self.facts.tree.calls(at)):
            return False
        inside: set[cst.CSTNode] = set()
        variables: dict[Variable, None] = {}
        waiting = [argument_value(call, "params", 0)]
        while waiting:
            parts = [*walk(node)] if (node := waiting.pop()) is not None else []
            inside.update(parts)
            names = [one for one in parts if isinstance(one, cst.Name) and not self.facts.tree.is_label(one)]
            if not parts or any(map(self.facts.names.is_unbound, names)):
                return False
            found = {one for one in map(self.facts.names.variable_at, names) if one is not None} - variables.keys()
            local = [one for one in found if not self._is_class(one)]
            variables |= dict.fromkeys(local)
            waiting += [binding.value for one in local for binding in one.bindings]
        return all(inside.issuperset(one.loads) and not self.facts.names.used_elsewhere(one) for one in variables)

    def _is_class(self, variable: Variable) -> bool:
        """True for what makes something new: torch, and a class of the unit."""
        source = self.facts.names.source(variable)
        is_torch = (source.import_path or "").partition(".")[0] == "torch"
        return is_torch or all(one.kind == "class" for one in source.bindings)

    def _is_built_by(self, call: cst.Call) -> bool:
        made = self.facts.objects.classes_made(call)
        if made:
            return any(self._derives_from_optimizer(owner) for owner in made)
        if isinstance(call.func, cst.Call):
            return self._looks_up_optimizer(call.func)
        if not isinstance(call.func, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        paths = self.facts.objects.import_paths(call.func) or self.facts.names.imported_as(call.func)
        if any(self._is_around_optimizer(path) for path in paths):
            return False
        if any(_names_optimizer(path) for path in paths):
            return True
        values = self.facts.objects.values_of(call.func)
        if any(isinstance(value, cst.Call) and self._looks_up_optimizer(value) for value in values):
            return True  # Optimizer = getattr(torch.optim, name)
        if any(self.facts.names.dotted(arg.value) == "torch.optim" for arg in call.args):
            return True  # config.init_obj("optimizer", torch.optim, parameters)
        return self._is_factory_out_of_sight(call) or self._takes_parameters(call)

    def _looks_up_optimizer(self, call: cst.Call) -> bool:
        """`getattr(torch.optim, name)`, and `torch.optim.__dict__[name]` is an attribute of it as well."""
        is_getattr = called_name(call) == "getattr" and bool(call.args)
        return is_getattr and self.facts.names.dotted(call.args[0].value) == "torch.optim"

    def _is_factory_out_of_sight(self, call: cst.Call) -> bool:
        """`model.get_optimizer()`, of a class that is not in the unit."""
        if not isinstance(call.func, cst.Attribute) or self.facts.names.dotted(call.func) is not None:
            return False
        if self.facts.objects.candidates(call):
            return False
        return _OPTIMIZER_FACTORY.search(call.func.attr.value) is not None

    def _takes_parameters(self, call: cst.Call) -> bool:
        """`optimizer_class(model.parameters(), lr=lr)`, of a class that is chosen elsewhere: its name says it all."""
        if self.facts.objects.candidates(call) or "optim" not in self.facts.text(call.func).lower():
            return False
        first = call.args[0].value if call.args and not call.args[0].star else None
        return isinstance(first, cst.Call) and called_name(first) == "parameters"

    def _is_around_optimizer(self, path: str, callers: tuple[str, ...] = ()) -> bool:
        """True for a class of a local module that is no optimizer itself, since its `step` may clip, or set a rate; and
        for a function that returns an object of such a class.
        """
        module, _, name = path.rpartition(".")
        for one in tree_of(self.facts.elsewhere.source_of(path) or b"").body:
            if isinstance(one, ast.ClassDef) and one.name == name:
                return not any(_OPTIMIZER_CLASS.search(ast.unparse(base)) for base in one.bases)
            if isinstance(one, ast.FunctionDef) and one.name == name:
                makers = {self.facts.elsewhere.member(module, maker) for maker in _returned_by(one)}
                inner = (*callers, path)
                return any(self._is_around_optimizer(maker, inner) for maker in makers.difference(inner))
        return False

    def _derives_from_optimizer(self, owner: Class) -> bool:
        if not has_param_groups(self.facts, owner):
            return False  # in name alone: what it steps is the optimizer
        for cls in self.facts.objects.ancestors(owner):
            for base in cls.node.bases:
                dotted = self.facts.names.dotted(base.value) or ""
                if _names_optimizer(dotted):
                    return True
        return False

    def _is_no_optimizer(self, call: cst.Call) -> bool:
        return makes_scheduler(self.facts, call) or (self._is_built_by(call) and self._has_what_nobody_runs(call))

    def _may_be_optimizer(self, node: cst.BaseExpression) -> bool:
        """True for `optimizer.step()` of something that no one builds here, a scheduler or an environment left out."""
        text = self.facts.text(node).lower()
        if "optim" not in text and text.split(".")[-1] not in ("opt", "optimiser", "solver"):
            return False
        objects = self.facts.objects.objects(node)
        made = self.facts.objects.calls_behind(node)
        is_none = len(made) == len(objects) > 0 and all(map(self._is_no_optimizer, made))
        return not is_none and not any(one.kind in ("instance", "display") for one in objects)


def _names_optimizer(path: str) -> bool:
    """True for the resolved name of an optimizer class, or of a function that builds one."""
    module, _, name = path.rpartition(".")
    if module == "torch.optim" or (module.startswith("torch.optim.") and "lr_scheduler" not in module):
        return name[:1].isupper()
    if name[:1].isupper():
        return _OPTIMIZER_CLASS.search(name) is not None and _WRAPS_OPTIMIZER.search(name) is None
    return _OPTIMIZER_FACTORY.search(name) is not None


def _returned_by(function: ast.FunctionDef) -> list[str]:
    """What a function calls for its result: `Noam` for `return Noam(opt)`, and for `opt = Noam(opt)`, `return opt`."""
    parts = list(own_nodes(function))
    returned = [one.value for one in parts if isinstance(one, ast.Return)]
    names = {one.id for one in returned if isinstance(one, ast.Name)}
    bound = [one for one in parts if isinstance(one, ast.Assign)]
    returned += [one.value for one in bound if names & {part.id for part in one.targets if isinstance(part, ast.Name)}]
    arms = [arm for one in returned if one is not None for arm in _arms(one)]
    return [one.func.id for one in arms if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]


def _arms(node: ast.expr) -> list[ast.expr]:
    """What `a if test else b` may be; of anything else, that itself."""
    return [*_arms(node.body), *_arms(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _step_calls(facts: Facts) -> Iterator[tuple[cst.Call, Statement]]:
    for part, statement in facts.tree.every(cst.Call):
        if called_name(part) == "step" and isinstance(part.func, cst.Attribute):
            yield part, statement
