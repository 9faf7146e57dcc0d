"""Half weights that are in float32 for the step alone, as models of CLIP are trained:

    clip.model.convert_weights(model)           model.float()
    ...
    loss.backward()
    convert_models_to_fp32(model)               goes
    optimizer.step()
    clip.model.convert_weights(model)           goes: what is in float32 stays so

A function counts by what it does to the weights; CLIP's own is known by its name where its file is not in the unit.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction, source_key
from amp_migrate.facts.object import is_field_of
from amp_migrate.facts.tree import Function, Statement, called_name, targets, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.plan.scaler.enabling import enclosing_guards
from amp_migrate.rules.half import UNKNOWN_TRAINER, WEIGHTS_CAST_OTHERWISE
from amp_migrate.sources.half.kept import Kept
from amp_migrate.sources.half.modules import Modules

_NARROWS = "convert_weights"  # of CLIP, whose models are loaded in half
_ASKED = frozenset("isinstance hasattr getattr print apply parameters named_parameters modules".split())


class FloatSteps:
    """The pairs of casts around steps; `statements` are those with a cast, `functions` those that do nothing else."""

    def __init__(self, facts: Facts, modules: Modules, kept: Kept) -> None:
        self.facts = facts
        self.modules = modules
        self.kept = kept
        self.functions = {one for one in facts.tree.functions if self._casts(one, "float") or self._casts(one, "half")}
        self.pairs = [pair for one in facts.tree.all_statements() if (pair := self._pair(one)) is not None]
        inside = {one for pair in self.pairs for one in pair}
        self.starts = [
            one
            for one in facts.tree.all_statements()
            if self.pairs and one not in inside and one.function not in self.functions and self._narrowed(one)
            if not kept.is_after_training(one)  # an export
        ]

    @property
    def statements(self) -> list[Statement]:
        return [*(one for pair in self.pairs for one in pair), *self.starts]

    def calls(self) -> Iterator[cst.Call]:
        """The calls that cast, all of which go."""
        for statement in self.statements:
            yield _call(statement)

    def lower(self, lowering: Lowering) -> None:
        """Take the pairs out, and have the model in float32 from the start. Raises Refusal where that is no place."""
        self._check_others()
        for widens, narrows in self.pairs:
            lowering.removed += [widens, narrows]
            lowering.marks.append((self._decided_at(narrows), None))
        for statement in self.starts:
            lowering.replaced[_call(statement)] = f"{self._text(statement)}.float()"
        for _, narrows in self.pairs:
            if not any(self._is_always_cast(narrows, start) for start in self.starts):
                self._add_cast(narrows, lowering)

    # -- what is cast -----------------------------------------------------------------------------------

    def _pair(self, statement: Statement) -> tuple[Statement, Statement] | None:
        """A cast to float32, and the cast back in the same block, with a step in between."""
        model = self._given(statement, "float")
        if model is None:
            return None
        steps = False
        for later in statement.next_siblings():
            back = self._given(later, "half")
            if back is not None and source_key(back) == source_key(model):
                return (statement, later) if steps else None
            steps = steps or any(called_name(call) == "step" for call in self.facts.tree.calls(later))
        return None

    def _narrowed(self, statement: Statement) -> bool:
        model = self._given(statement, "half")
        return model is not None and self.modules.is_module(model)

    def _given(self, statement: Statement, cast: str) -> cst.BaseExpression | None:
        """The model that a statement casts by a call of such a function."""
        node = statement.node
        call = node.value if isinstance(node, cst.Expr) else None
        if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star or call.args[0].keyword:
            return None
        function = self.facts.objects.called_function(call)
        known = self._casts(function, cast) if function else cast == "half" and called_name(call) == _NARROWS
        return call.args[0].value if known else None

    def _casts(self, function: Function, name: str) -> bool:
        """True where all that a function does is to cast weights in place: `p.data = p.data.half()`."""
        if function.is_module or function.is_method or len(function.parameters) != 1:
            return False
        casts = False
        for part in walk(function.node):
            if isinstance(part, cst.Call) and called_name(part) not in _ASKED | {name}:
                return False
            if isinstance(part, (cst.AugAssign, cst.Del, cst.With, cst.While)) or _gives_back(part):
                return False
            if isinstance(part, cst.Assign) and not isinstance(part.targets[0].target, cst.Name):
                if not _casts_data(part, name):
                    return False
                casts = True
        return casts

    def _check_others(self) -> None:
        """Raises Refusal where weights may become half in yet another way, before the training is over."""
        known = self.statements
        for function in (one for one in self.functions if self._casts(one, "half")):
            uses: list[cst.CSTNode] = [site.call for site in self.facts.calls.callers(function)]
            for use in (*uses, *self.facts.calls.value_uses(function)):
                statement = self.facts.tree.statement_of(use)
                if statement in known or statement.function in self.functions or self.kept.is_after_training(statement):
                    continue
                raise Refusal(WEIGHTS_CAST_OTHERWISE, use, f"{self.facts.text(use)} casts a module of the model")

    # -- where the model is cast instead ----------------------------------------------------------------

    def _has_other_arm(self, statement: Statement) -> bool:
        outer = self.facts.tree.owner_of(statement.block)
        return outer is not None and isinstance(outer.node, cst.If) and len(outer.blocks) == 2

    def _is_always_cast(self, step: Statement, start: Statement) -> bool:
        """True where the start has the model of a step, whenever that is taken: nothing decides about it, the step is
        under the same test, or the other arm of that has float32.
        """
        model, cast = _call(step).args[0].value, _call(start).args[0].value
        ours, theirs = self.facts.objects.objects(model), self.facts.objects.objects(cast)
        if not any(one in theirs or is_field_of(one, theirs) for one in ours):
            return False
        is_as_often = self._is_in_any_case(start) or self._decides_about_both(start, step)
        return is_as_often and self._comes_first(step, model, start)

    def _comes_first(
        self, step: Statement, model: cst.BaseExpression, start: Statement, seen: frozenset[Function] = frozenset()
    ) -> bool:
        """True for a cast between what makes the model and its step, for one by the function that makes it, and for one
        before each call that a function with the step is handed the model by, or by the constructor of what has both.
        """
        makers = self._makers(step.function, model)
        if start.function is step.function:
            return start.order < step.order and all(one.order < start.order for one in makers)
        if self._is_kept_by_object(step.function, model, start):
            return True
        sites = self._handed_by(step.function, model)
        if sites and not makers:
            seen |= {step.function}
            return all(
                site.function not in seen and self._comes_first(site, given, start, seen) for site, given in sites
            )
        returns = (one for one in start.function.descendants() if isinstance(one.node, cst.Return))
        if len(makers) != 1 or len(makers[0].path()) > 1 or any(one.order < start.order for one in returns):
            return False
        return any(site.callee is start.function for site in self.facts.calls.in_statement(makers[0]))

    def _is_in_any_case(self, start: Statement) -> bool:
        """True where nothing decides about a cast, or the other arm has the model in float32 as well."""
        if len(start.path()) == 1:
            return True
        if len(start.path()) > 2 or not self._has_other_arm(start):
            return False
        outer = start.path()[0]
        wanted = f"{self._text(start)}.float()"
        other = next(block for block in outer.blocks if block is not start.block)
        return any(self.facts.text(one.node).strip().rstrip(";") == wanted for one in other.statements)

    def _is_kept_by_object(self, function: Function, model: cst.BaseExpression, start: Statement) -> bool:
        """True where a constructor makes and casts `self.model`, which a method steps and none makes another time."""
        owner = function.owner
        if owner is None or start.function is not owner.methods.get("__init__") or not isinstance(model, cst.Attribute):
            return False
        if source_key(model) != source_key(_call(start).args[0].value):
            return False
        makers = [one for method in owner.methods.values() for one in self._makers(method, model)]
        return bool(makers) and all(one.function is start.function and one.order < start.order for one in makers)

    def _handed_by(self, function: Function, model: cst.BaseExpression) -> list[tuple[Statement, cst.BaseExpression]]:
        """The calls that give a function a model by its parameter; none where one is not known."""
        parameter = next((one for one in function.parameters if source_key(one.name) == source_key(model)), None)
        callers = self.facts.calls.callers(function)
        if parameter is None or self.facts.calls.value_uses(function) or self.facts.is_used_outside(function):
            return []
        sites = [(one.statement, self.facts.objects.argument(one.call, function, parameter)) for one in callers]
        known = [(site, arg.value) for site, arg in sites if arg is not None]
        return known if len(known) == len(callers) else []

    def _decides_about_both(self, start: Statement, step: Statement) -> bool:
        """True where a cast at the start stands under tests that hold wherever the step is taken."""
        guards = enclosing_guards(self.facts, start)
        cast, taken = (
            conjunction([guard.formula for guard in ones]) for ones in (guards, enclosing_guards(self.facts, step))
        )
        return len(guards) == len(start.path()) - 1 and self.facts.conditions.implies(taken, cast)

    def _decided_at(self, narrows: Statement) -> Statement:
        """Where mixed precision is decided about: outside of an `if` that decides about the steps as well, all of
        which are in float32: `if (i + 1) % accumulate == 0:`.
        """
        if not all(self._is_in_pair(one) for one in self._steps()):
            return narrows
        place = narrows
        for outer in reversed(narrows.path()[:-1]):
            if not isinstance(outer.node, cst.If) or len(outer.blocks) > 1:
                break
            place = outer
        return place

    def _steps(self) -> Iterator[Statement]:
        """The steps of the optimizers that step in a pair."""
        steps = [
            (call.func.value, statement)
            for call, statement in self.facts.tree.every(cst.Call)
            if called_name(call) == "step" and isinstance(call.func, cst.Attribute)
        ]
        stepped = [receiver for receiver, statement in steps if self._is_in_pair(statement)]
        texts = {source_key(one) for one in stepped}
        objects = {one for receiver in stepped for one in self.facts.objects.objects(receiver)}
        for receiver, statement in steps:
            if source_key(receiver) in texts or objects & self.facts.objects.objects(receiver):
                yield statement

    def _is_in_pair(self, statement: Statement) -> bool:
        return any(
            widens.function is statement.function and widens.order < statement.order < narrows.order
            for widens, narrows in self.pairs
        )

    def _makers(self, function: Function, model: cst.BaseExpression) -> list[Statement]:
        """The statements of a function that give the model its name."""
        return [one for one in function.descendants() if _binds(one.node, model)]

    def _add_cast(self, step: Statement, lowering: Lowering) -> None:
        """`model.float()`, after what makes the model."""
        model = _call(step).args[0].value
        makers = self._makers(step.function, model)
        text = f"{self.facts.text(model)}.float()"
        if len(makers) != 1 or len(makers[0].path()) > 1 or makers[0].order > step.order:
            message = f"no place for {text} is found: where the model comes from is not seen"
            raise Refusal(UNKNOWN_TRAINER, step.node, message)
        if (makers[0], text) not in lowering.added:
            lowering.added.append((makers[0], text))

    def _text(self, statement: Statement) -> str:
        return self.facts.text(_call(statement).args[0].value)


def _call(statement: Statement) -> cst.Call:
    assert isinstance(statement.node, cst.Expr) and isinstance(statement.node.value, cst.Call)
    return statement.node.value


def _gives_back(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Return) and part.value is not None


def _casts_data(node: cst.Assign, name: str) -> bool:
    """`p.data = p.data.half()`, of weights or of their gradients."""
    target, value = node.targets[0].target, node.value
    if len(node.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value != "data":
        return False
    if not isinstance(value, cst.Call) or value.args or called_name(value) != name:
        return False
    return isinstance(value.func, cst.Attribute) and source_key(value.func.value) == source_key(target)


def _binds(node: cst.CSTNode, name: cst.BaseExpression) -> bool:
    """True for `model, preprocess = clip.load(...)`."""
    return isinstance(node, cst.Assign) and any(source_key(target) == source_key(name) for target in targets(node))
