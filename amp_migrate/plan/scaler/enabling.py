"""When is mixed precision on? The guards of the source, and the `enabled` expression made of them.

if args.fp16:                                              guard of the setup
model, optimizer = amp.initialize(..., opt_level=args.level)
...
if args.fp16:                                              guard of the backward
with amp.scale_loss(...)                     =>  enabled=args.fp16 and args.level != "O0"
else:
loss.backward()
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction, negation, unknown
from amp_migrate.facts.program import never_mentioned
from amp_migrate.facts.tree import Block, Function, Statement, called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Backward, Condition, Guard, Recognition, Setup
from amp_migrate.plan.purity import is_unread, only_says
from amp_migrate.plan.scaler.carried import Hung
from amp_migrate.plan.scaler.given_guards import GivenGuard, given_guard, with_given
from amp_migrate.plan.scaler.latch import Latch, find_latch
from amp_migrate.rules.scaler import GUARDS_DIFFER

_HUNG = "the handle hangs on an object"


@dataclasses.dataclass(eq=False)
class Enabling:
    """The parts of `enabled`, their conjunction, and the guards around each setup.

    `always_off` is an O0 or `enabled=False` written down: no condition can turn it on. Where the handle hangs on an
    object (`is_hung`), the parts are those at the setup; everybody else has to ask the scaler. Guards that are
    parameters, given by some calls only, are in `given`; a `latch` is a flag that the setup puts up.
    """

    parts: list[Condition]
    formula: Formula
    always_off: bool
    setup_guards: dict[Setup, list[Guard]]
    is_hung: bool = False
    given: list[GivenGuard] = dataclasses.field(default_factory=list)
    latch: Latch | None = None


def find_guard(facts: Facts, found: Recognition, backward: Backward) -> Guard | None:
    """The `if` around a scaled backward whose other arm has the plain backward."""
    for statement in reversed(backward.statement.path()[:-1]):
        if not isinstance(statement.node, cst.If):
            continue
        arm = backward.statement.arm_of(statement.node)
        plain = next((block for block in statement.blocks if block.arm != arm), None)
        if arm is not None and plain is not None and _has_plain_backward(facts, found, plain):
            return _guard(facts, statement, arm)
    return None


def enclosing_guards(facts: Facts, statement: Statement) -> list[Guard]:
    """Every `if` around a statement in its function, the innermost first, with the arm it lies in."""
    guards = []
    for outer in reversed(statement.path()[:-1]):
        if isinstance(outer.node, cst.If):
            arm = statement.arm_of(outer.node)
            if arm is not None:
                guards.append(_guard(facts, outer, arm))
    return guards


def carrier_formulas(facts: Facts, found: Recognition, hung: Hung | None) -> dict[cst.BaseExpression, Formula]:
    """When each carrier has the module; an unknown condition where it depends on who calls or sets it.

    Raises Refusal where the module is handed to carriers under different conditions.
    """
    known = conjunction([guard.formula for guard in _carrier_guards(facts, found)])
    formulas = {}
    for carrier in found.carriers:
        function = _left_out_at_calls(facts, carrier)
        if hung is not None:
            formulas[carrier] = unknown(_HUNG)
        else:
            formulas[carrier] = unknown(("carrier", function)) if function is not None else known
    return formulas


def _left_out_at_calls(facts: Facts, carrier: cst.BaseExpression) -> Function | None:
    """The function with a carrier for a parameter that some calls leave out, or may give None."""
    variable = facts.names.variable_at(carrier)
    function = variable.scope.owner if variable is not None else None
    param = variable.bindings[0].node if variable is not None and variable.bindings else None
    if not isinstance(function, Function) or not isinstance(param, cst.Param):
        return None
    for call, _ in facts.objects.callers(function):
        arg = facts.objects.argument(call, function, param)
        if arg is None or isinstance(arg.value, cst.IfExp) or literal_value(arg.value) is None:
            return function
    return None


def _carrier_guards(facts: Facts, found: Recognition) -> list[Guard]:
    """What must hold for a carrier to have the module: the ifs around the import, and around `self.amp = amp`."""
    imports = [guard for statement in found.imports[-1:] for guard in enclosing_guards(facts, statement)]
    copies = [one for carrier in found.carriers if (one := _copy_of(facts, carrier)) is not None]
    guards = [[*enclosing_guards(facts, statement), *imports] for statement in copies] or [imports]
    first = conjunction([guard.formula for guard in guards[0]])
    for statement, other in zip(copies, guards, strict=False):
        if not facts.conditions.equivalent(first, conjunction([guard.formula for guard in other])):
            raise Refusal(GUARDS_DIFFER, statement.node, "apex's module is assigned under conditions that differ")
    return guards[0]


def _copy_of(facts: Facts, carrier: cst.BaseExpression) -> Statement | None:
    """The statement `self.amp = amp`, for the module on its right."""
    parent = facts.tree.parents.get(carrier)
    is_value = isinstance(parent, cst.Assign) and parent.value is carrier
    return facts.tree.statement_of(carrier) if is_value else None


def work_out_enabling(facts: Facts, found: Recognition, hung: Hung | None) -> Enabling:
    """The condition under which mixed precision is on, agreed on by setups and backwards.

    Raises Refusal where the guards of setup and backward cannot be shown to mean the same.
    """
    given: list[GivenGuard] = []
    backward_guard = _backward_guard(facts, found, given)
    setup_guards = {setup: _setup_guards(facts, found, setup, backward_guard) for setup in found.setups}
    parts = _agreed_parts(facts, found, setup_guards)
    always_off = bool(found.setups) and all(setup.always_off for setup in found.setups)
    if backward_guard is not None:
        together = conjunction([part.formula for part in parts])
        if not facts.conditions.implies(together, backward_guard.formula):
            parts = [*_as_conditions(facts, found, backward_guard), *parts]
        together = conjunction([part.formula for part in parts])
        guards = conjunction([guard.formula for guards in setup_guards.values() for guard in guards])
        # Where only the setup has a condition, apex raises without it: there is no training to keep.
        stricter = facts.conditions.implies(guards, backward_guard.formula)
        if not stricter and not facts.conditions.implies(backward_guard.formula, guards):
            its = next((guard for guards in setup_guards.values() for guard in guards), None)
            other = "amp.initialize, which has none"
            if its is not None:
                other = f"`{facts.text(its.test)}` on line {facts.line(its.statement.node)}, that of amp.initialize"
            message = f"`{facts.text(backward_guard.test)}`, the guard of this backward, cannot be shown to agree with "
            raise Refusal(GUARDS_DIFFER, backward_guard.statement.node, message + other)
    parts = _without_implied(facts, parts)
    if hung is not None:
        formula = conjunction([*(part.formula for part in parts), unknown(_HUNG)])
        return Enabling(parts, formula, always_off, setup_guards, is_hung=True)
    formula, latch = conjunction([part.formula for part in parts]), find_latch(facts, found, backward_guard)
    return Enabling(parts, formula, always_off, setup_guards, given=given, latch=latch)


def enabling_of(facts: Facts, found: Recognition, setup: Setup) -> Enabling:
    """The condition of one setup alone. Raises Refusal."""
    guards = _setup_guards(facts, found, setup, None)
    parts = _without_implied(facts, _parts_of(facts, found, setup, guards))
    return Enabling(parts, conjunction([part.formula for part in parts]), setup.always_off, {setup: guards})


def _has_plain_backward(facts: Facts, found: Recognition, block: Block) -> bool:
    scaled = [backward.statement for backward in found.backwards]
    for statement in block.statements:
        for inner in statement.descendants():
            if any(inner.inside(other) for other in scaled):
                continue
            for part in facts.tree.expressions(inner):
                if isinstance(part, cst.Attribute) and part.attr.value == "backward":
                    return True
    return False


def _guard(facts: Facts, statement: Statement, arm: str) -> Guard:
    assert isinstance(statement.node, cst.If)
    formula = facts.conditions.compile(statement.node.test)
    plain = next((block for block in statement.blocks if block.arm != arm), None)
    return Guard(statement, arm, plain, formula if arm == "body" else negation(formula))


def _backward_guard(facts: Facts, found: Recognition, given: list[GivenGuard]) -> Guard | None:
    """The guard that all guarded backwards share; None where a backward stands without one. Those that only some calls
    give are `given`.
    """
    guards = []
    for backward in found.backwards:
        backward.guard = find_guard(facts, found, backward)
        if backward.guard is not None:
            if (known := given_guard(facts, backward.guard, backward.statement)) is not None:
                given.append(known)
                backward.guard = with_given(backward.guard, known)
            guards.append(backward.guard)
        elif not _runs_with_setup(found, backward):
            return None
    for guard in guards[1:]:
        if not facts.conditions.equivalent(guards[0].formula, guard.formula):
            message = "the guards of the scaled backwards cannot be shown to agree"
            raise Refusal(GUARDS_DIFFER, guard.statement.node, message)
    return guards[0] if guards else None


def _runs_with_setup(found: Recognition, backward: Backward) -> bool:
    """True where a backward lies in the same arm of an `if` as a setup: what guards one guards both."""
    for outer in backward.statement.path()[:-1]:
        if isinstance(outer.node, cst.If):
            arm = backward.statement.arm_of(outer.node)
            if any(setup.statement.arm_of(outer.node) == arm for setup in found.setups):
                return True
    return False


def _setup_guards(facts: Facts, found: Recognition, setup: Setup, backward_guard: Guard | None) -> list[Guard]:
    """The ifs around a setup that are about mixed precision, not about the program's structure.

    None of those around a statement that only builds an optimizer is.
    """
    if setup.stays:
        return []
    statement: Statement | None = setup.statement
    guards: list[Guard] = []
    seen = set()
    while statement is not None:
        for guard in enclosing_guards(facts, statement):
            if _sets_up_either_way(found, guard, setup):
                guards.append(dataclasses.replace(guard, formula=conjunction([])))
            elif _is_about_precision(facts, found, guard, backward_guard):
                guards.append(guard)
        function = statement.function
        callers = facts.calls.callers(function)
        follow = len(callers) == 1 and function not in seen and backward_guard is not None
        statement = callers[0].statement if follow else None
        seen.add(function)
    return guards


def _sets_up_either_way(found: Recognition, guard: Guard, setup: Setup) -> bool:
    """True where the other arm of an `if` sets the same things up, with other arguments."""
    others = [other for other in found.setups if other.optimizers and other.always_off == setup.always_off]
    holder = guard.statement.node
    return guard.plain is not None and any(other.statement.arm_of(holder) == guard.plain.arm for other in others)


def _is_about_precision(facts: Facts, found: Recognition, guard: Guard, backward_guard: Guard | None) -> bool:
    if backward_guard is not None:
        if guard.formula.variables.keys() & backward_guard.formula.variables.keys():
            if facts.conditions.implies(backward_guard.formula, guard.formula):
                return True
    block = next(block for block in guard.statement.blocks if block.arm == guard.arm)
    return all(_belongs_to_setup(facts, found, statement) for statement in block.statements)


def _belongs_to_setup(facts: Facts, found: Recognition, statement: Statement) -> bool:
    """True for a block's statements that vanish with the setup, or only prepare it."""
    if statement in found.imports or statement in found.removed:
        return True
    if any(setup.statement is statement for setup in found.setups) or _takes_result_apart(facts, found, statement):
        return True
    if any(one.statement is statement for one in found.handed):
        return True
    if isinstance(statement.node, cst.Assign) and statement.node.value in found.carriers:
        return True
    if isinstance(statement.node, (cst.Try, cst.TryStar)):
        return any(inner in found.imports for inner in statement.descendants())
    if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
        return _imports_for_setups(facts, found, statement)
    if isinstance(statement.node, (cst.Assert, cst.Raise)) or _only_prepares(facts, statement):
        return True
    if isinstance(statement.node, (cst.If, cst.For)):
        return all(_belongs_to_setup(facts, found, inner) for block in statement.blocks for inner in block.statements)
    return False


def _takes_result_apart(facts: Facts, found: Recognition, statement: Statement) -> bool:
    """`model = pair[0]`, or `model, optimizer = pair`, of a pair that nothing but setups return."""
    node = statement.node
    if not isinstance(node, cst.Assign):
        return False
    is_tuple = all(isinstance(one.target, (cst.Tuple, cst.List)) for one in node.targets)
    pair = node.value.value if isinstance(node.value, cst.Subscript) else node.value if is_tuple else None
    variable = facts.names.variable_at(pair)
    setups = [setup.statement for setup in found.setups]
    return variable is not None and all(binding.statement in setups for binding in variable.bindings)


def _imports_for_setups(facts: Facts, found: Recognition, statement: Statement) -> bool:
    """`from masters import FP16_Optimizer` beside the setup, a copy of the class: nothing else reads the name."""
    setups = [setup.statement for setup in found.setups]
    variables = facts.names.scope_of(statement.function).variables.values()
    bound = [one for one in variables if any(binding.statement is statement for binding in one.bindings)]
    loads = [load for variable in bound for load in variable.loads]
    return bool(bound) and all(facts.tree.statement_of(load) in setups for load in loads)


def _only_prepares(facts: Facts, statement: Statement) -> bool:
    """`model.cuda()`, messages, and names that nothing reads."""
    if only_says(statement) or is_unread(facts, statement):
        return True
    call = statement.node.value if isinstance(statement.node, cst.Expr) else None
    return isinstance(call, cst.Call) and called_name(call) in ("cuda", "to")


def _as_conditions(facts: Facts, found: Recognition, guard: Guard) -> list[Condition]:
    """A guard as a part of `enabled`; a test of a carrier stands for the guards of the import. Raises Refusal where the
    guard names a value that is read elsewhere: the name would go with it.
    """
    named = (part for part in walk(guard.test) if isinstance(part, cst.NamedExpr))
    read = next((part for part in named if not facts.conditions.is_unread(part)), None)
    if read is not None:
        text = facts.text(read.target)
        raise Refusal(GUARDS_DIFFER, guard.test, f"this guard gives {text} its value, which is read elsewhere")
    test = facts.conditions.simplified(guard.test)
    carriers = [carrier for carrier in found.carriers if carrier in set(walk(test))]
    if not carriers:
        return [Condition(test, guard.formula, negated=guard.arm != "body")]
    held = facts.conditions.carriers[carriers[0]]
    if not facts.conditions.equivalent(guard.formula, held):
        raise Refusal(GUARDS_DIFFER, guard.test, "this guard tests apex's module together with something else")
    if held.variables.keys() == {_HUNG}:
        return []  # the scaler itself is the answer
    if not facts.conditions.equivalent(held, conjunction([outer.formula for outer in _carrier_guards(facts, found)])):
        message = "some callers leave apex's module out: the guard is not the same for all"
        raise Refusal(GUARDS_DIFFER, guard.test, message)
    return [
        Condition(outer.test, outer.formula, negated=outer.arm != "body")
        for outer in reversed(_carrier_guards(facts, found))
    ]


def _agreed_parts(facts: Facts, found: Recognition, setup_guards: dict[Setup, list[Guard]]) -> list[Condition]:
    """Guards and conditions of the first setup that trains; the others must ask for the same."""
    training = [setup for setup in found.setups if setup.optimizers] or found.setups
    if not training:
        return []
    if any(not setup.always_off for setup in training):
        training = [setup for setup in training if not (setup.always_off and _is_other_arm(setup, training))]
    wanted = [_parts_of(facts, found, setup, setup_guards[setup]) for setup in training]
    first = wanted[0]
    for setup, other in zip(training[1:], wanted[1:], strict=True):
        one, two = (conjunction([part.formula for part in parts]) for parts in (first, other))
        if not facts.conditions.equivalent(one, two) or setup.always_off != training[0].always_off:
            unmentioned = {one.node for one in never_mentioned(facts.tree, facts.names, facts.self_tests)}
            bystander = facts.tree.is_within(training[0].statement, unmentioned)
            place = (training[0] if bystander else setup).call
            raise Refusal(GUARDS_DIFFER, place, "the conditions of the trainings cannot be shown to agree")
    return first


def _is_other_arm(off: Setup, training: list[Setup]) -> bool:
    """True for an O0 beside a setup that is on: `if fp16: initialize(..., "O1") else: initialize(..., "O0")`."""
    holder = off.statement.block.owner
    return (
        holder is not None
        and isinstance(holder.node, cst.If)
        and any(setup.statement.inside(holder) and not setup.always_off for setup in training)
    )


def _parts_of(facts: Facts, found: Recognition, setup: Setup, guards: list[Guard]) -> list[Condition]:
    parts = [part for guard in reversed(guards) for part in _as_conditions(facts, found, guard)]
    return [*parts, *setup.conditions]


def _without_implied(facts: Facts, parts: list[Condition]) -> list[Condition]:
    """Leave out what the other parts imply anyway, the later ones first."""
    kept = list(parts)
    for part in reversed(parts):
        others = [other for other in kept if other is not part]
        if facts.conditions.constant(part.formula) is True or (
            others and facts.conditions.implies(conjunction([other.formula for other in others]), part.formula)
        ):
            kept = others
    return kept
