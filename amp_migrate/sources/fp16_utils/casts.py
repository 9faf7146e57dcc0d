"""Casts to half that go with `FP16_Optimizer` (rule G1).

model.half()                            goes, as network_to_half(model) and its like, and fp32_to_fp16(x) of a copy
x = x.half()                            goes under the guard, becomes x.float() elsewhere: x may hold integers
to_half(x)                              the same, for a function that asks for no type
x.type(torch.cuda.HalfTensor)           x.type(torch.cuda.FloatTensor): it is the way to the device, too
torch.zeros(n, dtype=torch.half)        torch.zeros(n, dtype=torch.float)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.tree import Block, Function, Statement
from amp_migrate.interp.dtype_asked import asks_for_half
from amp_migrate.plan.model import Lowering
from amp_migrate.sources.copies import stays_a_copy
from amp_migrate.sources.floating import is_floating
from amp_migrate.sources.fp16_utils.model_helpers import only_casts
from amp_migrate.sources.fp16_utils.names import (
    ACCESSORS,
    MODEL_CASTS,
    PREFIXES,
    form_name,
    keeps_keys,
    returns_the_model,
)
from amp_migrate.sources.fp16_utils.value_casts import ValueCasts
from amp_migrate.sources.half.helpers import without_use
from amp_migrate.sources.half.module_casts import assigns_itself
from amp_migrate.sources.half_types import HalfTypes

_MODULE_METHODS = frozenset("parameters named_parameters train eval modules named_modules".split())


Test = Callable[[Statement], bool]


class Casts:
    """The casts of the unit; `tests` are the conditions around those of models."""

    def __init__(self, facts: Facts, lowering: Lowering, statements: list[Statement]) -> None:
        self.facts = facts
        self.lowering = lowering
        self._types = HalfTypes(facts)
        self._values = ValueCasts(facts, statements)
        self._modules = {
            one
            for statement in statements
            for part in facts.tree.expressions(statement)
            if isinstance(part, cst.Attribute) and part.attr.value in _MODULE_METHODS
            for one in facts.objects.objects(part.value)
        }
        self._helpers: dict[Function, bool] = {}
        self._found = [
            (statement, call) for statement in statements for call in facts.tree.calls(statement) if self.is_cast(call)
        ]
        self._statements = statements

    @property
    def tests(self) -> Iterator[cst.BaseExpression]:
        """The test around the cast of each model; nothing at all where one is cast in any case."""
        tests = []
        for statement, call in self._found:
            if self._is_module(call):
                outer = statement.block.owner
                if outer is None or not isinstance(outer.node, cst.If):
                    return
                tests.append(outer.node.test if statement.block.arm == "body" else negated(outer.node.test))
        yield from tests

    def is_cast(self, node: cst.CSTNode) -> bool:
        """True for a call that makes half of what it is called on, or given."""
        if not isinstance(node, cst.Call):
            return False
        return bool(node.args) if self._is_by_function(node) else self._types.is_cast(node)

    def _is_by_function(self, call: cst.Call) -> bool:
        """True for a function that casts what it is given; False for a method that casts what it is called on."""
        return self._model_cast(call) is not None or self._values.is_one(call)

    def _model_cast(self, call: cst.Call) -> str | None:
        """The function that casts the model which it is given; None for a method that casts what it is called on."""
        if self._is_network_to_half(call):
            return "network_to_half"
        name = form_name(self.facts, call.func)
        if name in MODEL_CASTS:
            return name
        return "convert_network" if self._is_by_helper(call) else None

    def _is_by_helper(self, call: cst.Call) -> bool:
        """True for a call of a function of the unit that does nothing but cast the model which it is given."""
        function = self.facts.objects.called_function(call)
        if function is None or len(call.args) != 1 or call.args[0].star:
            return False
        if function not in self._helpers:
            self._helpers[function] = False  # one that calls itself
            self._helpers[function] = only_casts(function, self._uncast)
        return self._helpers[function]

    def _is_network_to_half(self, call: cst.Call) -> bool:
        """True for `nn.Sequential(tofp16(), model)`, which is what the function does."""
        if self.facts.names.dotted(call.func) != "torch.nn.Sequential" or len(call.args) != 2:
            return False
        first = call.args[0].value
        is_cast = isinstance(first, cst.Call) and form_name(self.facts, first.func) == "tofp16"
        return is_cast and not any(arg.star for arg in call.args)

    def _may_be_of_integers(self, call: cst.Call) -> bool:
        """True for `to_half(x)` that asks for no type, and an x which nothing shows to be floating."""
        if self._is_module(call) or not self._values.may_be_given_integers(call):
            return False
        return not is_floating(self.facts, self._operand(call))

    def _operand(self, call: cst.Call) -> cst.BaseExpression:
        """What a call casts."""
        if self._is_by_function(call):
            return call.args[1 if self._is_network_to_half(call) else 0].value
        assert isinstance(call.func, cst.Attribute)
        return call.func.value

    def is_only_cast(self, statement: Statement) -> bool:
        """True for a statement that does nothing but cast."""
        node = statement.node
        value = node.value if isinstance(node, (cst.Assign, cst.Expr)) else None
        return value is not None and any(call is value for _, call in self._found)

    def is_at(self, statement: Statement) -> bool:
        """True for a statement with a cast in it."""
        return any(one is statement for one, _ in self._found)

    def are_in(self, block: Block, is_gone: Test) -> bool:
        return any(
            statement.inside(one) and not is_gone(statement) for statement, _ in self._found for one in block.statements
        )

    def of_models(self) -> Iterator[cst.Call]:
        return (call for _, call in self._found if self._is_module(call))

    def lower(self, is_gone: Test, is_guarded: Test) -> None:
        """Write down what becomes of the casts that are not in an arm that goes."""
        for statement, call in self._found:
            if self._is_module(call):
                self._float_what_is_loaded(call)
            if not is_gone(statement) and not self._gives_back(statement):
                self._lower(statement, call, guarded=is_guarded(statement))
        for statement in self._statements:
            if not is_gone(statement) and not self._lower_arm(statement):
                for part in self.facts.tree.expressions(statement):
                    self._lower_type(part)

        self._drop_helpers(is_gone)

    def _drop_helpers(self, is_gone: Test) -> None:
        """Own functions that only cast a model go where all that used them goes."""
        helpers = {self.facts.tree.statements[one.node] for one, casts in self._helpers.items() if casts}
        gone: set[cst.CSTNode] = {call.func for _, call in self._found if self._is_by_helper(call)}
        left = [statement for statement in self._statements if is_gone(statement)]
        removed = [*self.lowering.removed, *left]
        self.lowering.removed += without_use(self.facts, gone, removed, lambda one: one not in helpers)

    def _float_what_is_loaded(self, cast: cst.Call) -> None:
        """`model = torch.load(path)` of a whole module that is cast: it may have been saved in half (rule G4)."""
        for load in self.facts.objects.calls_behind(self._operand(cast)):
            if self.facts.names.dotted(load.func) == "torch.load" and load not in self.lowering.floated:
                self.lowering.floated.append(load)

    def _gives_back(self, statement: Statement) -> bool:
        """`if x.type() == "torch.cuda.HalfTensor": ... x.half()`: half for who has given half, as autocast does."""
        outer = statement.block.owner
        if outer is None or not isinstance(outer.node, cst.If):
            return False
        tests = [outer.node.test]
        for binding in self.facts.names.bindings_at(outer.node.test):
            holder = binding.statement.block.owner if binding.statement is not None else None
            if holder is not None and isinstance(holder.node, cst.If):
                tests.append(holder.node.test)
        return any(asks_for_half(self.facts, test) for test in tests)

    def _lower_arm(self, statement: Statement) -> bool:
        """`if half: kind = torch.half`, `else: kind = torch.float`: the arm with the other type stays (rule G3)."""
        found = self._types.plain_arm(statement)
        if found is None or self.is_at(statement):
            return False
        outer, arm = found
        self.lowering.arms[outer] = arm
        return True

    def _lower_type(self, node: cst.CSTNode) -> None:
        """Of `torch.half if args.fp16 else torch.float` the other type (rule G3); of one that is no choice, float's."""
        if isinstance(node, cst.IfExp):
            plain = self._types.plain_side(node)
            if plain is not None:
                self.lowering.replaced[node] = self.facts.text(plain)
            return
        parent = self.facts.tree.parents.get(node)
        is_chosen = isinstance(parent, cst.IfExp) and parent in self.lowering.replaced
        if is_chosen or not isinstance(node, (cst.Name, cst.Attribute)) or not self._types.is_one(node):
            return
        if not self._types.makes_nothing_half(node):
            self.lowering.replaced[node] = self._types.of_float32(node)

    def lower_accessors(self, statements: list[Statement]) -> None:
        """`model[1]`, where network_to_half put a cast before the model: it is the model again (rule G4)."""
        wrapped = {
            (name, one)
            for _, call in self._found
            if (name := self._model_cast(call)) in PREFIXES and not returns_the_model(self.facts, call.func)
            for one in self.facts.objects.objects(call)
        }
        for statement in statements:
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, (cst.Subscript, cst.Attribute)) and not self.facts.tree.is_label(part):
                    key = subscript_key(part) if isinstance(part, cst.Subscript) else f".{part.attr.value}"
                    for name, one in wrapped:
                        if ACCESSORS.get(name or "") == key and one in self.facts.objects.objects(part.value):
                            self.lowering.replaced[part] = self.facts.text(part.value)
                    if key == ".module" and self._is_of_cast(part.value, statement):
                        self.lowering.replaced[part] = self.facts.text(part.value)

    def _is_of_cast(self, node: cst.BaseExpression, statement: Statement) -> bool:
        """True for `model` after `model = FP16_Module(model)`, before anything else wraps it: other wrappers have a
        `.module` as well.
        """
        text = self.facts.text(node)
        for outer in reversed(statement.path()):
            for earlier in reversed(outer.block.statements[: outer.index]):
                if isinstance(earlier.node, cst.Assign) and self.facts.text(earlier.node.targets[0].target) == text:
                    value = earlier.node.value
                    return isinstance(value, cst.Call) and form_name(self.facts, value.func) == "FP16_Module"
                if any(text == self.facts.text(one) for one in _set_inside(earlier)):
                    return False
        return False

    def prefixes(self) -> Iterator[tuple[cst.Call, str]]:
        """The wrappers around models, with what they put before the keys of the state."""
        for _, call in self._found:
            name = self._model_cast(call)
            if name in PREFIXES and not keeps_keys(self.facts, call.func):
                yield call, PREFIXES[name or ""]

    def _lower(self, statement: Statement, call: cst.Call, *, guarded: bool) -> None:
        if self._is_by_function(call):
            if self._may_be_of_integers(call) and not guarded:
                self.lowering.arguments.append(call)
                self.lowering.floated.append(call)
            else:
                self._take_out(statement, call, self._uncast(self._operand(call)))
            return
        assert isinstance(call.func, cst.Attribute)
        receiver, name = call.func.value, call.func.attr.value
        is_module = self._is_module(call)
        only_casts = name == "half" or self._types.is_only_cast(call)
        is_float32 = is_floating(self.facts, receiver)
        if name == "half" and not is_module and not guarded:
            if stays_a_copy(self.facts, self.lowering, statement, call, is_float32=is_float32):
                return
        if only_casts and (is_module or guarded or is_float32):
            self._take_out(statement, call, self._uncast(receiver))
            return
        if name == "half":
            self.lowering.renamed[call.func] = "float"
            return
        kinds = [arg for arg in call.args if self._types.is_one(arg.value)]
        if is_module and name == "type":
            self.lowering.replaced[call] = f"{self.facts.text(receiver)}.cuda()"
        elif is_module and len(call.args) > 1:
            self.lowering.dropped[call] = kinds[0]
        elif is_module:
            self._take_out(statement, call, receiver)
        else:
            for arg in kinds:
                self.lowering.replaced[arg.value] = self._types.of_float32(arg.value)

    def _take_out(self, statement: Statement, call: cst.Call, inner: cst.BaseExpression) -> None:
        """What is cast stays; a statement that does nothing else goes."""
        node = statement.node
        is_name = isinstance(inner, (cst.Name, cst.Attribute, cst.Subscript))
        only_casts = isinstance(node, cst.Expr) and node.value is call and is_name
        if only_casts or assigns_itself(node, call, inner):
            self.lowering.removed.append(statement)
        elif self._is_network_to_half(call):
            self.lowering.replaced[call] = self.facts.text(inner)
        elif self._is_by_function(call):
            self.lowering.arguments.append(call)
        else:
            self.lowering.receivers.append(call)

    def _uncast(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """What is below several casts: `model` of `BN_convert_float(model.half())`."""
        while isinstance(node, cst.Call) and self.is_cast(node) and self._is_module(node):
            node = self._operand(node)
        return node

    def _is_module(self, call: cst.Call) -> bool:
        """True where a model is cast: something with parameters."""
        if self._model_cast(call) is not None:
            return True
        objects = self.facts.objects.objects(self._operand(call))
        return bool(objects & self._modules) or any(
            isinstance(one.origin, cst.Call) and self._makes_module(one.origin) for one in objects
        )

    def _makes_module(self, call: cst.Call) -> bool:
        dotted = self.facts.names.dotted(call.func) or ""
        return dotted.startswith("torch.nn.") and dotted.rpartition(".")[2][:1].isupper()


def _set_inside(statement: Statement) -> Iterator[cst.BaseExpression]:
    """What the blocks of a statement assign to."""
    for inner in statement.descendants():
        if isinstance(inner.node, cst.Assign):
            yield from (target.target for target in inner.node.targets)
