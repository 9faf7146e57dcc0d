"""Reading the arguments of `amp.initialize` ([A:apex/amp/frontend.py]).

initialize(models, optimizers=None, enabled=True, opt_level="O1", cast_model_type=None,
patch_torch_functions=None, keep_batchnorm_fp32=None, master_weights=None, loss_scale=None,
cast_model_outputs=None, num_losses=1, verbosity=1, min_loss_scale=None, max_loss_scale=2.**24)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Finding, Refusal
from amp_migrate.plan.model import Condition, LossScale, Setup
from amp_migrate.rules.apex import (
    ARGUMENT_OF_INITIALIZE,
    DEFAULT_IS_NO_LEVEL,
    FLOAT32_WEIGHTS,
    KEEP_BATCHNORM_UNDER_O1,
    LEVEL_AS_ENABLED,
    NO_LEVEL,
    ONE_SCALER,
    PURE_HALF,
    REJECTED_ARGUMENT,
    UNKNOWN_AMP_USE,
)

_PARAMETERS = (
    "models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 "
    "master_weights loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale"
).split()
_LEVELS = ("O0", "O1", "O2", "O3")
# O3 has no loss scaling in apex; natively half gradients need it (rule B4).
_DEFAULT_SCALE = {"O0": 1.0}
_LARGEST_SCALE = 2.0**24
# What these levels set anyway, and autocast with float32 weights amounts to.
_AS_IN_NATIVE = {("master_weights", "O2"), ("patch_torch_functions", "O1")}

Arguments = dict[str, cst.BaseExpression]


def read_setup(facts: Facts, call: cst.Call, statement: Statement) -> tuple[Setup, list[Finding]]:
    """What one `amp.initialize` call asks for, and what there is to say about it.

    Raises Refusal for calls that apex itself rejects and for arguments that cannot be read.
    """
    given = _arguments(facts, call)
    findings = _traps(facts, call, given)
    level = _Level(facts, given)
    conditions = [*_enabled(facts, given, findings, call), *level.conditions]
    always_off = level.always_off or _literal(given, "enabled") is False
    models, optimizers = given.get("models"), given.get("optimizers")
    if models is None:
        raise Refusal(UNKNOWN_AMP_USE, call, "amp.initialize is called without models")
    if optimizers is not None and literal_value(optimizers) is None:
        optimizers = None
    setup = Setup(
        statement=statement,
        call=call,
        models=_items(models),
        optimizers=_items(optimizers) if optimizers is not None else [],
        aliases=_aliases(facts, call, statement, models, optimizers),
        conditions=conditions,
        loss_scale=_loss_scale(facts, given, level.literal),
        always_off=always_off,
        level=level.literal,
    )
    findings += level.findings(facts, call, trains=bool(setup.optimizers))
    return setup, findings


def _arguments(facts: Facts, call: cst.Call) -> Arguments:
    given: Arguments = {}
    for name, arg in zip(_PARAMETERS, call.args, strict=False):
        if arg.keyword is not None or arg.star:
            break
        given[name] = arg.value
    for arg in call.args:
        if arg.star == "**":
            given.update(_unpacked(facts, arg.value, call))
        elif arg.star == "*":
            raise Refusal(UNKNOWN_AMP_USE, call, "amp.initialize is called with *arguments that cannot be read")
        elif arg.keyword is not None:
            given[arg.keyword.value] = arg.value
    for name in given:
        if name not in _PARAMETERS:
            hint = " (did you mean loss_scale=?)" if name == "scale_loss" else ""
            message = f"amp.initialize has no argument {name}=: apex raises TypeError here{hint}"
            raise Refusal(REJECTED_ARGUMENT, call, message)
    return given


def _unpacked(facts: Facts, node: cst.BaseExpression, call: cst.Call) -> Arguments:
    """The entries of a `dict(...)` or `{...}` that is built once and unpacked into the call."""
    values = facts.objects.values_of(node)
    if isinstance(node, (cst.Dict, cst.Call)):
        values = [node]
    if len(values) != 1 or not isinstance(node, (cst.Name, cst.Dict, cst.Call)):
        raise Refusal(UNKNOWN_AMP_USE, call, f"the arguments in **{facts.text(node)} cannot be read")
    entries: Arguments = {}
    value = values[0]
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict":
        for arg in value.args:
            if arg.keyword is None:
                raise Refusal(UNKNOWN_AMP_USE, call, f"the arguments in **{facts.text(node)} cannot be read")
            entries[arg.keyword.value] = arg.value
        return entries
    if isinstance(value, cst.Dict):
        for element in value.elements:
            key = literal_value(element.key) if isinstance(element, cst.DictElement) else UNKNOWN
            if not isinstance(key, str):
                raise Refusal(UNKNOWN_AMP_USE, call, f"the arguments in **{facts.text(node)} cannot be read")
            entries[key] = element.value
        return entries
    raise Refusal(UNKNOWN_AMP_USE, call, f"the arguments in **{facts.text(node)} cannot be read")


def _literal(given: Arguments, name: str) -> object:
    return literal_value(given[name]) if name in given else None


def _traps(facts: Facts, call: cst.Call, given: Arguments) -> list[Finding]:
    """Arguments that have no native form, or that mean something else than they seem to."""
    findings = []
    level = _literal(given, "opt_level") if "opt_level" in given else "O1"
    batchnorm = _literal(given, "keep_batchnorm_fp32")
    if level == "O1" and batchnorm is not None and batchnorm is not UNKNOWN:
        message = "keep_batchnorm_fp32 is given under O1: apex raises here"
        findings.append(facts.finding(call, KEEP_BATCHNORM_UNDER_O1, message))
    for name in ("cast_model_type", "patch_torch_functions", "master_weights", "cast_model_outputs"):
        if _literal(given, name) is not None and (name, level) not in _AS_IN_NATIVE:
            text = facts.text(given[name])
            message = f"{name}={text} has no native form and is dropped"
            findings.append(facts.finding(call, ARGUMENT_OF_INITIALIZE, message))
    findings += [
        facts.finding(
            call,
            ARGUMENT_OF_INITIALIZE,
            f"{name}={facts.text(given[name])} is dropped: whether the loss scale is static is known at run time only",
            case="bounds",
        )
        for name in ("min_loss_scale", "max_loss_scale")
        if name in given and "loss_scale" in given and facts.values.constant(given["loss_scale"]) is UNKNOWN
    ]
    losses = _literal(given, "num_losses")
    if losses not in (None, 1):
        findings.append(facts.finding(call, ONE_SCALER, "num_losses asks for one loss scale per loss"))
    return findings


def _enabled(facts: Facts, given: Arguments, findings: list[Finding], call: cst.Call) -> list[Condition]:
    node = given.get("enabled")
    if node is None:
        return []
    literal = literal_value(node)
    if isinstance(literal, str) or ("opt_level" in facts.text(node) and "opt_level" not in given):
        message = f"{facts.text(node)} is given as `enabled`, and not as the level: apex runs O1 here"
        findings.append(facts.finding(call, LEVEL_AS_ENABLED, message))
    if literal is not UNKNOWN:
        return []
    return [Condition(node, facts.conditions.compile(node))]


class _Level:
    """The optimization level: a literal one, or the condition that a level known at run time is not O0."""

    def __init__(self, facts: Facts, given: Arguments) -> None:
        self.node = given.get("opt_level")
        self.literal: str | None = "O1"
        self.always_off = False
        self.conditions: list[Condition] = []
        self._option: tuple[cst.Call, str] | None = None
        if self.node is not None:
            self.literal = None
            self._read(facts, self.node)

    def _read(self, facts: Facts, node: cst.BaseExpression) -> None:
        value = facts.values.constant(node)
        if value is not UNKNOWN:
            if value not in _LEVELS:
                message = f"opt_level={facts.text(node)} is no level: apex raises here{_letter(value)}"
                raise Refusal(NO_LEVEL, node, message)
            self.literal = str(value)
            self.always_off = value == "O0"
            return
        option = facts.values.option(node)
        if option is not None and isinstance(option.default, str) and option.default not in (*_LEVELS, ""):
            self._option = option.node, option.default
        if option is not None and option.choices and "O0" not in option.choices:
            return
        if option is not None and option.default in (None, UNKNOWN) and not option.is_required:
            self.conditions.append(Condition(node, facts.conditions.compile(node)))  # nothing given: no level
        chosen = _definition(facts, node)
        if isinstance(chosen, cst.IfExp):
            arms = [facts.values.constant(chosen.body), facts.values.constant(chosen.orelse)]
            if all(arm in _LEVELS for arm in arms):
                self._choose(facts, chosen, [str(arm) for arm in arms])
                return
        number = _formatted_number(facts, node)
        if number is not None:
            self.conditions.append(_compared(facts, number, "0"))
        else:
            self.conditions.append(_compared(facts, node, f"{facts.quote(node)}O0{facts.quote(node)}"))

    def _choose(self, facts: Facts, node: cst.IfExp, arms: list[str]) -> None:
        """`'O2' if c else 'O0'` is the condition `c`, and the level O2."""
        on = {arm for arm in arms if arm != "O0"}
        self.always_off = not on
        if len(on) == 1:
            self.literal = on.pop()
            if "O0" in arms:
                formula = facts.conditions.compile(node.test)
                self.conditions.append(Condition(node.test, formula, negated=arms[0] == "O0"))

    def findings(self, facts: Facts, call: cst.Call, *, trains: bool) -> list[Finding]:
        found = []
        if self._option is not None:
            option, default = self._option
            message = f"the default {default} is no level of apex: it raises"
            found.append(facts.finding(option, DEFAULT_IS_NO_LEVEL, message))
        if self.literal in ("O2", "O3") and not trains:
            found.append(facts.finding(call, FLOAT32_WEIGHTS, f"half weights by {self.literal} stay in fp32"))
        elif self.literal == "O2":
            found.append(facts.finding(call, FLOAT32_WEIGHTS, "opt_level O2 becomes autocast with fp32 weights"))
        elif self.literal == "O3":
            found.append(facts.finding(call, PURE_HALF, "opt_level O3 becomes autocast with a scaled loss"))
        return found


def _definition(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression behind a name that is bound once, else the node itself."""
    if isinstance(node, cst.Name):
        variable = facts.names.variable_at(node)
        if variable is not None and len(variable.bindings) == 1 and variable.bindings[0].kind == "assign":
            return variable.bindings[0].value or node
    return node


def _letter(value: object) -> str:
    if isinstance(value, str) and value[:1] == "0":
        return " (the first character must be the letter O, not a zero)"
    return ""


def _compared(facts: Facts, node: cst.BaseExpression, literal: str) -> Condition:
    comparison = cst.Comparison(node, [cst.ComparisonTarget(cst.NotEqual(), cst.parse_expression(literal))])
    compiled = facts.conditions.compile(comparison)
    return Condition(node, compiled, suffix=f" != {literal}")


def _formatted_number(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The number n in `'O%i' % n`, and in `f'O{n}'` where n is an option of type int."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        if literal_value(node.left) in ("O%i", "O%d"):
            right = node.right
            if isinstance(right, cst.Tuple) and len(right.elements) == 1:
                return right.elements[0].value
            return None if isinstance(right, cst.Tuple) else right
    if isinstance(node, cst.FormattedString) and len(node.parts) == 2:
        text, value = node.parts
        if isinstance(text, cst.FormattedStringText) and text.value == "O":
            if isinstance(value, cst.FormattedStringExpression) and value.format_spec is None:
                option = facts.values.option(value.expression)
                return value.expression if option is not None and option.is_int else None
    return None


def _loss_scale(facts: Facts, given: Arguments, level: str | None) -> LossScale:
    minimum = given.get("min_loss_scale")
    maximum = given.get("max_loss_scale")
    if minimum is not None and not literal_value(minimum):
        minimum = None  # None and 0 are no floor
    if maximum is not None and literal_value(maximum) in (None, _LARGEST_SCALE):
        maximum = None
    node = given.get("loss_scale")
    value = _constant(facts, node) if node is not None else None
    if value is UNKNOWN:
        number, test = _dynamic_or_number(facts, node)
        return LossScale(runtime=number, dynamic_when=test, minimum=minimum, maximum=maximum)
    if value is None:
        return LossScale(static=_DEFAULT_SCALE.get(level or ""), minimum=minimum, maximum=maximum)
    if value == "dynamic":
        return LossScale(minimum=minimum, maximum=maximum)
    try:
        return LossScale(static=float(value), name=node)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        assert node is not None
        message = f"loss_scale={facts.text(node)} is no number: apex raises here"
        raise Refusal(REJECTED_ARGUMENT, node, message) from None


def _dynamic_or_number(
    facts: Facts, node: cst.BaseExpression | None
) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """`scale` and `scale == 0` of `"dynamic" if scale == 0 else scale`; for anything else the whole, and no test."""
    if isinstance(node, cst.IfExp):
        for dynamic, number, test in (
            (node.body, node.orelse, node.test),
            (node.orelse, node.body, negated(node.test)),
        ):
            if literal_value(dynamic) == "dynamic" and _is_compared_with_number(facts, number, node.test):
                return number, test
    return node, None


def _is_compared_with_number(facts: Facts, node: cst.BaseExpression, test: cst.BaseExpression) -> bool:
    """True for `scale` in `scale == 0`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    other = literal_value(test.comparisons[0].comparator)
    return facts.text(test.left) == facts.text(node) and isinstance(other, (int, float)) and not isinstance(other, bool)


def _constant(facts: Facts, node: cst.BaseExpression) -> object:
    """The value of a constant, or the default of a parameter that every call leaves out."""
    value = facts.values.constant(node)
    variable = facts.names.variable_at(node) if value is UNKNOWN else None
    function = variable.scope.owner if variable is not None else None
    if variable is None or not isinstance(function, Function) or len(variable.bindings) != 1:
        return value
    param, calls = variable.bindings[0].node, facts.objects.callers(function)
    if not isinstance(param, cst.Param) or param.default is None or not calls:
        return value
    given = any(facts.objects.argument(call, function, param) is not None for call, _ in calls)
    starred = any(arg.star for call, _ in calls for arg in call.args)
    return value if given or starred else literal_value(param.default)


def _items(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a list or tuple display, however nested; another expression is its own item."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return [item for element in node.elements for item in _items(element.value)]
    return [node]


def _aliases(
    facts: Facts,
    call: cst.Call,
    statement: Statement,
    models: cst.BaseExpression,
    optimizers: cst.BaseExpression | None,
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The pairs of target and value that are not the same name: `net, opt = initialize(model, opt)`."""
    node = statement.node
    if isinstance(node, cst.Assign) and node.value is call:
        if len(node.targets) != 1:
            raise Refusal(UNKNOWN_AMP_USE, call, "the result of amp.initialize is assigned to several targets at once")
        target = node.targets[0].target
        if optimizers is None:
            return _pairs(facts, target, models)
        if isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == 2:
            first, second = (element.value for element in target.elements)
            return [*_pairs(facts, first, models), *_pairs(facts, second, optimizers)]
        _check_gives_both(facts, call, optimizers)
        both = cst.Tuple([cst.Element(models), cst.Element(optimizers)])
        return [(target, both)]
    if isinstance(node, cst.Expr) and node.value is call:
        given = [models] if optimizers is None else [models, optimizers]
        return [(cst.Name("_"), value) for value in given if isinstance(value, cst.Call)]
    if isinstance(node, cst.Return) and node.value is call:
        if optimizers is not None:
            _check_gives_both(facts, call, optimizers)
        return []
    raise Refusal(UNKNOWN_AMP_USE, call, "the result of amp.initialize is used inside a larger expression")


def _check_gives_both(facts: Facts, call: cst.Call, optimizers: cst.BaseExpression) -> None:
    """Raise Refusal where apex may return the models alone: it does without optimizers."""
    if any(map(_may_be_none, facts.objects.values_of(optimizers))):
        message = f"{facts.text(optimizers)} may be None: amp.initialize returns the models alone then"
        raise Refusal(UNKNOWN_AMP_USE, call, message)


def _may_be_none(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _may_be_none(node.body) or _may_be_none(node.orelse)
    return literal_value(node) is None


def _pairs(
    facts: Facts, target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    if facts.text(target) == facts.text(value):
        return []
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        if len(target.elements) == len(value.elements):
            return [
                pair
                for left, right in zip(target.elements, value.elements, strict=True)
                for pair in _pairs(facts, left.value, right.value)
            ]
    if isinstance(target, cst.Name):
        variable = facts.names.variable_at(target)
        if (variable is None or not variable.loads) and not isinstance(value, cst.Call):
            return []
    return [(target, value)]
