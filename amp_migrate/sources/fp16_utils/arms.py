"""The plain program inside of a training with `FP16_Optimizer` (rule G3).

    if args.fp16:                                                  optimizer = BertAdam(groups, lr=args.lr)
        optimizer = FusedAdam(groups, lr=args.lr)                  if args.fp16:
        optimizer = FP16_Optimizer(optimizer)                          optimizer = FP16_Optimizer(optimizer)
    else:                                                  =>
        optimizer = BertAdam(groups, lr=args.lr)
    ...
    if args.fp16:                                                  optimizer.backward(loss)
        optimizer.backward(loss)
    else:
        loss.backward()

Every `if` with a part of the form in one arm keeps the other arm. What is left of the form are wrapped optimizers,
with the conditions around them, and the backwards that they make.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import differentiated, is_backward_of_torch
from amp_migrate.facts.conditions import Formula, negated, negation, source_key
from amp_migrate.facts.dataflow import Path, overlaps, path_of, reads, writes
from amp_migrate.facts.reaching import stands_for
from amp_migrate.facts.tree import Block, Class, Statement, called_name, targets, walk
from amp_migrate.findings import Finding, Refusal
from amp_migrate.plain_attributes import bare
from amp_migrate.plan.model import Lowering
from amp_migrate.plan.purity import only_looks, only_says
from amp_migrate.rules.fp16_utils import UNKNOWN_FP16_USE
from amp_migrate.sources.fp16_utils.casts import Casts
from amp_migrate.sources.fp16_utils.differences import Differences, sets_learning_rate
from amp_migrate.sources.fp16_utils.guarded_masters import GuardedMasters
from amp_migrate.sources.fp16_utils.half_alone import float_parts
from amp_migrate.sources.fp16_utils.masters import Masters
from amp_migrate.sources.fp16_utils.names import (
    METHODS,
    OPTIMIZERS,
    form_name,
    is_backward,
    is_inside_copy,
    is_wrapper,
    makes_wrapper,
    own_class,
    prefixed_states,
    program_statements,
)
from amp_migrate.sources.fp16_utils.overflow import lost_questions, says_never, shared_questions, tells_overflow
from amp_migrate.sources.fp16_utils.trained_by_hand import trained_by_hand
from amp_migrate.sources.fp16_utils.wrappers import marked, wrapped
from amp_migrate.sources.scaled_by_hand import divided_in_place

_ABOUT_PRECISION = re.compile(r"fp16|half|mixed|precision|amp\b|float16", re.IGNORECASE)


class Arms:
    """Finds the arms that go, and writes them down as a Lowering."""

    def __init__(self, facts: Facts, lowering: Lowering) -> None:
        self.facts = facts
        self.lowering = lowering
        self.findings: list[Finding] = []
        self._differences = Differences(facts, self.findings)
        self.refusals: list[Refusal] = []
        self._gone: set[Statement] = set()
        self._masters = GuardedMasters(facts, lowering)
        self._statements = program_statements(facts)
        self.setups = [one for one in self._statements if makes_wrapper(facts, one)]
        self.casts = Casts(facts, lowering, self._statements)
        self._settled: set[Statement] = set()
        # What is inside of another comes after it: the inner conditions are known before the outer ones.
        self._on = [formula for one in reversed(self._statements) for formula in self._precision_formulas(one)]

    def lower(self) -> None:
        for statement in reversed(self._statements):  # what is inside of another comes after it
            if isinstance(statement.node, cst.If):
                try:
                    self._if(statement)
                except Refusal as refusal:
                    self.refusals.append(refusal)
        self._differences.report_rates()
        for statement in self._statements:
            if not self._is_gone(statement):
                self._choices(statement)
                if isinstance(statement.node, cst.If):
                    self._only_in_precision(statement)
                    self._says_what_goes(statement)
        self.casts.lower(self._is_gone, self.is_guarded)
        self.casts.lower_accessors(self._statements)
        self.refusals += float_parts(self.facts, self._statements)
        self.findings += prefixed_states(self.facts, self._statements, self.casts.prefixes())
        try:
            self._differences.check_names(self._statements, self._is_gone)
        except Refusal as refusal:
            self.refusals.append(refusal)
        try:
            self._guard_setups()
            self._own_classes()
            self._masters.wrap()
            self.findings += self._masters.keep_lists(self._is_gone)
            Masters(self.facts, self.lowering, [one for one in self._statements if not self._is_gone(one)]).lower()
        except Refusal as refusal:
            self.refusals.append(refusal)
        self.refusals += trained_by_hand(self.facts, self.casts, self.lowering, self._statements, self._is_gone)

    # -- what there is ----------------------------------------------------------------------------------

    def _calls(self, block: Block) -> Iterator[cst.Call]:
        """The calls in a block, without what goes anyway."""
        return (call for one in block.descendants() if not self._is_gone(one) for call in self.facts.tree.calls(one))

    def _form_backwards(self, block: Block) -> list[cst.Call]:
        return [call for call in self._calls(block) if is_backward(self.facts, call)]

    def _plain_backwards(self, block: Block) -> list[cst.Call]:
        return [
            call
            for call in self._calls(block)
            if called_name(call) == "backward"
            and isinstance(call.func, cst.Attribute)
            and call not in self.lowering.replaced
            and not is_backward(self.facts, call)
        ]

    def _holds_setup(self, block: Block) -> bool:
        return any(setup.inside(one) for setup in self.setups for one in block.statements if not self._is_gone(setup))

    def _holds_form(self, block: Block) -> bool:
        return (
            self._holds_setup(block)
            or any(is_backward(self.facts, call) or called_name(call) in METHODS for call in self._calls(block))
            or self.casts.are_in(block, self._is_gone)
            or self._holds_masters(block)
        )

    def _holds_masters(self, block: Block) -> bool:
        return any(self._masters.are_in(one) for one in block.descendants() if not self._is_gone(one))

    def _is_gone(self, statement: Statement) -> bool:
        return any(outer in self._gone for outer in statement.path())

    # -- which conditions are about precision -----------------------------------------------------------

    def _precision_formulas(self, statement: Statement) -> Iterator[Formula]:
        """The condition of an `if` that chooses between both ways of a backward, or of making an optimizer."""
        if not isinstance(statement.node, cst.If):
            return
        arms = _arms_of(statement)
        for arm, block in arms.items():
            other = next((one for one in arms.values() if one is not block), None)
            if (other is None or not self._holds_form(other)) and self._is_way_of_precision(statement, block, other):
                self._settled.update(block.statements)
                yield self._formula(statement, arm)

    def _is_way_of_precision(self, statement: Statement, block: Block, other: Block | None) -> bool:
        assert isinstance(statement.node, cst.If)
        if not self._holds_form(block):
            return False
        is_named = _ABOUT_PRECISION.search(source_key(statement.node.test)) is not None
        if self._is_settled(block) and not is_named:
            return False  # `elif args.task == "regression":` around `if args.fp16:` chooses something else
        if all(self._is_of_form_alone(one) for one in block.statements):
            return True
        if other is None:
            return is_named
        if self._form_backwards(block) or (self._holds_masters(block) and self._plain_backwards(block)):
            return bool(self._plain_backwards(other))
        if self._holds_setup(block):
            return any(self._is_made_in(self.facts.text(target), other) for target in self._targets(block))
        return is_named

    def _is_settled(self, block: Block) -> bool:
        """True where all that an arm has of the form is under conditions of its own that say when to use it."""
        of_form = [
            inner
            for inner in block.descendants()
            if inner in self.setups
            or self.casts.is_at(inner)
            or self._makes_backward(inner)
            or self._masters.are_in(inner)
        ]
        return all(any(outer in self._settled for outer in inner.path()) for inner in of_form)

    def _makes_backward(self, statement: Statement) -> bool:
        calls = self.facts.tree.calls(statement)
        return any(is_backward(self.facts, call) or called_name(call) in METHODS for call in calls)

    def _is_of_form_alone(self, statement: Statement) -> bool:
        """True for a statement that is nothing without the form."""
        if isinstance(statement.node, (cst.If, cst.Try)):
            return all(self._is_of_form_alone(one) for block in statement.blocks for one in block.statements)
        if isinstance(statement.node, (cst.Import, cst.ImportFrom, cst.Raise)) or statement in self.setups:
            return True
        is_backward_alone = isinstance(statement.node, cst.Expr) and self._makes_backward(statement)
        return is_backward_alone or self._masters.are_in(statement) or self.casts.is_only_cast(statement)

    def _is_plumbing(self, statement: Statement) -> bool:
        """True for what the plain arm needs nothing in place of."""
        calls = [called_name(call) for call in self.facts.tree.calls(statement)]
        has_gradients = "backward" in calls or "zero_grad" in calls or bool(divided_in_place(self.facts, statement))
        return has_gradients or self._is_of_form_alone(statement) or self.casts.is_at(statement)

    def _targets(self, block: Block) -> list[cst.BaseExpression]:
        """What the optimizers are bound to that an arm wraps."""
        return [
            setup.node.targets[0].target
            for setup in self.setups
            if isinstance(setup.node, cst.Assign) and any(setup.inside(one) for one in block.statements)
        ]

    def _is_made_in(self, target: str, block: Block) -> bool:
        return any(
            isinstance(inner.node, cst.Assign)
            and any(self.facts.text(one.target) == target for one in inner.node.targets)
            for inner in block.descendants()
        )

    def _formula(self, statement: Statement, arm: str) -> Formula:
        assert isinstance(statement.node, cst.If)
        formula = self.facts.conditions.compile(statement.node.test)
        return formula if arm == "body" else negation(formula)

    def _is_on(self, formula: Formula) -> bool:
        """True for a condition that goes together with mixed precision: it follows from it, or asks for it."""
        conditions = self.facts.conditions
        return any(
            formula.variables.keys() & on.variables.keys()
            and (conditions.implies(on, formula) or conditions.implies(formula, on))
            for on in self._on
        )

    def is_guarded(self, statement: Statement) -> bool:
        """True for what runs in mixed precision only."""
        for outer in statement.path()[:-1]:
            arm = statement.arm_of(outer.node) if isinstance(outer.node, cst.If) else None
            if arm is not None and self._is_on(self._formula(outer, arm)):
                return True
        return False

    # -- ifs --------------------------------------------------------------------------------------------

    def _if(self, statement: Statement) -> None:
        arms = _arms_of(statement)
        of_form = [arm for arm, block in arms.items() if self._holds_form(block)]
        if len(of_form) == 1 and len(arms) == 2 and self._is_on(self._formula(statement, of_form[0])):
            plain = "else" if of_form[0] == "body" else "body"
            self._keep(statement, arms[plain], arms[of_form[0]])
        elif len(arms) == 1 and not of_form:
            ((arm, block),) = arms.items()
            has_backward = bool(self._plain_backwards(block))
            if self._is_on(negation(self._formula(statement, arm))) and (has_backward or self._floats(block)):
                self.lowering.arms[statement] = arm  # `if not args.fp16: loss.backward()`
                if has_backward:
                    self._scale(block, self._receiver_nearby(statement))

    def _keep(self, statement: Statement, plain: Block, other: Block) -> None:
        """The plain arm stays; optimizers that the other one wraps are wrapped after it."""
        backwards = self._form_backwards(other)
        kept = self._masters.optimizer_of(statement, plain, other)
        if kept is not None:
            self._scale(plain, self._seen_from(statement, kept))
        elif backwards:
            assert isinstance(backwards[0].func, cst.Attribute)
            self._scale(plain, self._seen_from(statement, backwards[0].func.value))
        code = [text for one in other.statements if (text := self._moved(one, plain, other)) is not None]
        self._differences.report(statement, plain, other, self._is_plumbing)
        asked = shared_questions(self.facts, plain, other)
        self.lowering.replaced |= {never: self.facts.text(question) for never, question in asked.items()}
        self.findings += lost_questions(self.facts, other, list(asked.values()))
        self.lowering.arms[statement] = plain.arm
        self._gone.update(other.statements)
        if code:
            assert isinstance(statement.node, cst.If)
            test = statement.node.test if other.arm == "body" else negated(statement.node.test)
            body = textwrap.indent("\n".join(code), "    ")
            moved = f"if {self.facts.text(test)}:\n{body}"
            module = cst.parse_module(moved)
            written = [path for part in walk(module) for one in targets(part) if (path := path_of(one)) is not None]
            read = Counter(reads(module)) - Counter(written)  # a target is no value that is read
            made = [path_of(target) for target in self._targets(other)]
            needed = [path for path in read if path not in made]
            given = [self.facts.text(one.node) for one in self._given(other, needed)]
            self.lowering.added += [(statement, one) for one in (*given, moved)]

    def _given(self, other: Block, needed: list[Path]) -> list[Statement]:
        """The statements of an arm that goes that make what is read where it is moved to: `scale = args.loss_scale`."""
        found: list[Statement] = []
        for one in reversed(other.statements):
            made = [path for inner in one.descendants() for path in writes(inner)]
            read = [path for path in needed if any(overlaps(path, written) for written in made)]
            if read and not any(setup.inside(one) for setup in self.setups):
                if not isinstance(one.node, cst.Assign) or not only_looks(one.node.value):
                    message = f"{'.'.join(read[0])} is made where mixed precision is on only"
                    raise Refusal(UNKNOWN_FP16_USE, one.node, message, case="arm")
                found.insert(0, one)
                needed = [*needed, *reads(one.node.value)]
        return found

    def _scale(self, plain: Block, optimizer: str) -> None:
        """`loss.backward()` is the optimizer's: it is known now which ones are scaled."""
        for call in self._plain_backwards(plain):
            losses, others = differentiated(self.facts, call), call.args
            if is_backward_of_torch(self.facts, call):
                others = [arg for arg in others[1:] if arg.keyword is not None]
                if len(losses) != 1 or len(others) != len(call.args) - 1 or call.args[0].star:
                    text = self.facts.text(call)
                    raise Refusal(UNKNOWN_FP16_USE, call, f"{text} is given several losses, or gradients of its own")
            texts = [self.facts.text(bare(losses[0])), *(_argument(self.facts, arg) for arg in others)]
            self.lowering.replaced[call] = f"{optimizer}.backward({', '.join(texts)})"

    def _receiver_nearby(self, statement: Statement) -> str:
        """The optimizer whose backward stands in the same function."""
        for other in self._statements:
            if other.function is statement.function:
                for call in self.facts.tree.calls(other):
                    if is_backward(self.facts, call) and isinstance(call.func, cst.Attribute):
                        return self._seen_from(statement, call.func.value)
        raise Refusal(UNKNOWN_FP16_USE, statement.node, "which optimizer this backward is for cannot be seen")

    def _seen_from(self, statement: Statement, optimizer: cst.BaseExpression) -> str:
        """An optimizer where a name of the arm that goes is not bound: `opt = self.optimizer; opt.backward(loss)`."""
        bound = stands_for(self.facts.names, optimizer, self.facts.tree.statement_of(optimizer))
        is_in_sight = self.facts.tree.statement_of(bound).block in [outer.block for outer in statement.path()]
        return self.facts.text(optimizer) if bound is optimizer or is_in_sight else self._seen_from(statement, bound)

    def _floats(self, block: Block) -> bool:
        """`model = model.float()`: as it is made, the model may be in half."""
        return any(called_name(call) == "float" and not call.args for call in self._calls(block))

    def _moved(self, statement: Statement, plain: Block, other: Block) -> str | None:
        """The code of a statement that wraps an optimizer, for after the plain arm: it wraps what that one made."""
        inside = [setup for setup in self.setups if setup.inside(statement)]
        if not inside:
            return None
        calls: dict[cst.CSTNode, cst.Call] = {}
        for setup in inside:
            assign = setup.node
            if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not isinstance(assign.value, cst.Call):
                message = f"{self.facts.text(assign)} wraps an optimizer inside of something else"
                raise Refusal(UNKNOWN_FP16_USE, assign, message)
            target = assign.targets[0].target
            if not self._is_made(target, plain, other):
                message = f"{self.facts.text(target)} is not made where mixed precision is off"
                raise Refusal(UNKNOWN_FP16_USE, target, message, case="arm")
            calls[assign.value] = marked(self.facts, assign.value, target)
        if any(isinstance(one.node, cst.Return) for one in plain.statements):
            raise Refusal(UNKNOWN_FP16_USE, statement.node, "the other arm returns its optimizer at once", case="arm")
        node = statement.node.visit(_Replacer(calls))
        assert isinstance(node, cst.CSTNode)
        if isinstance(node, cst.BaseCompoundStatement):
            node = node.with_changes(leading_lines=())
        return cst.Module([]).code_for_node(node).strip("\n")

    def _is_made(self, target: cst.BaseExpression, plain: Block, other: Block) -> bool:
        """True where a variable is bound when the plain arm is through."""
        variable = self.facts.names.variable_at(target)
        if variable is None:
            return isinstance(target, cst.Attribute)
        return any(
            binding.statement is not None and not any(binding.statement.inside(one) for one in other.statements)
            for binding in variable.bindings
        )

    # -- what mixed precision did on its own ------------------------------------------------------------

    def _only_in_precision(self, statement: Statement) -> None:
        """The schedule by hand of an optimizer that goes: the plain one has its own (`BertAdam(warmup=...)`)."""
        assert isinstance(statement.node, cst.If)
        body = _only_arm(statement)
        if not self._differences.other_optimizers or body is None or statement in self.lowering.arms:
            return
        if not self._is_on(self._formula(statement, body.arm)) or not self._sets_learning_rate(body):
            return
        self._check_unused(body)
        self._differences.report_rate(statement)
        self.lowering.removed.append(statement)
        self._gone.add(statement)

    def _says_what_goes(self, statement: Statement) -> None:
        """`logger.info("model.half() activated")` beside the cast: it goes along, for it would not be true any more."""
        assert isinstance(statement.node, cst.If)
        body = _only_arm(statement)
        if body is None or not only_looks(statement.node.test):
            return
        inside = body.statements
        said = [one for one in inside if only_says(one) and _ABOUT_PRECISION.search(self.facts.text(one.node))]
        cast = [one for one in inside if self.casts.is_only_cast(one)]
        if said and cast and len(said) + len(cast) == len(inside) and self._is_on(self._formula(statement, body.arm)):
            self.lowering.removed.append(statement)
            self._gone.add(statement)

    def _sets_learning_rate(self, body: Block) -> bool:
        """True for `lr = ...` and `for group in optimizer.param_groups: group["lr"] = lr`, and nothing else."""
        inside = [
            one for one in body.descendants() if not isinstance(one.node, (cst.For, cst.Pass)) and not only_says(one)
        ]
        rates = [one for one in inside if sets_learning_rate(one)]
        names = [one for one in inside if isinstance(one.node, cst.Assign) and _only_sets_names(one.node)]
        return bool(rates) and set(inside) == {*rates, *names}

    def _check_unused(self, body: Block) -> None:
        for one in body.statements:
            if isinstance(one.node, cst.Assign) and isinstance(one.node.targets[0].target, cst.Name):
                variable = self.facts.names.variable_at(one.node.targets[0].target)
                for load in variable.loads if variable is not None else ():
                    where = self.facts.tree.statement_of(load)
                    own = variable is not None and len(variable.bindings) > 1
                    if not own and not any(where.inside(inner) for inner in body.statements):
                        text = self.facts.text(load)
                        message = f"{text} is set for an optimizer that goes, and read here"
                        raise Refusal(UNKNOWN_FP16_USE, load, message)

    def _choices(self, statement: Statement) -> None:
        """`optimizer.optimizer if args.fp16 else optimizer` is its plain side. `optimizer.overflow if args.fp16 else
        False` asks whether a step was skipped, and none is without a scaler.
        """
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.IfExp):
                formula = self.facts.conditions.compile(part.test)
                sides = ((formula, part.body, part.orelse), (negation(formula), part.orelse, part.body))
                for on, side, plain in sides:
                    if self._is_on(on) and self._is_of_form(side) and not self._is_of_form(plain):
                        if not tells_overflow(side):
                            self.lowering.replaced[part] = self.facts.text(plain)
                        elif says_never(plain):
                            self.lowering.replaced[part] = self.facts.text(side)

    def _is_of_form(self, node: cst.BaseExpression) -> bool:
        """A cast, or something of the wrapper that no optimizer has."""
        if self.casts.is_cast(node):
            return True
        return isinstance(node, cst.Attribute) and (
            source_key(node).endswith((".optimizer.optimizer", "optimizer.optimizer", ".overflow", ".loss_scale"))
            or node.attr.value == "optimizer"
        )

    # -- copies of the class ----------------------------------------------------------------------------

    def _own_classes(self) -> None:
        """A wrapper class of the unit goes with the calls that make it, if nothing else needs it. A copy in a file of
        its own stays there with its helpers.
        """
        for setup in self.setups:
            for call in self.facts.tree.calls(setup):
                owner = own_class(self.facts, call.func)
                if owner is not None and not self._is_gone(setup) and setup not in self.lowering.removed:
                    self.lowering.replaced[call] = self.facts.text(marked(self.facts, call, wrapped(self.facts, call)))
        for owner in self.facts.tree.classes:
            if is_wrapper(owner) and not self._is_needed(owner):
                self.lowering.removed.append(self.facts.tree.statements[owner.node])

    def _is_needed(self, owner: Class) -> bool:
        """True for a class that something reads, apart from the calls that wrap an optimizer."""
        root_of = self.facts.tree.root_of
        if root_of(owner.node) not in {root_of(setup.node) for setup in self.setups}:
            return True
        variable = self.facts.names.variable_at(owner.node.name)
        if variable is None or variable.importers or self.facts.is_used_outside(owner.methods["__init__"]):
            return True
        statements = (self.facts.tree.statement_of(load) for load in variable.loads)
        return not all(one in self.setups or is_inside_copy(one.function) for one in statements)

    # -- a program that always wraps --------------------------------------------------------------------

    def _guard_setups(self) -> None:
        """Where the optimizer is wrapped in any case, and only the model's cast has a condition, it says when."""
        tests = {source_key(test): test for test in self.casts.tests}
        if len(tests) != 1 or any(self.is_guarded(setup) for setup in self.setups):
            return
        test = self.facts.text(next(iter(tests.values())))
        for setup in self.setups:
            node = setup.node
            if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call) and not self._is_gone(setup):
                if len(node.targets) != 1 or form_name(self.facts, node.value.func) not in OPTIMIZERS:
                    message = f"{self.facts.text(node)} wraps an optimizer inside of something else"
                    raise Refusal(UNKNOWN_FP16_USE, node, message)
                self.lowering.removed.append(setup)
                call, target, optimizer = node.value, node.targets[0].target, wrapped(self.facts, node.value)
                if self.facts.text(target) != self.facts.text(optimizer):
                    self.lowering.added.append((setup, f"{self.facts.text(target)} = {self.facts.text(optimizer)}"))
                made = f"{self.facts.text(target)} = {self.facts.text(marked(self.facts, call, target))}"
                self.lowering.added.append((setup, f"if {test}:\n    {made}"))


class _Replacer(cst.CSTTransformer):
    """Puts other calls in the place of some."""

    def __init__(self, calls: dict[cst.CSTNode, cst.Call]) -> None:
        super().__init__()
        self._calls = calls

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        return self._calls.get(original_node, updated_node)


def _arms_of(statement: Statement) -> dict[str, Block]:
    """The arms of an `if` in which something is done."""
    return {
        block.arm: block
        for block in statement.blocks
        if not all(isinstance(one.node, cst.Pass) for one in block.statements)
    }


def _only_arm(statement: Statement) -> Block | None:
    arms = list(_arms_of(statement).values())
    return arms[0] if len(arms) == 1 else None


def _only_sets_names(node: cst.Assign) -> bool:
    """True for `lr = args.lr * schedule(step)`: nothing but names are set."""
    return all(isinstance(target.target, cst.Name) for target in node.targets) or only_looks(node.value)


def _argument(facts: Facts, arg: cst.Arg) -> str:
    name = f"{arg.keyword.value}=" if arg.keyword is not None else ""
    return f"{arg.star}{name}{facts.text(arg.value)}"
