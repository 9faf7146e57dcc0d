"""Master copies by hand: the optimizer works on float32 copies of the parameters (rule G4).

masters = [p.detach().clone().float() for p in model.parameters()]       goes
optimizer = SGD(masters, lr=0.1)                                         SGD(model.parameters(), lr=0.1)
for m, p in zip(masters, model.parameters()):                            goes
    m.grad = p.grad.float() / SCALE
clip_grad_norm_(masters, 1.0)                                            clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
for m, p in zip(masters, model.parameters()):                            goes
    p.data.copy_(m.data)

Whatever is done with a copy has to be understood; a decay or a noise that is added to a gradient is training.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.clips import is_clip
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Block, Function, Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.models import names
from amp_migrate.models.queries import carries, copies, describes, scales
from amp_migrate.models.traits import named
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.half import UNKNOWN_TRAINER
from amp_migrate.sources.half.float_steps import FloatSteps
from amp_migrate.sources.half.scale import Scaling
from amp_migrate.sources.optimizers import parameters_of
from amp_migrate.sources.scaled_by_hand import divisor_of, divisors

_COPYING = frozenset("deepcopy Parameter copy".split())
_CARRYING = frozenset("copy_ resize_ Parameter zip list len range no_grad parameters all set_grad_enabled".split())
_UNKNOWN_USE = "this use of a master copy, or of scaled gradients, is not understood"


class Masters:
    """The master copies of a unit, and everything that keeps them up to date."""

    def __init__(
        self,
        facts: Facts,
        optimizers: list[tuple[Statement, cst.Call]],
        scaling: Scaling,
        lowering: Lowering,
        float_steps: FloatSteps,
    ) -> None:
        self.facts = facts
        self.optimizers = optimizers
        self.scaling = scaling
        self.lowering = lowering
        self.float_steps = float_steps
        self.sites: list[cst.CSTNode] = []
        copies = [copy for _, call in optimizers for arg in call.args for copy in self._copies(arg.value)]
        self.copies = list(dict.fromkeys(copies))
        self.lists: ObjectSet = frozenset(facts.objects.object_of("display", copy) for copy in self.copies)
        self.elements: ObjectSet = frozenset(one for copy in self.copies for one in facts.objects.objects(copy.elt))
        self._plumbing: dict[Function, bool] = {}

    def lower(self) -> None:
        """Take the copies out. Raises Refusal where something is done with them that is not understood."""
        for statement, call in self.optimizers:
            self._optimizer(statement, call)
        for function in self.facts.tree.functions:
            if not self._is_helper(function):
                self._block(function.body)

    def check_rest(self) -> None:
        """Raises Refusal for what else keeps copies of weights, or makes gradients by hand: a wrapper of the optimizer
        that puts its own copies into the parameter groups, a loop that fills in `p.grad`.
        """
        gone = {inner for statement in self.lowering.removed for inner in statement.descendants()}
        for statement in self.facts.tree.all_statements():
            node = statement.node
            if statement in gone or isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                continue
            if statement.function in self.float_steps.functions:
                continue
            if self._is_helper(statement.function) or not self.facts.may_run(statement.function):
                continue
            if isinstance(node, cst.Assign) and any(_is_kept_weight(target.target) for target in node.targets):
                if not (isinstance(node.value, cst.Name) and node.value.value == "None"):
                    text = self.facts.text(node.targets[0].target)
                    raise Refusal(UNKNOWN_TRAINER, node, f"{text} is written by hand", case="masters")
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Call) and part not in self._understood() and _clones_to_float(part):
                    message = f"{self.facts.text(part)} may be a master copy of a weight"
                    raise Refusal(UNKNOWN_TRAINER, part, message, case="masters")

    def _understood(self) -> set[cst.CSTNode]:
        return {part for copy in self.copies for part in walk(copy)}

    # -- what is a copy ---------------------------------------------------------------------------------

    def _copies(self, node: cst.BaseExpression) -> Iterator[cst.ListComp]:
        """The lists of copies that an argument of an optimizer is made of."""
        waiting: list[cst.BaseExpression] = [node]
        seen: set[cst.CSTNode] = set()
        while waiting:
            current = waiting.pop()
            for one in self.facts.objects.objects(current):
                if isinstance(one.origin, cst.ListComp) and one.origin not in seen:
                    seen.add(one.origin)
                    if _copies(one.origin.elt) and any(True for _ in parameters_of(self.facts, one.origin.for_in.iter)):
                        yield one.origin
            if isinstance(current, (cst.List, cst.Tuple)):
                waiting += [element.value for element in current.elements]

    def _is_list(self, node: cst.BaseExpression) -> bool:
        return bool(self.facts.objects.objects(node) & self.lists)

    def _is_flagged(self, statement: Statement) -> bool:
        """True where a statement itself touches copies, or divides gradients by the loss scale."""
        if isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)):
            return False
        if any(divisors(self.facts, statement)):
            return True
        return any(
            isinstance(part, (cst.Name, cst.Attribute, cst.Subscript, cst.ListComp))
            and not self.facts.tree.is_label(part)
            and self.facts.objects.objects(part) & (self.lists | self.elements)
            for part in self.facts.tree.expressions(statement)
        )

    # -- what goes --------------------------------------------------------------------------------------

    def _optimizer(self, statement: Statement, call: cst.Call) -> None:
        """The copies that an optimizer is given become the parameters of the model again."""
        for part in walk(call):
            if isinstance(part, cst.NamedExpr) and self._is_list(part):
                raise Refusal(UNKNOWN_TRAINER, part, _UNKNOWN_USE, case="masters")
            if isinstance(part, (cst.Name, cst.Attribute, cst.ListComp)) and self._is_list(part):
                if not self.facts.tree.is_label(part):
                    self._as_parameters(part, statement.function)

    def _as_parameters(self, node: cst.BaseExpression, function: Function) -> None:
        self.sites.append(node)
        model = self._model_in(function)
        if model is None:
            message = f"{self.facts.text(node)} are copies of parameters of a model that was not found"
            raise Refusal(UNKNOWN_TRAINER, node, message, case="masters")
        self.lowering.replaced[node] = f"{model}.parameters()"

    def _model_in(self, function: Function) -> str | None:
        """How a function names the model whose parameters were copied."""
        wanted: set[Object] = set()
        for copy in self.copies:
            for receiver in parameters_of(self.facts, copy.for_in.iter):
                wanted |= self.facts.objects.objects(receiver)
        texts = {}
        scopes = function.around
        for statement in self.facts.tree.all_statements():
            if statement.function not in scopes:
                continue
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, (cst.Name, cst.Attribute)) and self.facts.objects.objects(part) & wanted:
                    if not self.facts.tree.is_label(part) and _is_chain(part):
                        texts[self.facts.text(part)] = len(scopes) - scopes.index(statement.function)
        ordered = sorted(texts, key=lambda text: (-texts[text], text.split(".")[-1] not in ("model", "net"), len(text)))
        return ordered[0] if ordered else None

    def _block(self, block: Block) -> None:
        for statement in block.statements:
            if self._goes(statement):
                self.sites.append(statement.node)
                self.lowering.removed.append(statement)
                continue
            for inner in statement.blocks:
                self._block(inner)
            if self._is_flagged(statement) and not self._is_optimizer(statement):
                self._other_use(statement)

    def _is_optimizer(self, statement: Statement) -> bool:
        return any(statement is other for other, _ in self.optimizers)

    def _other_use(self, statement: Statement) -> None:
        """A clip of the copies is one of the parameters; anything else is not understood."""
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.Call) and is_clip(self.facts, part) and part.args:
                if self._is_list(part.args[0].value):
                    self._as_parameters(part.args[0].value, statement.function)
                    return
        saved = self._saved_in(statement)
        if saved is not None:
            message = f"{self.facts.text(saved)} are master copies in a checkpoint, and what loads it needs them"
            raise Refusal(UNKNOWN_TRAINER, saved, message, case="masters")
        raise Refusal(UNKNOWN_TRAINER, statement.node, _UNKNOWN_USE, case="masters")

    def _saved_in(self, statement: Statement) -> cst.BaseExpression | None:
        """The copies in `torch.save({"model": ..., "masters": masters}, path)`."""
        saves = [call for call in self.facts.tree.calls(statement) if called_name(call) == "save"]
        parts = (part for call in saves for part in walk(call) if isinstance(part, (cst.Name, cst.Attribute)))
        return next((part for part in parts if not self.facts.tree.is_label(part) and self._is_list(part)), None)

    def _goes(self, statement: Statement) -> bool:
        """True for a statement that is there for the copies alone."""
        return self._touches(statement) and self._only_carries(statement)

    def _touches(self, statement: Statement) -> bool:
        return any(self._is_flagged(inner) for inner in statement.descendants()) or self._calls_helper(statement)

    def _calls_helper(self, statement: Statement) -> bool:
        return any(self._is_helper(site.callee) for site in self.facts.calls.in_statement(statement))

    def _is_helper(self, function: Function) -> bool:
        """True for a function of the script that only makes copies, or carries gradients and weights."""
        if function.is_module:
            return False
        if function not in self._plumbing:
            self._plumbing[function] = False
            self._plumbing[function] = self._reads_as_helper(function)
        return self._plumbing[function]

    def _reads_as_helper(self, function: Function) -> bool:
        statements = [one for one in function.body.statements if not _is_docstring(one)]
        return any(self._touches(one) for one in statements) and all(self._only_carries(one) for one in statements)

    def _only_carries(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, (cst.For, cst.If, cst.With)):
            return all(self._only_carries(inner) for block in statement.blocks for inner in block.statements)
        if isinstance(node, (cst.Pass, cst.Return)):
            return isinstance(node, cst.Pass) or self._is_flagged(statement) or node.value is None
        if isinstance(node, cst.Assign):
            if self._makes_copies(node.value):
                return True
            if all(_is_part_of_parameter(target.target) for target in node.targets):
                return self._is_carried(node.value)
            return self._lists_parameters(node)
        if isinstance(node, cst.AugAssign):
            divides = isinstance(node.operator, (cst.DivideAssign, cst.MultiplyAssign))
            return divides and any(divisors(self.facts, statement))
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            site = next(iter(self.facts.calls.in_statement(statement)), None)
            if site is not None:
                return self._is_helper(site.callee)
            return _carries(called_name(node.value)) and self._is_carried(node.value)
        return False

    def _makes_copies(self, value: cst.BaseExpression) -> bool:
        """True for the list itself, and for a call of a helper that returns it."""
        if value in self.copies:
            return True
        function = self.facts.objects.called_function(value) if isinstance(value, cst.Call) else None
        return function is not None and self._is_helper(function)

    def _lists_parameters(self, node: cst.Assign) -> bool:
        """`model_params = [p for p in model.parameters() if p.requires_grad]`, inside of a helper."""
        value = node.value
        plain = isinstance(value, cst.ListComp) and isinstance(value.elt, cst.Name)
        listed = isinstance(value, cst.Call) and called_name(value) in ("list", "parameters")
        return (plain or listed) and any(True for _ in parameters_of(self.facts, value))

    def _is_carried(self, value: cst.BaseExpression) -> bool:
        """True for a value that is copied, moved, or divided by the loss scale, and nothing else."""
        for part in walk(value):
            if isinstance(part, cst.Call) and not _carries(called_name(part)):
                return False
            if isinstance(part, cst.BinaryOperation):
                key = divisor_of(part)
                if key is None and not (isinstance(part.operator, cst.Divide) and _is_one(part.left)):
                    return False
        return True


def _makes_copy(name: str) -> bool:
    return name in _COPYING or name in names(copies)


def _carries(name: str) -> bool:
    """True for what makes, moves and scales tensors, or asks for their size."""
    made = named("like") - named("chance") | named("clearing")
    return name in _CARRYING or name in made or any(name in names(one) for one in (carries, scales, describes))


def _copies(element: cst.BaseExpression) -> bool:
    """True for `p.detach().clone().float()`, and not for `p`."""
    return isinstance(element, cst.Call) and any(
        isinstance(part, cst.Call) and _makes_copy(called_name(part)) for part in walk(element)
    )


def _is_kept_weight(target: cst.BaseExpression) -> bool:
    """`p.grad`, and an element of `group["params"]`."""
    if isinstance(target, cst.Attribute):
        return target.attr.value == "grad" or (target.attr.value == "data" and _is_kept_weight(target.value))
    return isinstance(target, cst.Subscript) and "params" in source_key(target)


def _clones_to_float(call: cst.Call) -> bool:
    """`p.detach().clone().float()`, of something that is not a new tensor."""
    names: list[str] = []
    node: cst.BaseExpression = call
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        names.append(node.func.attr.value)
        node = node.func.value
    return (names[:1] == ["float"] and "clone" in names) or (names[:1] == ["clone"] and "float" in names)


def _is_chain(node: cst.BaseExpression) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _is_part_of_parameter(target: cst.BaseExpression) -> bool:
    """`p.grad`, `p.grad.data`, `p.data`, `p.requires_grad`."""
    if isinstance(target, cst.Attribute) and target.attr.value == "data":
        return isinstance(target.value, (cst.Attribute, cst.Name))
    return isinstance(target, cst.Attribute) and target.attr.value in ("grad", "requires_grad")


def _is_one(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value) == 1.0


def _is_docstring(statement: Statement) -> bool:
    return isinstance(statement.node, cst.Expr) and isinstance(statement.node.value, cst.BaseString)
