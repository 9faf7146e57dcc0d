"""The TrainingPlan: what a script does about training precision, whatever source form it uses.

A front end fills `Recognition` (what stands in the file); the planner turns it into a `TrainingPlan` (what
is to be written natively). Both are data: nodes of the parsed file, and facts about them.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.conditions import Formula
from amp_migrate.facts.tree import Block, Class, Function, Statement
from amp_migrate.findings import Finding, Refusal


@dataclasses.dataclass(frozen=True)
class Condition:
    """A part of the `enabled` expression: `node` as written in the file, `formula` its meaning.

    `suffix` stands behind the text of `node`: a level `args.opt_level` becomes `args.opt_level != "O0"`. A node that is
    the name of a device becomes a device before that, and where it may be None, it is `otherwise` one.
    `moves` are the calls that put the models on the device that a condition speaks of: behind them, the models tell.
    Where nothing else does, `unread` is the refusal of a program that cannot ask them.
    """

    node: cst.BaseExpression
    formula: Formula
    suffix: str = ""
    is_device_name: bool = False
    otherwise: str = ""
    negated: bool = False
    moves: tuple[cst.Call, ...] = ()
    unread: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class LossScale:
    """How the source chooses its loss scale.

    `static` is a number, `name` what the file calls it there, `runtime` an expression whose value is a number, a
    numeric string, "dynamic" or None, or with `is_number` a number alone. With neither, the scale is dynamic; it is,
    too, where a test `dynamic_when` holds. `initial`, `growth_interval`, `growth_factor`, `minimum` and `maximum` are
    for a dynamic scale; they are expressions of the file. Where a test `used_when` does not hold, there is no loss
    scale, though there is mixed precision.
    """

    static: float | None = None
    name: cst.BaseExpression | None = None
    runtime: cst.BaseExpression | None = None
    initial: cst.BaseExpression | None = None
    minimum: cst.BaseExpression | None = None
    maximum: cst.BaseExpression | None = None
    dynamic_when: cst.BaseExpression | None = None
    used_when: cst.BaseExpression | None = None
    growth_interval: cst.BaseExpression | None = None
    growth_factor: cst.BaseExpression | None = None
    is_number: bool = False


@dataclasses.dataclass(eq=False)
class Setup:
    """Where the source turns mixed precision on for some models and optimizers.

    `aliases` are the assignments that remain of it: pairs of target and value that are not one object
    under one name. `conditions` must all hold for it to be on, besides the guards around it. With `stays`, the
    statement is none of the source form's own (it builds an optimizer), and is left as it is.
    """

    statement: Statement
    call: cst.Call
    models: list[cst.BaseExpression]
    optimizers: list[cst.BaseExpression]
    aliases: list[tuple[cst.BaseExpression, cst.BaseExpression]]
    conditions: list[Condition]
    loss_scale: LossScale
    always_off: bool = False
    level: str | None = None
    stays: bool = False


@dataclasses.dataclass(eq=False)
class Guard:
    """An `if` that says whether mixed precision is on, around a piece of the source form.

    `arm` is the arm that holds the mixed-precision code, `plain` the other one, where there is one.
    """

    statement: Statement
    arm: str
    plain: Block | None
    formula: Formula

    @property
    def test(self) -> cst.BaseExpression:
        assert isinstance(self.statement.node, cst.If)
        return self.statement.node.test


@dataclasses.dataclass(eq=False)
class Backward:
    """A backward of a loss that is scaled, or will be.

    `call` is the source form's own: `amp.scale_loss(loss, optimizer)`, `optimizer.backward(loss)`, or a plain
    `loss.backward()`. `statement` holds it, `loss` is the unscaled loss, and `optimizers` are those whose gradients it
    makes. `block` is there where the call only scales, for the statements of a `with`. `arguments` are what the
    backward itself is given.
    """

    statement: Statement
    call: cst.Call
    loss: cst.BaseExpression
    optimizers: list[cst.BaseExpression]
    block: ScaledBlock | None = None
    arguments: list[cst.Arg] = dataclasses.field(default_factory=list)
    guard: Guard | None = None
    collapsed: bool = False


@dataclasses.dataclass(eq=False)
class ScaledBlock:
    """`with amp.scale_loss(loss, optimizer) as scaled:`, the `item` of it, and what reads `scaled` inside (`uses`)."""

    item: cst.WithItem
    scaled: str
    uses: list[cst.Name]


@dataclasses.dataclass(eq=False)
class ParameterAccess:
    """`amp.master_params(optimizer)`: the parameters that an optimizer updates.

    With `clips`, the call is the form's own clip of their gradients, `optimizer.clip_master_grads(max_norm)`.
    """

    node: cst.Call
    optimizer: cst.BaseExpression
    statement: Statement
    replacement: str | None = None
    clips: bool = False


@dataclasses.dataclass(frozen=True)
class FormatTest:
    """A test whether a `state` is in a checkpoint.

    `node` says that it is there, or, with `says_missing`, that it is not; `is_negated` right behind a `not`.
    """

    node: cst.BaseExpression
    state: cst.BaseExpression
    is_negated: bool = False
    says_missing: bool = False


@dataclasses.dataclass(eq=False)
class StateAccess:
    """A read (`save`) or a load of the scaler's state for a checkpoint.

    `state` is what is loaded, `format_test` the test around it that asks whether it is there.
    """

    node: cst.Call
    statement: Statement
    state: cst.BaseExpression | None
    format_test: FormatTest | None = None


@dataclasses.dataclass(eq=False)
class AddedState:
    """Where the scaler's state joins that of `optimizer` in a checkpoint that held none, under `key`.

    It is saved after the entry `saved_in` (of a dict display, of `dict(...)`, or an assignment to an element), or
    loaded from `checkpoint` after `statement`, if it is there.
    """

    statement: Statement
    optimizer: cst.BaseExpression
    key: str
    saved_in: cst.DictElement | cst.Arg | cst.Assign | None = None
    checkpoint: cst.BaseExpression | None = None


@dataclasses.dataclass(eq=False)
class ScaleAccess:
    """A read of the current loss scale."""

    node: cst.BaseExpression
    statement: Statement


@dataclasses.dataclass(eq=False)
class SkipRead:
    """A question whether the step that `optimizer` just made was skipped; without one, whether the only step of the
    function was taken.
    """

    node: cst.BaseExpression
    statement: Statement
    optimizer: cst.BaseExpression | None = None


@dataclasses.dataclass(eq=False)
class HandedOn:
    """The source's handle as a value that travels: returned, an entry of a dict, or given to code that only saves and
    loads its state (`is_saved`). The scaler takes its place.
    """

    node: cst.BaseExpression
    statement: Statement
    is_saved: bool


@dataclasses.dataclass(eq=False)
class Lowering:
    """The plain program inside of a source form: what of the form goes, and what stands in its place (rule G3).

    `receivers` are calls of which what they are called on remains, `arguments` those of which the first argument does,
    `renamed` attributes with their new name, `dropped` arguments that go, `floated` expressions that get `.float()`,
    `arms` the one arm that stays of an `if`. A mark is a statement that stands beside another one in the plain program
    and says, by the conditions around it, when the form was in use: `marks` have the test to put around it, where it
    has one of its own. `scales` stand where a loss was multiplied by a loss scale, with that scale, and `edited` are
    each `if` with an `else`, an arm of which changes. `added` is code after a statement.
    """

    removed: list[Statement] = dataclasses.field(default_factory=list)
    receivers: list[cst.Call] = dataclasses.field(default_factory=list)
    arguments: list[cst.Call] = dataclasses.field(default_factory=list)
    renamed: dict[cst.Attribute, str] = dataclasses.field(default_factory=dict)
    replaced: dict[cst.BaseExpression, str] = dataclasses.field(default_factory=dict)
    dropped: dict[cst.Call, cst.Arg] = dataclasses.field(default_factory=dict)
    floated: list[cst.Call] = dataclasses.field(default_factory=list)
    arms: dict[Statement, str] = dataclasses.field(default_factory=dict)
    marks: list[tuple[Statement, str | None]] = dataclasses.field(default_factory=list)
    scales: list[tuple[Statement, str]] = dataclasses.field(default_factory=list)
    edited: list[Statement] = dataclasses.field(default_factory=list)
    added: list[tuple[Statement, str]] = dataclasses.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, field.name) for field in dataclasses.fields(self))


@dataclasses.dataclass(frozen=True, eq=False)
class CastFunction:
    """A function whose arguments the source form casts, to `dtype` ("float32", "half"), or the "backward" of one.

    `node` is the decorator or call that says so. `around` is the function in such a call; `adds` and `goes_from` are
    the functions that get a decorator, or lose this one without another in its place.
    """

    node: cst.BaseExpression
    dtype: str
    around: cst.BaseExpression | None = None
    adds: Function | None = None
    goes_from: Function | None = None


@dataclasses.dataclass(eq=False)
class Recognition:
    """Everything of one source form that a front end found in the files of a unit; `form` is its code.

    With a `lowering`, it is what makes the plain program; the rest is found in that program, where marks say when
    mixed precision is on.

    `modules` are the dotted names of what the form consists of: imports of them go. `received` are the names that take
    up a handle that is handed on, `floats` what is cast to float32 natively, `absent` the reads of the handle where it
    is None, and `settled` the tests of it that are true now. `savers` are functions and classes of other files that
    save or load the optimizer's state, by name. `replaced` are expressions of the form with what stands in their place
    natively. `evaluates` tells whether forwards without gradients were in mixed precision as well,
    `is_proven` whether the source shows that its models and losses survive half precision, `is_scaled` whether it
    scales its losses itself, `casts_models` whether the code of the models has to be read for what was there for half
    weights. `apart` are backwards that stay as they are, whose gradients no step may take.
    """

    form: str
    modules: tuple[str, ...] = ()
    evaluates: bool = True
    is_proven: bool = True
    is_scaled: bool = True
    casts_models: bool = False
    setups: list[Setup] = dataclasses.field(default_factory=list)
    backwards: list[Backward] = dataclasses.field(default_factory=list)
    apart: list[Statement] = dataclasses.field(default_factory=list)
    parameters: list[ParameterAccess] = dataclasses.field(default_factory=list)
    saves: list[StateAccess] = dataclasses.field(default_factory=list)
    loads: list[StateAccess] = dataclasses.field(default_factory=list)
    added: list[AddedState] = dataclasses.field(default_factory=list)
    savers: list[str] = dataclasses.field(default_factory=list)
    scale_reads: list[ScaleAccess] = dataclasses.field(default_factory=list)
    skip_reads: list[SkipRead] = dataclasses.field(default_factory=list)
    handed: list[HandedOn] = dataclasses.field(default_factory=list)
    received: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    absent: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    settled: list[cst.CSTNode] = dataclasses.field(default_factory=list)
    no_casts: list[cst.Call] = dataclasses.field(default_factory=list)
    casts: list[CastFunction] = dataclasses.field(default_factory=list)
    floats: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    carriers: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    imports: list[Statement] = dataclasses.field(default_factory=list)
    removed: list[Statement] = dataclasses.field(default_factory=list)
    replaced: dict[cst.BaseExpression, str] = dataclasses.field(default_factory=dict)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    sites: list[cst.CSTNode] = dataclasses.field(default_factory=list)
    lowering: Lowering | None = None


__all__ = [
    "AddedState",
    "Backward",
    "Block",
    "CastFunction",
    "Class",
    "Condition",
    "FormatTest",
    "Function",
    "Guard",
    "HandedOn",
    "LossScale",
    "Lowering",
    "ParameterAccess",
    "Recognition",
    "ScaleAccess",
    "ScaledBlock",
    "Setup",
    "StateAccess",
]
