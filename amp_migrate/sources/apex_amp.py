"""The front end for `apex.amp` (O0 to O3, `initialize` and `scale_loss`).

    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()

Every expression that can mean `apex.amp` or something in it must be understood: as a setup, a backward, the
optimizer's parameters, the scaler's state, a carrier that only hands the module on, or a test of one. A
single one that is not refuses the unit, so that nothing is left behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.names import dotted_text
from amp_migrate.facts.stores import ANY, subscript_key
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.models.traits import named
from amp_migrate.plan.model import (
    Backward,
    HandedOn,
    ParameterAccess,
    Recognition,
    ScaleAccess,
    ScaledBlock,
    Setup,
    StateAccess,
)
from amp_migrate.rules.apex import (
    AMP_ESCAPES,
    CAST_FUNCTION,
    NATIVE_BESIDE_APEX,
    ONE_SCALER,
    UNKNOWN_AMP_USE,
)
from amp_migrate.rules.source_forms import APEX_AMP
from amp_migrate.rules.steps import GRADIENTS_IN_USE
from amp_migrate.sources.casts import CastReader
from amp_migrate.sources.float_operations import cast_operation
from amp_migrate.sources.half.arms import equal_arms
from amp_migrate.sources.half_inputs import lower_half_inputs
from amp_migrate.sources.half_modules import lower_half_modules
from amp_migrate.sources.handed import is_only_saved
from amp_migrate.sources.handle import (
    add_optimizers,
    losses_of,
    read_init,
    read_wrapping,
    scales_loss_of,
    used_without,
)
from amp_migrate.sources.idle import drop_idle_optimizers
from amp_migrate.sources.initialize import read_setup
from amp_migrate.sources.native import native_amp

_APEX = re.compile("apex")  # it stands in every import of it, by its name in quotes as well
_AVAILABILITY = frozenset(("is_apex_available",))


def recognise(facts: Facts) -> tuple[Recognition, list[Refusal]]:
    """Everything of apex.amp in the module, and every reason why it cannot all be migrated."""
    return _Reader(facts).read() if facts.says(_APEX) else (Recognition(APEX_AMP), [])


class _Reader:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.found = Recognition(APEX_AMP, modules=("apex.amp",))
        self.refusals: list[Refusal] = []
        self._inits: list[Setup] = []
        self._wrapped: list[cst.BaseExpression] = []
        self._casts = CastReader(facts, self.found)
        self._calls: dict[str, Callable[[cst.Call, Statement], None]] = {
            "initialize": self._initialize,
            "scale_loss": self._scale_loss,
            "master_params": self._master_params,
            "state_dict": self._state_dict,
            "load_state_dict": self._load_state_dict,
            "disable_casts": self._disable_casts,
            "_disable_casts": self._disable_casts,
            "init": self._init,
            "wrap_optimizer": self._wrap_optimizer,
            "_clear_cache": self._clear_cache,
            "register_half_function": self._register,
            "register_float_function": self._register,
            "register_promote_function": self._register,
        }

    def read(self) -> tuple[Recognition, list[Refusal]]:
        native = self._native_amp()
        for statement in self.facts.tree.all_statements():
            if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
                if _imports_apex(statement.node):
                    self.found.imports.append(statement)
                continue
            if isinstance(statement.node, (cst.Global, cst.Nonlocal)):
                continue
            self.found.settled.extend(self._availability_calls(statement))
            for node, name in self._references(statement):
                self.found.sites.append(node)
                try:
                    self._reference(node, name, statement)
                except Refusal as refusal:
                    self.refusals.append(refusal)
        if self._inits:
            self._scalings_of_optimizers()
            add_optimizers(self.facts, self.found, self._inits, self._wrapped)
            unscaled = used_without(self.facts, self.found)
            self.refusals += [unscaled] if unscaled is not None else []
        drop_idle_optimizers(self.facts, self.found)
        if native is not None and self.found.sites:
            self.refusals.insert(0, native)
        arms = equal_arms(self.facts)
        if not arms.is_empty:
            self.found.lowering = arms
            return self.found, self.refusals
        if not self.refusals:
            lower_half_modules(self.facts, self.found)
        if not self.refusals and self.found.lowering is None:  # inputs are for what is half once these are gone
            try:
                lower_half_inputs(self.facts, self.found)
            except Refusal as refusal:
                self.refusals.append(refusal)
        return self.found, self.refusals

    def _availability_calls(self, statement: Statement) -> Iterator[cst.Call]:
        """`is_apex_available()` of transformers and its copies, where it asks for nothing but apex.amp."""
        if _brings_more(statement):
            return
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.Call) and called_name(part) in _AVAILABILITY and not part.args:
                yield part

    def _native_amp(self) -> Refusal | None:
        """Native AMP beside apex: the file is migrated already, or supports both (rule J4)."""
        for part in native_amp(self.facts):
            return Refusal(NATIVE_BESIDE_APEX, part, f"{self.facts.text(part)} is native AMP already, beside apex's")
        return None

    def _references(self, statement: Statement) -> Iterator[tuple[cst.BaseExpression, str]]:
        """The longest attribute chains that mean apex.amp (name "") or something in it ("scale_loss")."""
        parents = self.facts.tree.parents
        for part in self.facts.tree.expressions(statement):
            if not isinstance(part, (cst.Name, cst.Attribute, cst.Subscript)) or self.facts.tree.is_label(part):
                continue
            name = self._amp_name(part)
            if name is None or (isinstance(part, cst.Subscript) and subscript_key(part) == ANY):
                continue
            parent = parents.get(part)
            if isinstance(parent, cst.Attribute) and parent.value is part and self._amp_name(parent) is not None:
                continue
            if name.endswith("._loss_scale") and isinstance(part, cst.Name):
                continue  # a number read from apex's state, no part of that state
            yield part, name

    def _amp_name(self, node: cst.BaseExpression) -> str | None:
        for path in self.facts.objects.import_paths(node):
            if path == "apex.amp":
                return ""
            if path.startswith("apex.amp."):
                return path.removeprefix("apex.amp.")
        return None

    def _reference(self, node: cst.BaseExpression, name: str, statement: Statement) -> None:
        parent = self.facts.tree.parents.get(node)
        if not name:
            self._handle(node, parent, statement)
        elif name.startswith("_amp_state"):
            self._state_internals(node, statement)
        elif name == "__dict__" and isinstance(parent, cst.ComparisonTarget) and self._asks_for_state(parent):
            self.found.settled.append(self.facts.tree.parents[parent])
        elif isinstance(parent, cst.Call) and parent.func is node and name in self._calls:
            self._calls[name](parent, statement)
        elif name in ("half_function", "float_function", "promote_function"):
            self._casts.value(node, name, statement)
        else:
            raise Refusal(UNKNOWN_AMP_USE, node, f"this use of {self.facts.text(node)} is not understood")

    def _asks_for_state(self, target: cst.ComparisonTarget) -> bool:
        """True for `"state_dict" in amp.__dict__`: old versions of apex had no state, a GradScaler has."""
        comparison = self.facts.tree.parents[target]
        assert isinstance(comparison, cst.Comparison)
        wanted = literal_value(comparison.left)
        return isinstance(target.operator, cst.In) and wanted in ("state_dict", "load_state_dict")

    # -- the handle itself --------------------------------------------------------------------------

    def _handle(self, node: cst.BaseExpression, parent: cst.CSTNode | None, statement: Statement) -> None:
        """The module as a value: assigned, passed on inside the file, or tested."""
        if isinstance(parent, (cst.AssignTarget, cst.Param)):
            self._carrier(node)
        elif isinstance(parent, cst.Assign) and parent.value is node:
            if not isinstance(parent.targets[0].target, (cst.Name, cst.Attribute)):
                raise Refusal(UNKNOWN_AMP_USE, node, "the apex.amp module is stored where it cannot be followed")
            self._carrier(node)
        elif (
            (isinstance(parent, cst.IfExp) and parent.body is node and self._stays_here(parent))
            or (isinstance(parent, cst.Arg) and self._stays_here(parent))
            or _is_test(node, parent, statement)
        ):
            self._carrier(node)
        elif is_only_saved(self.facts, node):
            self.found.handed.append(HandedOn(node, statement, is_saved=True))
        elif self._travels(node, parent, statement):
            self.found.handed.append(HandedOn(node, statement, is_saved=False))
        elif isinstance(parent, cst.IfExp) and self._is_none_there(node, parent):
            self.found.absent.append(node)
        elif isinstance(parent, cst.Element) and _is_target(self.facts, parent):
            self.found.received.append(node)
        elif isinstance(parent, cst.Element) and self._is_assigned(parent, statement):
            raise Refusal(UNKNOWN_AMP_USE, node, "apex.amp is assigned together with something else")
        else:
            text = self.facts.text(node)
            raise Refusal(AMP_ESCAPES, node, f"{text}, the apex.amp module, goes where it cannot be followed")

    def _is_assigned(self, element: cst.Element, statement: Statement) -> bool:
        """True for the last `amp` in `self.model, self.amp = model, amp`."""
        return isinstance(statement.node, cst.Assign) and self.facts.tree.parents.get(element) is statement.node.value

    def _is_none_there(self, node: cst.BaseExpression, choice: cst.IfExp) -> bool:
        """True for the last `amp` in `amp.state_dict() if amp is not None else amp`: it is None."""
        name, test = self.facts.text(node), self.facts.text(choice.test)
        in_else = choice.orelse is node and test in (name, f"{name} is not None", f"{name} != None")
        return in_else or (choice.body is node and test in (f"not {name}", f"{name} is None", f"{name} == None"))

    def _travels(self, node: cst.BaseExpression, parent: cst.CSTNode | None, statement: Statement) -> bool:
        """True for a part of what a function returns, no property whose name stays, and for an entry of a dict."""
        if statement.function.is_property:
            return False
        if isinstance(parent, cst.Element) and isinstance(statement.node, cst.Return):
            return self.facts.tree.parents.get(parent) is statement.node.value
        return isinstance(parent, cst.Return) or (isinstance(parent, cst.DictElement) and parent.value is node)

    def _carrier(self, node: cst.BaseExpression) -> None:
        self.found.carriers.append(node)

    def _stays_here(self, arg: cst.CSTNode) -> bool:
        """True where the argument goes to a parameter of a function at hand; also for `amp if args.fp16 else None`."""
        if isinstance(arg, cst.IfExp) and literal_value(arg.orelse) is None:
            return self._stays_here(self.facts.tree.parents[arg])
        call = self.facts.tree.parents.get(arg)
        if not isinstance(call, cst.Call):
            return False
        function = self.facts.objects.called_function(call)
        if function is None:
            return False
        return any(given is arg for _, given in self.facts.objects.arguments(call, function))

    # -- calls --------------------------------------------------------------------------------------

    def _initialize(self, call: cst.Call, statement: Statement) -> None:
        if statement.block.arm == "class":
            raise Refusal(UNKNOWN_AMP_USE, call, "amp.initialize runs in the body of a class")
        setup, findings = read_setup(self.facts, call, statement)
        self.found.setups.append(setup)
        self.found.findings.extend(findings)

    # -- the old handle -----------------------------------------------------------------------------

    def _init(self, call: cst.Call, statement: Statement) -> None:
        setup = read_init(self.facts, call, statement)
        self._inits.append(setup)
        self.found.setups.append(setup)

    def _wrap_optimizer(self, call: cst.Call, statement: Statement) -> None:
        self._wrapped.append(read_wrapping(self.facts, self.found, call, statement))
        if losses_of(call) != 1:
            message = "num_loss asks for one loss scale per loss"
            self.found.findings.append(self.facts.finding(call, ONE_SCALER, message))

    def _clear_cache(self, call: cst.Call, statement: Statement) -> None:
        """Native autocast clears its cache at the end of each region."""
        if not isinstance(statement.node, cst.Expr):
            raise Refusal(UNKNOWN_AMP_USE, call, f"{self.facts.text(call)} is used inside a larger expression")
        self.found.removed.append(statement)

    def _scalings_of_optimizers(self) -> None:
        """`with optimizer.scale_loss(loss) as scaled:` of a wrapped optimizer."""
        wrapped = frozenset(one for node in self._wrapped for one in self.facts.objects.objects(node))
        for statement in self.facts.tree.all_statements():
            for part in self.facts.tree.expressions(statement):
                if scales_loss_of(self.facts, part, wrapped):
                    assert isinstance(part, cst.Call)
                    self.found.sites.append(part)
                    try:
                        self._scale_loss(part, statement)
                    except Refusal as refusal:
                        self.refusals.append(refusal)

    def _scale_loss(self, call: cst.Call, statement: Statement) -> None:
        item = self.facts.tree.parents.get(call)
        if not isinstance(item, cst.WithItem) or not isinstance(statement.node, cst.With):
            raise Refusal(UNKNOWN_AMP_USE, call, "amp.scale_loss is not the context of a with statement as it stands")
        if any(backward.statement is statement for backward in self.found.backwards):
            raise Refusal(UNKNOWN_AMP_USE, call, "one with statement scales two losses")
        given = _by_name(call, ("loss", "optimizers", "loss_id", "model", "delay_unscale", "delay_overflow_check"))
        if given is not None and self._inits:
            assert isinstance(call.func, cst.Attribute)
            given.setdefault("optimizers", call.func.value)  # the old handle: `optimizer.scale_loss(loss)`
        if given is None or "loss" not in given or "optimizers" not in given:
            raise Refusal(UNKNOWN_AMP_USE, call, "the arguments of amp.scale_loss cannot be read")
        if "delay_overflow_check" in given and literal_value(given["delay_overflow_check"]) is not False:
            raise Refusal(UNKNOWN_AMP_USE, call, "delay_overflow_check has no native form", case="argument")
        if self._is_scaled(given["loss"], statement):
            text = self.facts.text(given["loss"])
            message = f"{text} is scaled already: each of the two scales is taken out of the gradients of one optimizer"
            raise Refusal(UNKNOWN_AMP_USE, call, message, case="handle")
        if item.asname is None or not isinstance(item.asname.name, cst.Name):
            raise Refusal(UNKNOWN_AMP_USE, call, "the scaled loss has no plain name, so its backward cannot be found")
        if any(
            isinstance(part, cst.Yield)
            for inner in statement.descendants()
            for part in self.facts.tree.expressions(inner)
        ):
            message = "the scaled loss is handed out by yield, so its backward cannot be found"
            raise Refusal(UNKNOWN_AMP_USE, call, message)
        name = item.asname.name
        loads = self.facts.names.loads_at(name)
        uses = [
            load for load in loads if self.facts.tree.is_within(self.facts.tree.statement_of(load), {statement.node})
        ]
        self.found.backwards.append(
            Backward(
                statement=statement,
                call=call,
                loss=given["loss"],
                optimizers=_elements(given["optimizers"]),
                block=ScaledBlock(item, name.value, uses),
            )
        )

    def _is_scaled(self, loss: cst.BaseExpression, statement: Statement) -> bool:
        """True for the `scaled` of another with statement around this one."""
        return isinstance(loss, cst.Name) and any(
            backward.block is not None and backward.block.scaled == loss.value and statement.inside(backward.statement)
            for backward in self.found.backwards
        )

    def _master_params(self, call: cst.Call, statement: Statement) -> None:
        given = _by_name(call, ("optimizer",))
        if given is None or "optimizer" not in given:
            raise Refusal(UNKNOWN_AMP_USE, call, "the argument of amp.master_params cannot be read")
        self.found.parameters.append(ParameterAccess(call, given["optimizer"], statement))

    def _state_dict(self, call: cst.Call, statement: Statement) -> None:
        if call.args:
            raise Refusal(UNKNOWN_AMP_USE, call, "amp.state_dict(destination) has no native form", case="argument")
        self.found.saves.append(StateAccess(call, statement, None))

    def _load_state_dict(self, call: cst.Call, statement: Statement) -> None:
        given = _by_name(call, ("state_dict",))
        if given is None or "state_dict" not in given:
            raise Refusal(UNKNOWN_AMP_USE, call, "the argument of amp.load_state_dict cannot be read")
        self.found.loads.append(StateAccess(call, statement, given["state_dict"]))

    def _disable_casts(self, call: cst.Call, statement: Statement) -> None:
        self.found.no_casts.append(call)

    def _register(self, call: cst.Call, statement: Statement) -> None:
        """A registration goes where native autocast does the same for that function anyway."""
        given = _by_name(call, ("module", "name"))
        name = literal_value(given["name"]) if given is not None and "name" in given else UNKNOWN
        module = self.facts.names.dotted(given["module"]) if given is not None and "module" in given else None
        text = self.facts.text(call)
        if not isinstance(statement.node, cst.Expr):
            raise Refusal(UNKNOWN_AMP_USE, call, f"{text} is used inside a larger expression")
        function = self._registered(given["module"], name) if given is not None and isinstance(name, str) else None
        if function is not None:
            self._casts.registration(call, function, called_name(call), statement)
            return
        in_torch = module in ("torch", "torch.nn.functional")
        native = models.function(f"{module}.{name}") if in_torch else None
        asked = "half" if "half" in called_name(call) else "single"
        if module == "torch" and name in named("float function") and "float" in called_name(call):
            assert isinstance(name, str)
            cast_operation(self.facts, self.found, call, name)
        elif "promote" in called_name(call) or native is None or native.policy != asked:
            raise Refusal(CAST_FUNCTION, call, f"{text} changes how a function is cast")
        self.found.removed.append(statement)

    def _registered(self, module: cst.BaseExpression, name: str) -> Function | None:
        """The function of the unit that a registration is about."""
        root = self.facts.names.module(module)
        variable = self.facts.names.scope_of(root).variables.get(name) if root is not None else None
        if variable is None or len(variable.bindings) != 1:
            return None
        return self.facts.tree.function_at.get(variable.bindings[0].node)

    # -- internals ----------------------------------------------------------------------------------

    def _state_internals(self, node: cst.BaseExpression, statement: Statement) -> None:
        """`_amp_state.loss_scalers[0]`: its scale, read anywhere or written before the loop."""
        whole = self._chain(node)
        text = self.facts.text(whole)
        scale = text.endswith((".loss_scale()", "._loss_scale"))
        if ".loss_scalers[" not in text or not scale:
            raise Refusal(GRADIENTS_IN_USE, node, f"{text} reads apex's internal state", case="state")
        parent = self.facts.tree.parents.get(whole)
        if isinstance(parent, cst.AssignTarget):
            self._initial_scale(statement)
        elif isinstance(statement.node, cst.AugAssign) and statement.node.target is whole:
            raise Refusal(GRADIENTS_IN_USE, node, f"{text} is changed while training", case="state")
        else:
            self.found.scale_reads.append(ScaleAccess(whole, statement))

    def _chain(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The whole of an attribute, subscript and call chain that starts with `node`."""
        current: cst.BaseExpression = node
        while True:
            parent = self.facts.tree.parents.get(current)
            if (
                (isinstance(parent, cst.Attribute) and parent.value is current)
                or (isinstance(parent, cst.Subscript) and parent.value is current)
                or (isinstance(parent, cst.Call) and parent.func is current)
            ):
                current = parent
            else:
                return current

    def _initial_scale(self, statement: Statement) -> None:
        """A write of the scale right beside `initialize` is the initial scale; later it is not."""
        node = statement.node
        assert isinstance(node, cst.Assign)
        before = [setup for setup in self.found.setups if setup.statement.block is statement.block]
        if not before or len(node.targets) != 1:
            raise Refusal(GRADIENTS_IN_USE, node, "the loss scale is written away from amp.initialize", case="state")
        setup = before[-1]
        if setup.loss_scale.static is not None or setup.loss_scale.runtime is not None:
            message = "the loss scale is written after initialize was given one"
            raise Refusal(GRADIENTS_IN_USE, node, message, case="state")
        setup.loss_scale = type(setup.loss_scale)(
            initial=node.value, minimum=setup.loss_scale.minimum, maximum=setup.loss_scale.maximum
        )
        self.found.removed.append(statement)


def _imports_apex(node: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(node, cst.ImportFrom):
        return node.module is not None and not node.relative and _root(node.module) == "apex"
    return any(_root(alias.name) == "apex" for alias in node.names)


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _brings_more(statement: Statement) -> bool:
    """True for an `if` around imports of other parts of apex: those still need it."""
    imports = (inner.node for inner in statement.descendants() if isinstance(inner.node, (cst.Import, cst.ImportFrom)))
    return any(_imports_apex(node) and not _imports_amp_alone(node) for node in imports)


def _imports_amp_alone(node: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(node.names, cst.ImportStar):
        return False
    names = {dotted_text(alias.name) for alias in node.names}
    if isinstance(node, cst.ImportFrom):
        return node.module is not None and (dotted_text(node.module), names) == ("apex", {"amp"})
    return names <= {"apex.amp"}


def _is_target(facts: Facts, element: cst.Element) -> bool:
    """True for `amp` in `model, amp = ...`."""
    group = facts.tree.parents.get(element)
    return isinstance(facts.tree.parents.get(group), cst.AssignTarget) if group is not None else False


def _is_test(node: cst.BaseExpression, parent: cst.CSTNode | None, statement: Statement) -> bool:
    """True where only the truth of `node`, or whether it is None, is asked for."""
    if isinstance(parent, cst.Comparison):
        operators = (target.operator for target in parent.comparisons)
        return all(isinstance(operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)) for operator in operators)
    if isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        return True
    if isinstance(parent, cst.IfExp):
        return parent.test is node
    return isinstance(statement.node, (cst.If, cst.While, cst.Assert)) and parent is statement.node


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, (cst.List, cst.Tuple)):
        return [element.value for element in node.elements]
    return [node]


def _by_name(call: cst.Call, names: tuple[str, ...]) -> dict[str, cst.BaseExpression] | None:
    """The arguments of a call by parameter name; None where they cannot be read."""
    given: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and index >= len(names)):
            return None
        name = names[index] if arg.keyword is None else arg.keyword.value
        if name not in names or name in given:
            return None
        given[name] = arg.value
    return given
