"""In which precision an expression is under CUDA autocast, as far as the code tells.

Operations have the dtype that autocast's policy gives them; everything else passes on what it is given. Values are
followed through names, through parameters to their calls, and into the functions and modules of the unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.facts.tree import Class, Function, Statement, argument_value, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.models import Dtype, Operation
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.safety.dtypes import (
    FLOATING,
    HALF,
    NOTHING_KNOWN,
    NUMBER,
    OTHER,
    SINGLE,
    Dtypes,
    Precision,
    either,
    is_tensor,
    precision,
)
from amp_migrate.plan.safety.operands import is_of_module, operands, operation, tensor_operand
from amp_migrate.plan.safety.repairs import Safety

__all__ = ["Precision", "Precisions", "is_of_module", "is_power", "tensor_operand"]

_REPARAMETERIZED = re.compile(r"torch\.nn\.utils\.(parametrizations\.)?(weight_norm|spectral_norm)$")
_WEIGHTS = frozenset("weight bias in_proj_weight in_proj_bias".split())
_PLAIN = frozenset("shape dtype device ndim requires_grad is_cuda training".split())
_NUMPY_NUMBER = re.compile(r"numpy\.(?:float|int)\d*_?")
_NUMPY_FUNCTION = re.compile(r"numpy\.(?:exp|log|sqrt|tanh|cos|sin|power|minimum|maximum|clip)")
_COUNTERS = frozenset("range xrange trange".split())
_CONSTANTS = frozenset("math.pi math.e math.tau math.inf numpy.pi numpy.e numpy.inf torch.pi torch.e torch.inf".split())
# The methods that Python's operators call.
_OPERATORS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "__add__",
    cst.Subtract: "__sub__",
    cst.Multiply: "__mul__",
    cst.Divide: "__truediv__",
    cst.FloorDivide: "__floordiv__",
    cst.Modulo: "__mod__",
    cst.Power: "__pow__",
    cst.MatrixMultiply: "__matmul__",
    cst.BitAnd: "__and__",
    cst.BitOr: "__or__",
    cst.BitXor: "__xor__",
    cst.LeftShift: "__lshift__",
    cst.RightShift: "__rshift__",
}
_BOOLEAN: Dtypes = frozenset((Dtype.BOOLEAN,))
_INTEGRAL: Dtypes = frozenset((Dtype.BOOLEAN, Dtype.INTEGER))
_REVERSED = {"__truediv__": "__rtruediv__", "__pow__": "__rpow__"}
_NAMED: dict[str, Dtypes] = {
    "float32": SINGLE,
    "float": SINGLE,
    "float16": HALF,
    "half": HALF,
    "float64": frozenset((Dtype.DOUBLE,)),
    "double": frozenset((Dtype.DOUBLE,)),
    "bool": _BOOLEAN,
    **dict.fromkeys("int8 int16 int32 int64 uint8 short int long".split(), frozenset((Dtype.INTEGER,))),
    **dict.fromkeys("complex64 complex128 cfloat cdouble".split(), frozenset((Dtype.COMPLEX,))),
}
_DEEPEST = 40
_MOST = 4000


class Precisions:
    """Answers for expressions of the unit, repaired as `safety` says so far."""

    def __init__(self, facts: Facts, safety: Safety) -> None:
        self.facts = facts
        self.tensors = Tensors(facts)
        self.safety = safety
        self._open: set[object] = set()
        self._steps = 0  # of the current question: through loops, the ways back to a value multiply

    def of(self, node: cst.BaseExpression) -> Precision:
        """The precision of an expression where it stands."""
        return precision(self.dtypes(node))

    def dtypes(self, node: cst.BaseExpression) -> Dtypes:
        """What an expression may be where it stands."""
        self._steps = self._steps + 1 if self._open else 0
        if node in self._open or len(self._open) > _DEEPEST or self._steps > _MOST:
            return NOTHING_KNOWN
        if any(node is one for one in self.safety.floats):
            return SINGLE
        self._open.add(node)
        try:
            return self._of(node)
        finally:
            self._open.discard(node)

    def _of(self, node: cst.BaseExpression) -> Dtypes:
        if literal_value(node) is not UNKNOWN:
            return NOTHING_KNOWN if isinstance(node, (cst.List, cst.Tuple, cst.Dict)) else NUMBER
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.UnaryOperation):
            is_logical = isinstance(node.operator, (cst.BitInvert, cst.Not))
            return _INTEGRAL if is_logical else self.dtypes(node.expression)
        if isinstance(node, cst.Comparison):
            return _BOOLEAN if is_tensor(self.dtypes(node.left)) else NOTHING_KNOWN
        if isinstance(node, cst.IfExp):
            return either([self.dtypes(node.body), self.dtypes(node.orelse)])
        return NOTHING_KNOWN

    # -- values ------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name) -> Dtypes:
        variable = self.facts.names.variable_at(node)
        if variable is None:
            return NOTHING_KNOWN
        found = self._variable(variable, node)
        if not found and self._is_used_as_tensor(variable):
            return FLOATING
        return found

    def _is_used_as_tensor(self, variable: Variable) -> bool:
        return isinstance(variable.scope.owner, Function) and any(
            self.tensors.shows_tensor(load) for load in variable.loads
        )

    def _variable(self, variable: Variable, load: cst.Name) -> Dtypes:
        statement = self.facts.tree.statement_of(load)
        last = self._last_write(variable, statement) if variable.scope.owner is statement.function else None
        bindings = [last] if last is not None else variable.bindings
        # What is asked for already, `x = x.view(-1)` in a loop, adds nothing to what the others say.
        others = [one for one in bindings if one.kind != "augment" and (variable, one.node) not in self._open]
        found = either(self._binding(variable, one) for one in others)
        is_changed = any(one.kind == "augment" for one in bindings)
        return NOTHING_KNOWN if is_changed and not is_tensor(found) else found  # in place, a tensor keeps its dtype

    def value_before(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression that certainly gave a local variable its value, as a whole."""
        variable = self.facts.names.variable_at(name)
        if variable is None:
            return None
        last = self._last_write(variable, self.facts.tree.statement_of(name))
        value = last.value if last is not None else None
        for position in last.selector if last is not None else ():
            elements = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
            value = elements[position].value if position < len(elements) else None
        return value

    def behind(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The same for a name; any other expression is what it is."""
        return self.value_before(node) if isinstance(node, cst.Name) else node

    def unpacked_before(self, name: cst.Name) -> tuple[list[Function], int] | None:
        """The functions of which one certainly gave a local variable its value among others, and its place among
        these: `scores, state = self.net(x, state)`.
        """
        variable = self.facts.names.variable_at(name)
        last = self._last_write(variable, self.facts.tree.statement_of(name)) if variable is not None else None
        if last is None or not isinstance(last.value, cst.Call) or len(last.selector) != 1:
            return None
        function = self.facts.objects.called_function(last.value)
        functions = [function] if function is not None else self._forwards(last.value)
        return (functions, last.selector[0]) if functions else None

    def _last_write(self, variable: Variable, at: Statement) -> Binding | None:
        """The one binding that certainly gives the variable its value at a statement; None where there are several."""
        current: Statement | None = at
        while current is not None:
            for sibling in reversed(current.block.statements[: current.index]):
                if any((variable.name,) == path for inner in sibling.descendants() for path in writes(inner)):
                    bound = [one for one in variable.bindings if one.statement is sibling and one.kind == "assign"]
                    return bound[0] if len(bound) == 1 else None
            current = current.block.owner
            if current is not None and current.is_loop:
                if any((variable.name,) == path for inner in current.descendants() for path in writes(inner)):
                    return None
        return None

    def _binding(self, variable: Variable, binding: Binding) -> Dtypes:
        self._open.add((variable, binding.node))
        try:
            return self._bound(variable, binding)
        finally:
            self._open.discard((variable, binding.node))

    def _bound(self, variable: Variable, binding: Binding) -> Dtypes:
        value = binding.value
        if binding.kind == "param":
            return self._parameter(variable, binding)
        if value is None or binding.kind not in ("assign", "for"):
            return NOTHING_KNOWN
        if binding.kind == "for":
            if _is_weight(value, binding.selector):
                return SINGLE
            return NUMBER if self._is_counter(value, binding.selector) else NOTHING_KNOWN
        if not binding.selector:
            return self.dtypes(value)
        return self._unpacked(value, binding.selector)

    def _is_counter(self, value: cst.BaseExpression, selector: tuple[int, ...]) -> bool:
        """True for `i` of `for i in range(n)` and `for i, x in enumerate(xs)`."""
        if not isinstance(value, cst.Call):
            return False
        name = called_name(value)
        if name in ("tqdm", "reversed") and value.args:
            return self._is_counter(value.args[0].value, selector)
        if name == "enumerate":
            return selector == (0,)
        return not selector and (name in _COUNTERS or self.facts.names.dotted(value.func) == "numpy.arange")

    def _unpacked(self, value: cst.BaseExpression, selector: tuple[int, ...]) -> Dtypes:
        if isinstance(value, (cst.Tuple, cst.List)):
            if len(value.elements) <= selector[0]:
                return NOTHING_KNOWN
            element = value.elements[selector[0]].value
            return self.dtypes(element) if len(selector) == 1 else self._unpacked(element, selector[1:])
        if isinstance(value, cst.Call):
            if called_name(value) in ("size", "len"):
                return NUMBER
            function = self.facts.objects.called_function(value)
            functions = [function] if function is not None else self._forwards(value)
            if functions:
                returned = [one for each in functions for one in self.facts.objects.returned_by(each)]
                return either(self._unpacked(one, selector) for one in returned)
            if (part := self._part(value, selector[0])) is not None:
                return part
        return self.dtypes(value)

    def _part(self, call: cst.Call, position: int) -> Dtypes | None:
        """The dtype of one result of an operation that returns several; None where that is not known."""
        row = operation(self.facts, call)
        if row is None or self.facts.objects.called_function(call) is not None or not -1 < position < len(row.outputs):
            return None
        output = row.outputs[position]
        return self.dtypes(call) if output == "result" else row.other_output(output)

    def _subscript(self, node: cst.Subscript) -> Dtypes:
        index = node.slice[0].slice
        position = literal_value(index.value) if isinstance(index, cst.Index) else None
        if isinstance(node.value, cst.Call) and isinstance(position, int) and not isinstance(position, bool):
            part = self._part(node.value, position)
            if part is not None:
                return part
        return self.dtypes(node.value)

    def _forwards(self, call: cst.Call) -> list[Function]:
        """The forwards of the modules that a call may call; none where something else may be called."""
        if not isinstance(call.func, (cst.Name, cst.Attribute)):
            return []
        owners = [one.origin for one in taken_out(self.facts.names, self.facts.objects, call.func)]
        forwards = [one.methods["forward"] for one in owners if isinstance(one, Class) and "forward" in one.methods]
        return forwards if len(forwards) == len(owners) else []

    def _parameter(self, variable: Variable, binding: Binding) -> Dtypes:
        function = variable.scope.owner
        if not isinstance(function, Function) or not isinstance(binding.node, cst.Param):
            return NOTHING_KNOWN
        given = [
            arg.value
            for call, _ in self.facts.objects.possible_callers(function)
            if (arg := self.facts.objects.argument(call, function, binding.node)) is not None
        ]
        if binding.value is not None and literal_value(binding.value) is not None:
            given.append(binding.value)
        found = {self.dtypes(value) for value in given}
        is_number = binding.value is not None and self.dtypes(binding.value) == NUMBER
        return (
            NUMBER if is_number and found <= {NUMBER, NOTHING_KNOWN} else either(found)
        )  # such as `margin=0.3`, configured

    def _attribute(self, node: cst.Attribute) -> Dtypes:
        if node.attr.value in _PLAIN or self.facts.names.dotted(node) in _CONSTANTS:
            return NUMBER
        row = models.method(node.attr.value)
        if row is not None and row.kind == "property" and (owner := self.dtypes(node.value)):
            return row.dtype([owner], autocast=True)
        if node.attr.value in _WEIGHTS and self._is_layer(node.value):
            return SINGLE
        values = [*self.facts.objects.values_of(node), *self.buffers.get(node.attr.value, [])]
        return either(self.dtypes(value) for value in values)

    def _is_layer(self, node: cst.BaseExpression) -> bool:
        """True for a layer of torch: autocast leaves its weights in float32, whatever it returns."""
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        made = [one.origin for one in self.facts.objects.objects(node)]
        names = [self.facts.names.dotted(one.func) or "" for one in made if isinstance(one, cst.Call)]
        return bool(names) and len(names) == len(made) and all(name.startswith("torch.nn.") for name in names)

    @cached_property
    def buffers(self) -> dict[str, list[cst.BaseExpression]]:
        """What is registered as a buffer, under its name: `self.register_buffer("bank", torch.zeros(n, d))`."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) == "register_buffer" and call.args:
                name = literal_value(call.args[0].value)
                if isinstance(name, str):
                    found.setdefault(name, []).extend(arg.value for arg in call.args[1:2])
        return found

    # -- operations --------------------------------------------------------------------------------------

    def _operation(self, node: cst.BinaryOperation) -> Dtypes:
        left, right = self.dtypes(node.left), self.dtypes(node.right)
        if left == right == NUMBER:
            return NUMBER
        name = _OPERATORS[type(node.operator)]
        if left == NUMBER and name in _REVERSED:
            name, left, right = _REVERSED[name], right, left
        row = models.method(name)
        if row is None or (not row.policy and not (left or right)):
            return NOTHING_KNOWN
        if not row.policy and not (left and right) and not (left | right) & FLOATING:
            return NOTHING_KNOWN
        if name in ("__pow__", "__rpow__") and not (is_tensor(left) or is_tensor(right)):
            return NOTHING_KNOWN
        return self._result(row, [left, right], node)

    def _call(self, node: cst.Call) -> Dtypes:
        name = called_name(node)
        function = self.facts.objects.called_function(node)
        if function is not None and name not in ("__init__",):
            if function.name == "__init__":
                return NOTHING_KNOWN
            return either(self.dtypes(value) for value in self.facts.objects.returned_by(function))
        module = self._of_module(node)
        if module is not None:
            return module
        if name == "Parameter" and node.args:
            given = self.dtypes(node.args[0].value)
            return given if precision(given) is Precision.OTHER else SINGLE
        if name == "len" or self._is_of_numbers(node):
            return NUMBER
        dtype = argument_value(node, "dtype")
        if dtype is not None:
            return self._dtype(dtype)
        first = tensor_operand(self.facts, node)
        if name in ("to", "type") and first is not None:
            return self._converted(node, first)
        row = operation(self.facts, node)
        if row is None:
            return FLOATING if self._is_torchs(node) else NOTHING_KNOWN
        return self._of_operation(row, node)

    def _of_operation(self, row: Operation, node: cst.Call) -> Dtypes:
        inputs = [one for one in operands(self.facts, node) if not _is_no_tensor(one)]
        given = [
            self.dtypes(one) or (SINGLE if self._is_torchs(node) and is_power(one) else NOTHING_KNOWN) for one in inputs
        ]
        if row.takes_one:
            given = [one for one in given if one != NUMBER][row.operand :][:1]
        found = self._result(row, given or [NOTHING_KNOWN], node)
        if len(found) == 1 or all(given):
            return found
        return FLOATING if self._is_torchs(node) and not row.takes_any else NOTHING_KNOWN

    def _result(self, row: Operation, given: Sequence[Dtypes], node: cst.BaseExpression) -> Dtypes:
        """What an operation makes of its inputs; those of which nothing is known are taken to be floating."""
        inputs = [one or FLOATING for one in given]
        if row.policy and self._is_in_island(node):  # where what autocast would cast is given float32
            inputs = [one - HALF | SINGLE if one & HALF else one for one in inputs]
            return row.dtype(inputs, autocast=False)
        if not row.half_kernel and not row.policy:  # it raises, or is given float32
            inputs = [one - HALF | SINGLE if one & HALF else one for one in inputs]
        # Without dimensions, a float32 tensor leaves half tensors half.
        small = [place for place, one in enumerate(inputs) if one & SINGLE]
        return row.dtype(inputs, autocast=True) | row.dtype(inputs, autocast=True, zero_dim=small)

    def _is_of_numbers(self, node: cst.Call) -> bool:
        """`math.exp(x)`, `float(x)`, `np.float64(x)`, and `np.exp(x)` of a number."""
        dotted = self.facts.names.dotted(node.func) or ""
        if isinstance(node.func, cst.Name) and self.facts.names.variable_at(node.func) is None:
            return node.func.value == "float"
        if dotted.startswith("math.") or _NUMPY_NUMBER.fullmatch(dotted) is not None:
            return True
        return _NUMPY_FUNCTION.fullmatch(dotted) is not None and all(
            self.dtypes(arg.value) == NUMBER for arg in node.args
        )

    def _is_in_island(self, node: cst.BaseExpression) -> bool:
        return self.facts.tree.statement_of(node) in self.safety.islands

    def _is_torchs(self, node: cst.Call) -> bool:
        """A function of torch itself: what it returns is most probably a tensor."""
        dotted = self.facts.names.dotted(node.func) or ""
        if called_name(node)[:1].isupper() and not dotted.endswith("Tensor"):
            return False
        return (
            dotted.startswith("torch.")
            and dotted.count(".") <= 3
            and not dotted.startswith(("torch.nn.init", "torch.cuda"))
        )

    def _dtype(self, node: cst.BaseExpression) -> Dtypes:
        """What `dtype=` asks for."""
        name = (self.facts.names.dotted(node) or "").rpartition(".")[2]
        if isinstance(node, cst.Attribute) and node.attr.value == "dtype":
            return self.dtypes(node.value)
        return _NAMED.get(name, OTHER) if name else FLOATING

    def _converted(self, node: cst.Call, receiver: cst.BaseExpression) -> Dtypes:
        """`x.to(device)`, `x.to(torch.float32)`, `x.to(y.dtype)`."""
        values = [arg.value for arg in node.args]
        for value in values:
            if (self.facts.names.dotted(value) or "").startswith("torch.") or (
                isinstance(value, cst.Attribute) and value.attr.value == "dtype"
            ):
                return self._dtype(value)
        return self.dtypes(receiver)

    def of_module(self, node: cst.Call) -> Precision | None:
        """What a module returns that is called; None where it is none that is known."""
        found = self._of_module(node)
        return precision(found) if found is not None else None

    def _of_module(self, node: cst.Call) -> Dtypes | None:
        """What a module returns that is called; None where it is none that is known."""
        callee = node.func
        if isinstance(callee, cst.Call):
            return self._made_by(callee, node)
        if not isinstance(callee, (cst.Name, cst.Attribute, cst.Subscript)):
            return None
        found = []
        for one in taken_out(self.facts.names, self.facts.objects, callee):
            if isinstance(one.origin, cst.Call) and one.kind == "call":
                made = self._made_by(one.origin, node)
                if made is None:
                    return None
                found.append(made)
            elif isinstance(one.origin, Class) and "forward" in one.origin.methods:
                found += [self.dtypes(value) for value in self.facts.objects.returned_by(one.origin.methods["forward"])]
        return either(found) if found else None

    def _made_by(self, made: cst.Call, call: cst.Call) -> Dtypes | None:
        """What the module that `made` constructs returns for a call."""
        made = self._bare(made)
        dotted = self.facts.names.dotted(made.func) or ""
        if not dotted.startswith("torch.nn.") and models.layer(dotted) is None:
            return None
        given = [self.dtypes(arg.value) for arg in call.args if not arg.star and arg.keyword is None]
        return self._through(made, given or [NOTHING_KNOWN])

    def _through(self, made: cst.Call, given: list[Dtypes]) -> Dtypes:
        """What a layer of torch returns for inputs. Of a container, each layer has what the one before it returned."""
        dotted = self.facts.names.dotted(made.func) or ""
        if dotted == "torch.nn.Sequential":
            for arg in made.args:
                is_layer = not arg.star and isinstance(arg.value, cst.Call)
                given = [
                    self._through(self._bare(cst.ensure_type(arg.value, cst.Call)), given) if is_layer else FLOATING
                ]
            return given[0] or FLOATING
        row = models.layer(dotted)
        if row is None:
            return FLOATING
        if row.takes_one:
            given = given[row.operand :][:1] or [NOTHING_KNOWN]
        found = self._result(row, given, made)
        return found if found and (len(found) == 1 or all(given)) else FLOATING

    def _bare(self, made: cst.Call) -> cst.Call:
        """The layer of `weight_norm(nn.Conv1d(...))`, which returns what the layer does."""
        inner = made.args[0].value if made.args else None
        return self._bare(inner) if isinstance(inner, cst.Call) and self._only_reparameterizes(made.func) else made

    def _only_reparameterizes(self, func: cst.BaseExpression) -> bool:
        """True for `weight_norm`, and for `norm` after `norm = spectral_norm if spectral else weight_norm`."""
        meant = self.facts.objects.values_of(func) if isinstance(func, cst.Name) else []
        chosen = [(one.body, one.orelse) if isinstance(one, cst.IfExp) else (one,) for one in meant or [func]]
        return all(_REPARAMETERIZED.match(self.facts.names.dotted(one) or "") for ones in chosen for one in ones)


def is_power(node: cst.BaseExpression | None) -> bool:
    """`x ** 2`, which is float32 under autocast if x is a tensor at all."""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power)


def _is_no_tensor(node: cst.BaseExpression) -> bool:
    """True for texts, None and truth values, which no promotion sees."""
    value = literal_value(node)
    return value is not UNKNOWN and (value is None or isinstance(value, (str, bool, bytes)))


def _is_weight(value: cst.BaseExpression, selector: tuple[int, ...]) -> bool:
    """True for `p` of `for p in net.parameters()`, of `for name, p in net.named_parameters()`, and of a zip of them."""
    if not isinstance(value, cst.Call):
        return False
    name = called_name(value)
    if name == "zip" and selector and selector[0] < len(value.args):
        return _is_weight(value.args[selector[0]].value, selector[1:])
    return (name == "parameters" and not selector) or (name == "named_parameters" and selector == (1,))
