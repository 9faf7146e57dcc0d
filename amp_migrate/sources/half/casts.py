"""Casts to half, and what stands in their place in the plain program (rule G1).

x.half()                                x.float(): it may hold integers
x.type(torch.cuda.HalfTensor)           x.type(torch.cuda.FloatTensor): it is the way to the device, too
for m in model.modules(): m.float()     goes: BatchNorm was put back
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.models.traits import named
from amp_migrate.rules.half import DEPENDS_ON_HALF
from amp_migrate.sources.copies import stays_a_copy
from amp_migrate.sources.floating import is_floating
from amp_migrate.sources.fp16_utils.half_alone import casts_of_models
from amp_migrate.sources.fp16_utils.names import PREFIXES, form_name, keeps_keys
from amp_migrate.sources.half.arms import OF_PRECISION
from amp_migrate.sources.half.chosen import chosen_by
from amp_migrate.sources.half.float_steps import FloatSteps
from amp_migrate.sources.half.helpers import Helpers, in_other_files
from amp_migrate.sources.half.kept import Kept
from amp_migrate.sources.half.module_casts import ModuleCasts, assigns_itself, receiver_of
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.half_types import HalfTypes

_HALF = {
    "torch.half": "float",
    "torch.float16": "float32",
    "torch.HalfTensor": "FloatTensor",
    "torch.cuda.HalfTensor": "FloatTensor",
}
_FLOAT = frozenset("torch.float torch.float32 torch.FloatTensor torch.cuda.FloatTensor".split())
_DEFAULTS = frozenset("set_default_tensor_type set_default_dtype".split())


class Casts:
    """The casts to half of a unit; `trained` are those that make a training one in half."""

    def __init__(self, facts: Facts, modules: Modules) -> None:
        self.facts = facts
        self.modules = modules
        self.types = HalfTypes(facts)
        self.kept = Kept(facts)
        self.float_steps = FloatSteps(facts, modules, self.kept)
        self.refusals: list[Refusal] = []
        self._asked: list[tuple[Statement, cst.BaseExpression]] = []  # tests of a type
        self._helper_calls = list(self._calls_of_helpers())
        calls = [call for _, call, _ in self._helper_calls]
        elsewhere = in_other_files(facts, calls)
        if self.float_steps.pairs:
            inner = {one for outer in self.float_steps.functions for one in facts.tree.functions if outer.encloses(one)}
            elsewhere |= self.float_steps.functions | inner
        self._statements = [one for one in facts.tree.all_statements() if one.function not in elsewhere]
        around = {call: module.value for _, call, module in self._helper_calls}
        self.module_casts = ModuleCasts(facts, modules, self.kept, self._statements, around)
        self.lowering = self.module_casts.lowering
        self.sites = self.module_casts.sites
        self.gone = self.module_casts.gone
        self.trained = [one for one in self.module_casts.going() if modules.is_trained(receiver_of(one[1]))]
        self.defaults = list(self._default_types())
        # Models that a function casts which stays as it is.
        self.helped = [
            (statement, call)
            for statement, call, module in self._helper_calls
            if facts.objects.called_function(call) in (None, *elsewhere) and modules.is_trained(module.value)
        ]

    def _calls_of_helpers(self) -> Iterator[tuple[Statement, cst.Call, cst.Arg]]:
        """Calls of functions that give back the module that they are given, in half."""
        found = list(Helpers(self.facts).calls())
        known = {call for _, call, _ in found}
        yield from found
        yield from (one for one in casts_of_models(self.facts) if one[1] not in known)

    @property
    def is_training(self) -> bool:
        """True where something that is cast to half is trained."""
        return bool(self.trained or self.helped or self.float_steps.pairs)

    def prefixes(self) -> Iterator[tuple[cst.Call, str]]:
        """The wrappers that go, with what they put before the keys of the state."""
        for _, call, _ in self._helper_calls:
            prefix = PREFIXES.get(form_name(self.facts, call.func) or "")
            if prefix is not None and not keeps_keys(self.facts, call.func):
                yield call, prefix

    def of_modules(self) -> list[tuple[Statement, cst.Call]]:
        """The casts of modules that are no inference, whether they are trained or not."""
        return [one for one in self.module_casts.going() if ".eval()" not in source_key(one[0].node)]

    def lower(self) -> None:
        """Fill the lowering with all casts, once it is known that a training is in half."""
        for statement, call in self.module_casts.going():
            self.module_casts.lower(statement, call)
        for statement, call, module in self._helper_calls:
            self._helper_call(statement, call, module.value)
        self._float_steps()
        self.lowering.marks += self._marks()
        for statement in self.defaults:
            self.lowering.marks.append((statement, None))
        for statement in self._statements:
            self._statement(statement)
        self._fold_guards()
        for statement, node in self._asked:
            if not self._fold_test(statement, node):
                self._refuse(node, f"this asks whether something is {self.facts.text(node)}")

    def _float_steps(self) -> None:
        """Weights that are in float32 for the step alone are so from the start."""
        for call in self.float_steps.calls():
            self.sites.append(call)
            self.gone.update(walk(call))
        try:
            self.float_steps.lower(self.lowering)
        except Refusal as refusal:
            self.refusals.append(refusal)

    def _fold_test(self, statement: Statement, node: cst.BaseExpression) -> bool:
        """Take out `if dtype == torch.half:` where the script chose `dtype` itself and only casts stand below it; False
        where that is not so.
        """
        test = statement.node.test if isinstance(statement.node, cst.If) and statement.node.orelse is None else None
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        target = test.comparisons[0]
        if target.comparator is not node or not isinstance(target.operator, (cst.Equal, cst.Is)):
            return False
        values = self.facts.objects.values_of(test.left) if isinstance(test.left, (cst.Name, cst.Attribute)) else []
        chosen = bool(values) and all(isinstance(one, cst.IfExp) and self.types.half_name(one.body) for one in values)
        marked = [mark for mark, _ in self.lowering.marks]
        if not chosen or not self._is_emptied(statement) or any(mark.inside(statement) for mark in marked):
            return False
        self.lowering.arms[statement] = "else"
        return True

    def _is_emptied(self, statement: Statement) -> bool:
        """True for what goes, and for loops and branches of which nothing is left."""
        if isinstance(statement.node, (cst.For, cst.If)):
            return all(self._is_emptied(inner) for block in statement.blocks for inner in block.statements)
        return statement in self.lowering.removed

    def _marks(self) -> list[tuple[Statement, str | None]]:
        """Beside the casts of whole models; of members, before the walk over them."""
        whole = [(statement, call) for statement, call in self.trained if not self.modules.is_member(receiver_of(call))]
        if whole:
            return [(statement, self._condition(call)) for statement, call in whole]
        walks = [self._walk_around(statement) for statement, _ in self.trained]
        return [(statement, None) for statement in dict.fromkeys(walks)]

    def _walk_around(self, statement: Statement) -> Statement:
        """The loop over the modules that a cast of one stands in, or the call of `apply` that gets to it."""
        for outer in statement.path():
            if isinstance(outer.node, cst.For):
                return outer
        for use in self.facts.calls.value_uses(statement.function):
            return self.facts.tree.statement_of(use)
        return statement

    # -- modules ----------------------------------------------------------------------------------------

    def _helper_call(self, statement: Statement, call: cst.Call, module: cst.BaseExpression) -> None:
        """`model = network_to_half(model)`: what it gives back is the module."""
        self.sites.append(call)
        self.gone.update(walk(call))
        self.gone.difference_update(walk(module))
        self.lowering.marks.append((statement, None))
        if assigns_itself(statement.node, call, self.module_casts.uncast(module)):
            self.lowering.removed.append(statement)
        elif call.args[0].value is module:
            self.lowering.arguments.append(call)  # which may be cast itself: `bn_to_float(net.half())`
        else:
            self.lowering.replaced[call] = self.facts.text(module)

    def _condition(self, call: cst.Call) -> str | None:
        """The test under which a cast is one to half; None where it always is."""
        try:
            return chosen_by(self.facts, call, self.types.meanings, lambda node: self.types.half_name(node) is not None)
        except Refusal as refusal:
            self.refusals.append(refusal)
            return None

    # -- everything else --------------------------------------------------------------------------------

    def _default_types(self) -> Iterator[Statement]:
        """`torch.set_default_tensor_type(torch.cuda.HalfTensor)`: every module is made in half."""
        for part, statement in self.facts.tree.every(cst.Call):
            if called_name(part) in _DEFAULTS:
                if any(self.types.half_name(arg.value) for arg in part.args):
                    yield statement

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            return
        for part in self.facts.tree.expressions(statement):
            if part in self.gone:
                continue
            if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
                if called_name(part) == "half" and not part.args:
                    if not self.modules.is_module(part.func.value):
                        self._tensor_cast(statement, part)
                elif called_name(part) == "float" and not part.args:
                    self._put_back(statement, part)
                elif called_name(part) == "load" and self._loads_module(part):
                    self.lowering.floated.append(part)
            elif self.types.half_name(part) and not self._is_inner(part):
                assert isinstance(part, cst.BaseExpression)
                self._name_of_half(statement, part)

    def _is_inner(self, part: cst.CSTNode) -> bool:
        parent = self.facts.tree.parents.get(part)
        return isinstance(parent, cst.Attribute) and parent.value is part and self.types.half_name(parent) is not None

    def _tensor_cast(self, statement: Statement, call: cst.Call) -> None:
        if self._is_stored(call) or self._feeds_kept(statement, call):
            return
        self.sites.append(call)
        assert isinstance(call.func, cst.Attribute)
        is_float32 = is_floating(self.facts, call.func.value)
        if stays_a_copy(self.facts, self.lowering, statement, call, is_float32=is_float32):
            return
        if is_float32:
            self.module_casts.take_out(statement, call)
        else:
            self.lowering.renamed[call.func] = "float"

    def _is_stored(self, call: cst.Call) -> bool:
        """True for values that are only kept: `x.half().cpu()`, `torch.save(x.half(), path)`."""
        node: cst.CSTNode = call
        parent = self.facts.tree.parents.get(node)
        while isinstance(parent, cst.Attribute) and isinstance(outer := self.facts.tree.parents.get(parent), cst.Call):
            if parent.attr.value in named("off the GPU"):
                return True
            node, parent = outer, self.facts.tree.parents.get(outer)
        if not isinstance(parent, (cst.Arg, cst.DictElement)):
            return False
        holder = self.facts.tree.parents.get(parent)
        while isinstance(holder, (cst.Dict, cst.DictElement, cst.Arg)):
            holder = self.facts.tree.parents.get(holder)
        return isinstance(holder, cst.Call) and called_name(holder) in ("save", "dump")

    def _feeds_kept(self, statement: Statement, cast: cst.Call) -> bool:
        """True for the input of a module that stays in half."""
        for other, call in self.module_casts.found:
            if not self.kept.is_kept(call):
                continue
            receiver = receiver_of(call)
            if self.kept.is_copy(receiver):
                if self._is_input_of(cast, receiver):
                    return True
            elif self.kept.is_undone(receiver, other):
                if statement.function is other.function:
                    return True
            elif self.kept.is_after_training(statement):
                return True
        return False

    def _is_input_of(self, cast: cst.Call, module: cst.BaseExpression) -> bool:
        node: cst.CSTNode = cast
        wanted = self.facts.objects.objects(module)
        while isinstance(parent := self.facts.tree.parents.get(node), (cst.BaseExpression, cst.Arg)):
            if isinstance(parent, cst.Call) and self.facts.objects.objects(parent.func) & wanted:
                return True
            node = parent
        return False

    def _put_back(self, statement: Statement, call: cst.Call) -> None:
        """`module.float()`, for the layers that were not to stay in half."""
        assert isinstance(call.func, cst.Attribute)
        receiver = call.func.value
        whole = self.modules.is_trained(receiver) and isinstance(statement.node, cst.Expr)
        if whole and self.float_steps.pairs:
            return  # a library may have given the model in half
        if not self.modules.is_module(receiver) or not (self.modules.is_member(receiver) or whole):
            return
        if any(self.kept.is_kept(cast) for _, cast in self.module_casts.found):
            return  # one that stays may be undone here
        self.sites.append(call)
        self.module_casts.take_out(statement, call)

    def _loads_module(self, call: cst.Call) -> bool:
        """`model = torch.load(path)`: whole modules that were saved in half (rule G4)."""
        return self.facts.names.dotted(call.func) == "torch.load" and any(
            one.origin is call for one in self.modules.trained
        )

    def _name_of_half(self, statement: Statement, node: cst.BaseExpression) -> None:
        """`torch.half` as a value: what it is chosen against, or float32 in its place."""
        self.sites.append(node)
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            other = parent.orelse if parent.body is node else parent.body
            self.lowering.replaced[parent] = self.facts.text(other)
            return
        if self._is_compared(node):
            if not self._is_one_of_many(node):
                self._asked.append((statement, node))
            self.sites.pop()
            return
        if isinstance(node, cst.SimpleString):
            self.lowering.replaced[node] = self.facts.text(node).replace("HalfTensor", "FloatTensor")
            return
        name = _HALF[self.types.half_name(node) or ""]
        if isinstance(node, cst.Attribute):
            self.lowering.renamed[node] = name
        else:
            self._refuse(node, f"{self.facts.text(node)} is imported by its name")

    def _is_compared(self, node: cst.BaseExpression) -> bool:
        current: cst.CSTNode = node
        while isinstance(parent := self.facts.tree.parents.get(current), cst.CSTNode):
            if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
                return True
            if not isinstance(parent, (cst.Tuple, cst.List, cst.Set, cst.Element)):
                return False
            current = parent
        return False

    def _is_one_of_many(self, node: cst.BaseExpression) -> bool:
        """`p.dtype in (torch.half, torch.float)` is as true of float32."""
        element = self.facts.tree.parents.get(node)
        group = self.facts.tree.parents.get(element) if isinstance(element, cst.Element) else None
        parts = walk(group) if group is not None else ()
        return any(self.facts.names.dotted(part) in _FLOAT for part in parts if isinstance(part, cst.Attribute))

    def _refuse(self, node: cst.CSTNode, message: str) -> None:
        self.refusals.append(Refusal(DEPENDS_ON_HALF, node, message))

    # -- guards -----------------------------------------------------------------------------------------

    def _fold_guards(self) -> None:
        """`if self.fp16: x = x.half()`: with the guard taken as false, nothing of it is left (rule G3)."""
        casts = {call.func for call in self._tensor_sites()}
        marked = [statement for statement, _ in self.lowering.marks]
        for statement in self._statements:
            if isinstance(statement.node, cst.If) and OF_PRECISION.search(self.facts.text(statement.node.test)):
                self._fold_guard(statement, statement.node, casts, marked)
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.IfExp) and OF_PRECISION.search(self.facts.text(part.test)):
                    self._fold_choice(statement, part)

    def _fold_guard(
        self, statement: Statement, node: cst.If, casts: set[cst.BaseExpression], marked: list[Statement]
    ) -> None:
        arm, other = ("else", "body") if isinstance(node.test, cst.UnaryOperation) else ("body", "else")
        dead = next((block for block in statement.blocks if block.arm == arm), None)
        if dead is None:
            return
        goes = [inner for inner in dead.statements if self._only_casts(inner, casts)]
        if not any(inner not in self.lowering.removed for inner in goes):
            return
        if len(goes) == len(dead.statements) and not any(one.inside(inner) for inner in goes for one in marked):
            self.lowering.arms[statement] = other
        else:
            self.lowering.removed += goes

    def _fold_choice(self, statement: Statement, choice: cst.IfExp) -> None:
        """`x.half() if fp16 else x` is `x`; a statement that chooses between two casts goes."""
        arms = [choice.body, choice.orelse]
        cast = next((arm for arm in arms if any(site is arm for site in self.sites)), None)
        if not isinstance(cast, cst.Call):
            return
        other = arms[1 - arms.index(cast)]
        same = other.func.value if isinstance(other, cst.Call) and isinstance(other.func, cst.Attribute) else other
        if source_key(same) != source_key(receiver_of(cast)):
            return
        node = statement.node
        if isinstance(node, cst.Expr) and node.value is choice:
            self.lowering.removed.append(statement)
            return
        target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
        if target is not None and isinstance(node, cst.Assign) and node.value is choice:
            if source_key(target) == source_key(other):
                self.lowering.removed.append(statement)
                return
        self.lowering.replaced[choice] = self.facts.text(other)

    def _tensor_sites(self) -> Iterator[cst.Call]:
        return (site for site in self.sites if isinstance(site, cst.Call))

    def _only_casts(self, statement: Statement, casts: set[cst.BaseExpression]) -> bool:
        """True for `x = x.half()`, alone or for several."""
        if statement in self.lowering.removed:
            return True
        node = statement.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
            return False
        value = node.value
        return value.func in casts and source_key(node.targets[0].target) == source_key(receiver_of(value))
