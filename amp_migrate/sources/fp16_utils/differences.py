"""What an arm that goes did, and the plain arm does not: another optimizer, a clip, a name that others read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.clips import is_clip
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.tree import Block, Statement, argument_value, called_name, targets, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding, Refusal
from amp_migrate.plan.purity import only_says
from amp_migrate.rules.fp16_utils import ARMS_DIFFERED, LEARNING_RATE_GOES, OTHER_OPTIMIZER, UNKNOWN_FP16_USE
from amp_migrate.rules.rule import Rule
from amp_migrate.sources.fp16_utils.names import CLIPS, OPTIMIZERS, form_name
from amp_migrate.sources.fp16_utils.wrappers import wrapped

Test = Callable[[Statement], bool]


class Differences:
    """Adds findings for pairs of arms; `other_optimizers` are the ifs that choose another optimizer."""

    def __init__(self, facts: Facts, findings: list[Finding]) -> None:
        self.facts = facts
        self.findings = findings
        self.other_optimizers: list[Statement] = []
        self._rates: list[Statement] = []

    def report(self, statement: Statement, plain: Block, other: Block, is_of_form: Test) -> None:
        """Compare the arms of an `if`, where `other` goes; `is_of_form` holds for what is nothing without the form."""
        made, now = self._made_optimizers(other), self._made_optimizers(plain)
        for target, calls in made.items():
            for one in calls if target in now else ():
                self._report_optimizer(statement, one, now[target])
                self._report_norm(one, now[target])
        self._report_clips(plain, other)
        if any(map(sets_learning_rate, other.descendants())) and not any(map(sets_learning_rate, plain.descendants())):
            self._rates.append(statement)
        self._report_rest(plain, other, is_of_form)

    def report_rates(self) -> None:
        """The schedules by hand that one arm had alone, now that it is known which optimizers go."""
        for statement in self._rates:
            self.report_rate(statement)

    def report_rate(self, statement: Statement) -> None:
        assert isinstance(statement.node, cst.If)
        rate = f"the learning rate that was set under {self.facts.text(statement.node.test)} goes"
        if self.other_optimizers:
            self._add(statement.node, LEARNING_RATE_GOES, f"{rate} with the optimizer that it was for")
        else:
            self._add(statement.node, ARMS_DIFFERED, f"{rate}: the other arm sets none")

    def _report_rest(self, plain: Block, other: Block, is_of_form: Test) -> None:
        """Calls that one arm has alone, for what they do."""
        ours = [call for one in plain.descendants() for call in self.facts.tree.calls(one)]
        for one in other.descendants():
            call = one.node.value if isinstance(one.node, cst.Expr) else None
            if isinstance(call, cst.Call) and not is_of_form(one) and not only_says(one):
                if not is_clip(self.facts, call) and not any(self._do_the_same(call, own) for own in ours):
                    text = self.facts.text(call)
                    self._add(call, ARMS_DIFFERED, f"{text} was done in mixed precision only, and goes")

    def _do_the_same(self, one: cst.Call, other: cst.Call) -> bool:
        """True for calls of one function, and of one method of one object, whatever they are given."""
        if source_key(one.func) == source_key(other.func):
            return True
        if not isinstance(one.func, cst.Attribute) or not isinstance(other.func, cst.Attribute):
            return False
        objects = self.facts.objects.objects(one.func.value) & self.facts.objects.objects(other.func.value)
        return called_name(one) == called_name(other) and bool(objects)

    def _report_optimizer(self, statement: Statement, gone: cst.Call, stay: list[cst.Call]) -> None:
        """Of several that the plain arm chooses from (`if args.from_scratch: ...`), all are named."""
        others = [one for one in stay if source_key(one.func) != source_key(gone.func)]
        if others:
            text = self.facts.text(gone.func)
            new = " or ".join(dict.fromkeys(self.facts.text(one.func) for one in stay))
            self._add(
                gone, OTHER_OPTIMIZER, f"mixed precision trained with {text}, and trains with {new} now, as without it"
            )
        if len(others) == len(stay):
            self.other_optimizers.append(statement)

    def _made_optimizers(self, block: Block) -> dict[str, list[cst.Call]]:
        """What an arm makes with parameters, also under conditions of its own, by the name that it is given. What is
        wrapped has the name of its wrapper.
        """
        made: dict[str, list[cst.Call]] = {}
        for one in block.descendants():
            node = one.node
            if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call) and node.value.args:
                value: cst.BaseExpression = node.value
                if form_name(self.facts, node.value.func) in OPTIMIZERS:
                    value = wrapped(self.facts, node.value)
                calls = [value] if isinstance(value, cst.Call) else made.pop(self.facts.text(value), [])
                if all(form_name(self.facts, call.func) is None and called_name(call)[:1].isupper() for call in calls):
                    for target in node.targets:
                        made.setdefault(self.facts.text(target.target), []).extend(calls)
        return made

    def _report_norm(self, gone: cst.Call, stay: list[cst.Call]) -> None:
        """FusedAdam of before September 2019 clipped by itself."""
        norm, others = argument_value(gone, "max_grad_norm"), [argument_value(one, "max_grad_norm") for one in stay]
        if norm is None or literal_value(norm) == 0 or all(one is not None and norm.deep_equals(one) for one in others):
            return
        text = self.facts.text(norm)
        message = f"{self.facts.text(gone.func)} clipped gradients to a norm of {text}, in mixed precision only"
        self._add(gone, ARMS_DIFFERED, message)

    def _report_clips(self, plain: Block, other: Block) -> None:
        """A clip that one arm has alone, or with another threshold."""
        theirs, ours = list(self._clips(other)), list(self._clips(plain))
        for clip in theirs:
            threshold = _threshold(clip)
            same = [one for one in ours if source_key(_threshold(one)) == source_key(threshold)]
            text = self.facts.text(clip)
            if not ours:
                self._add(clip, ARMS_DIFFERED, f"{text} clipped gradients in mixed precision only, and goes")
            elif not same:
                now = self.facts.text(ours[0])
                self._add(clip, ARMS_DIFFERED, f"{text} clipped gradients in mixed precision, and {now} does now")
            elif called_name(clip) in CLIPS and self._holds_others(clip, same[0].args[0].value):
                now = self.facts.text(same[0])
                message = f"{text} clipped what its optimizer holds, which {now} may cover more or less than"
                self._add(clip, ARMS_DIFFERED, message)

    def _holds_others(self, clip: cst.Call, clipped: cst.BaseExpression) -> bool:
        """True where an optimizer behind the wrapper is built from something else than what the plain arm clips."""
        assert isinstance(clip.func, cst.Attribute)
        if not isinstance(clipped, cst.Call) or not isinstance(clipped.func, cst.Attribute):
            return False
        model = self.facts.text(clipped.func.value)
        given = [
            value.args[0].value
            for value in self.facts.objects.values_of(clip.func.value)
            if isinstance(value, cst.Call) and value.args and form_name(self.facts, value.func) is None
        ]
        return any(not self._comes_from(one, model) for one in given)

    def _comes_from(self, node: cst.BaseExpression, model: str) -> bool:
        """True for an expression with `model.parameters()` in it, through names."""
        texts = map(self.facts.text, each_once([node], self._values_in))
        return any(f"{model}.parameters()" in text or f"{model}.named_parameters()" in text for text in texts)

    def _values_in(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        names = [part for part in walk(node) if isinstance(part, cst.Name)]
        return [value for name in names for value in self.facts.objects.values_of(name)]

    def _clips(self, block: Block) -> Iterator[cst.Call]:
        for one in block.descendants():
            for call in self.facts.tree.calls(one):
                if call.args and (called_name(call) in CLIPS or is_clip(self.facts, call)):
                    yield call

    def _add(self, node: cst.CSTNode, rule: Rule, message: str) -> None:
        self.findings.append(self.facts.finding(node, rule, message))

    # -- names ------------------------------------------------------------------------------------------

    def check_names(self, statements: list[Statement], is_gone: Test) -> None:
        """Raises Refusal where something is read that only an arm that goes has made."""
        for statement in statements:
            node = statement.node
            if is_gone(statement) and isinstance(node, cst.Assign):
                for target in node.targets:
                    if isinstance(target.target, cst.Name):
                        self._check_name(target.target, is_gone)

    def _check_name(self, name: cst.Name, is_gone: Test) -> None:
        variable = self.facts.names.variable_at(name)
        if variable is None or not all(
            one.statement is not None and is_gone(one.statement) for one in variable.bindings
        ):
            return
        for load in variable.loads:
            if not is_gone(self.facts.tree.statement_of(load)):
                message = f"{load.value} is set where mixed precision is on, and read here"
                raise Refusal(UNKNOWN_FP16_USE, load, message, case="arm")


def sets_learning_rate(statement: Statement) -> bool:
    """True for `group["lr"] = ...`, whatever the group is."""
    return any(isinstance(one, cst.Subscript) and subscript_key(one) == "['lr']" for one in targets(statement.node))


def _threshold(clip: cst.Call) -> cst.BaseExpression:
    """The norm to clip to: the only argument of the wrapper's method, the second one of torch's functions."""
    for arg in clip.args:
        if arg.keyword is not None and arg.keyword.value in ("max_norm", "clip_value", "max_grad_norm"):
            return arg.value
    return clip.args[-1 if called_name(clip) in CLIPS or len(clip.args) == 1 else 1].value
