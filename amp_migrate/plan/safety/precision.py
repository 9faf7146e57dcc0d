"""In which precision an expression is under CUDA autocast, as far as the code tells.

Operations have the dtype that autocast's policy gives them; everything else passes on what it is given. Values are
followed through names, through parameters to their calls, and into the functions and modules of the unit.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from amp_migrate import autocast_policy as policy
from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.facts.tree import Class, Function, Statement, argument_value, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.safety.kernels import CAST_AGAIN, LINEAR_ALGEBRA
from amp_migrate.plan.safety.repairs import Safety


class Precision(enum.Enum):
    """What a value is."""

    HALF = "a half tensor"
    SINGLE = "a float32 tensor"
    FLOATING = "a tensor, half or float32"
    OTHER = "a tensor of integers, booleans, doubles or complex numbers"
    NUMBER = "a number of Python"
    UNKNOWN = "anything"

    @property
    def is_tensor(self) -> bool:
        return self not in (Precision.NUMBER, Precision.UNKNOWN)

    @property
    def may_be_half(self) -> bool:
        """True for tensors that autocast may have made half."""
        return self in (Precision.HALF, Precision.FLOATING)


HALF, SINGLE, FLOATING = Precision.HALF, Precision.SINGLE, Precision.FLOATING
OTHER, NUMBER, NOTHING_KNOWN = Precision.OTHER, Precision.NUMBER, Precision.UNKNOWN


IN_HALF = policy.IN_HALF
# Composites among them end in one of the policy's own: normalize in a norm, cross_entropy in nll_loss.
IN_FLOAT32 = (
    policy.bare(policy.FP32)
    | policy.bare(policy.FP32_BY_DTYPE)
    | policy.bare(policy.FP32_BY_OVERLOAD)
    | frozenset("softmax log_softmax softmin gumbel_softmax cross_entropy normalize pairwise_distance square".split())
)
_HALF_LAYERS = re.compile(r"torch\.nn\.(Linear|Conv\w+|LazyLinear|LazyConv\w+)$")
_FLOAT32_LAYERS = re.compile(
    r"torch\.nn\.(LayerNorm|GroupNorm|Softmax|Softmax2d|LogSoftmax|Softmin|Softplus|Embedding|EmbeddingBag"
    r"|Bilinear|CosineSimilarity|PairwiseDistance|\w*Loss)$"
)
_TUPLE_LAYERS = re.compile(r"torch\.nn\.(RNN|LSTM|GRU|MultiheadAttention|\w*Cell|AdaptiveLogSoftmaxWithLoss)$")
_REPARAMETERIZED = re.compile(r"torch\.nn\.utils\.(parametrizations\.)?(weight_norm|spectral_norm)$")
# Half has no kernel for these; the values of the two left out are complex.
_FLOAT32_OR_NOTHING = frozenset(LINEAR_ALGEBRA | CAST_AGAIN) - {"eig", "eigvals"}
_TO_FLOAT32 = frozenset(("float",))
_TO_OTHER = frozenset(
    "double long int bool byte short char argmax argmin argsort nonzero eq ne gt ge lt le isnan isinf isfinite "
    "randint randperm one_hot bincount searchsorted bucketize complex view_as_complex polar logical_not logical_and "
    "logical_or multinomial fft ifft rfft fft2 ifft2 rfft2 fftn ifftn rfftn tril_indices triu_indices".split()
)
_MADE = frozenset("zeros ones empty rand randn full eye linspace FloatTensor normal hann_window hamming_window".split())
_LIKE = frozenset("zeros_like ones_like empty_like rand_like randn_like full_like new_zeros new_ones new_empty".split())
_LIKE |= frozenset(("new_full", "new_tensor"))
PASSING_ON = frozenset(
    "view reshape permute transpose t contiguous flatten unflatten squeeze unsqueeze expand expand_as repeat clone "
    "detach cuda cpu chunk split unbind gather index_select narrow mean max min amax amin relu sigmoid tanh sqrt abs "
    "clamp clamp_min clamp_max clip dropout dropout2d leaky_relu elu gelu silu selu hardtanh max_pool1d max_pool2d "
    "avg_pool1d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d unfold fold roll flip std var sin cos diagonal diag "
    "masked_fill masked_fill_ pad repeat_interleave triu tril movedim swapaxes view_as neg sign floor round topk sort "
    "median requires_grad_ relu_ clamp_ squeeze_ unsqueeze_ log_ exp_ sqrt_ mul_ add_ sub_ div_ take_along_dim "
    "batch_norm instance_norm relu6 logsigmoid retain_grad masked_select select take fill_ zero_ "
    "to_dense type_as_ trace".split()
)
_JOINING = frozenset("cat stack concat hstack vstack dstack".split())
_COMBINING = frozenset("add sub mul div multiply subtract true_divide maximum minimum where".split())
_WITH_INDICES = frozenset("max min topk sort kthvalue median mode".split())
_SAME_DTYPE = frozenset("T mT H data real".split())
_WEIGHTS = frozenset("weight bias in_proj_weight in_proj_bias".split())
_PLAIN = frozenset("shape dtype device ndim requires_grad is_cuda training".split())
_NUMPY_NUMBER = re.compile(r"numpy\.(?:float|int)\d*_?")
_NUMPY_FUNCTION = re.compile(r"numpy\.(?:exp|log|sqrt|tanh|cos|sin|power|minimum|maximum|clip)")
_COUNTERS = frozenset("range xrange trange".split())
_CONSTANTS = frozenset("math.pi math.e math.tau math.inf numpy.pi numpy.e numpy.inf torch.pi torch.e torch.inf".split())
_NUMBERS = frozenset("size dim len item int stride nelement numel".split())
# What autocast leaves in the dtype that it is given.
CHANGES_NOTHING = _TO_OTHER | _MADE | _LIKE | PASSING_ON | _JOINING | _COMBINING | _NUMBERS | _TO_FLOAT32
CHANGES_NOTHING |= {"to", "type"}
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

    def _of(self, node: cst.BaseExpression) -> Precision:
        if literal_value(node) is not UNKNOWN:
            return NUMBER
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Subscript):
            if isinstance(node.value, cst.Call) and called_name(node.value) in _WITH_INDICES:
                second = literal_value(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else 0
                return OTHER if second == 1 else self.of(node.value)
            return self.of(node.value)
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.UnaryOperation):
            return OTHER if isinstance(node.operator, (cst.BitInvert, cst.Not)) else self.of(node.expression)
        if isinstance(node, cst.Comparison):
            return OTHER if self.of(node.left).is_tensor else NOTHING_KNOWN
        if isinstance(node, cst.IfExp):
            return either([self.of(node.body), self.of(node.orelse)])
        return NOTHING_KNOWN

    # -- values ------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name) -> Precision:
        variable = self.facts.names.variable_at(node)
        if variable is None:
            return NOTHING_KNOWN
        found = self._variable(variable, node)
        if found is NOTHING_KNOWN and self._is_used_as_tensor(variable):
            return FLOATING
        return found

    def _is_used_as_tensor(self, variable: Variable) -> bool:
        return isinstance(variable.scope.owner, Function) and any(
            self.tensors.shows_tensor(load) for load in variable.loads
        )

    def _variable(self, variable: Variable, load: cst.Name) -> Precision:
        statement = self.facts.tree.statement_of(load)
        last = self._last_write(variable, statement) if variable.scope.owner is statement.function else None
        bindings = [last] if last is not None else variable.bindings
        # What is asked for already, `x = x.view(-1)` in a loop, adds nothing to what the others say.
        others = [one for one in bindings if one.kind != "augment" and (variable, one.node) not in self._open]
        found = either(self._binding(variable, one) for one in others)
        is_changed = any(one.kind == "augment" for one in bindings)
        return NOTHING_KNOWN if is_changed and not found.is_tensor else found  # in place, a tensor keeps its dtype

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

    def _binding(self, variable: Variable, binding: Binding) -> Precision:
        self._open.add((variable, binding.node))
        try:
            return self._bound(variable, binding)
        finally:
            self._open.discard((variable, binding.node))

    def _bound(self, variable: Variable, binding: Binding) -> Precision:
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
            return self.of(value)
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

    def _unpacked(self, value: cst.BaseExpression, selector: tuple[int, ...]) -> Precision:
        if isinstance(value, (cst.Tuple, cst.List)):
            if len(value.elements) <= selector[0]:
                return NOTHING_KNOWN
            element = value.elements[selector[0]].value
            return self.of(element) if len(selector) == 1 else self._unpacked(element, selector[1:])
        if isinstance(value, cst.Call):
            if called_name(value) in ("size", "len"):
                return NUMBER
            if called_name(value) in _WITH_INDICES and selector == (1,):
                return OTHER
            function = self.facts.objects.called_function(value)
            functions = [function] if function is not None else self._forwards(value)
            if functions:
                returned = [one for each in functions for one in self.facts.objects.returned_by(each)]
                return either(self._unpacked(one, selector) for one in returned)
        found = self.of(value)
        return found if found.is_tensor or found is NUMBER else NOTHING_KNOWN

    def _forwards(self, call: cst.Call) -> list[Function]:
        """The forwards of the modules that a call may call; none where something else may be called."""
        if not isinstance(call.func, (cst.Name, cst.Attribute)):
            return []
        owners = [one.origin for one in taken_out(self.facts.names, self.facts.objects, call.func)]
        forwards = [one.methods["forward"] for one in owners if isinstance(one, Class) and "forward" in one.methods]
        return forwards if len(forwards) == len(owners) else []

    def _parameter(self, variable: Variable, binding: Binding) -> Precision:
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
        found = {self.of(value) for value in given}
        is_number = binding.value is not None and self.of(binding.value) is NUMBER
        return (
            NUMBER if is_number and found <= {NUMBER, NOTHING_KNOWN} else either(found)
        )  # such as `margin=0.3`, configured

    def _attribute(self, node: cst.Attribute) -> Precision:
        if node.attr.value in _SAME_DTYPE:
            return self.of(node.value)
        if node.attr.value in _PLAIN or self.facts.names.dotted(node) in _CONSTANTS:
            return NUMBER
        if node.attr.value in _WEIGHTS and self._is_layer(node.value):
            return SINGLE
        values = [*self.facts.objects.values_of(node), *self.buffers.get(node.attr.value, [])]
        return either(self.of(value) for value in values)

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

    def _operation(self, node: cst.BinaryOperation) -> Precision:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.operator, cst.MatrixMultiply):
            return SINGLE if self._is_in_island(node) else HALF
        if isinstance(node.operator, cst.Power) and (left.is_tensor or right.is_tensor):
            return OTHER if OTHER in (left, right) else SINGLE
        if isinstance(node.operator, cst.Divide) and left is NUMBER and right.is_tensor:
            return SINGLE  # reciprocal
        return _promoted(left, right)

    def _call(self, node: cst.Call) -> Precision:
        name = called_name(node)
        function = self.facts.objects.called_function(node)
        if function is not None and name not in ("__init__",):
            if function.name == "__init__":
                return NOTHING_KNOWN
            return either(self.of(value) for value in self.facts.objects.returned_by(function))
        module = self.of_module(node)
        if module is not None:
            return module
        if name == "Parameter" and node.args:
            return OTHER if self.of(node.args[0].value) is OTHER else SINGLE
        if name in _NUMBERS or self._is_of_numbers(node):
            return NUMBER
        first = tensor_operand(self.facts, node)
        if name in _TO_FLOAT32 and isinstance(node.func, cst.Attribute):
            return SINGLE
        if name == "half" and isinstance(node.func, cst.Attribute):
            return HALF
        dtype = argument_value(node, "dtype")
        if dtype is not None:
            return self._dtype(dtype)
        if name in ("to", "type", "type_as") and first is not None:
            return self._converted(node, first)
        if name in IN_HALF:
            return SINGLE if self._is_in_island(node) else HALF
        if name in _FLOAT32_OR_NOTHING and self._is_torchs(node):
            return SINGLE
        if name in IN_FLOAT32:
            return OTHER if first is not None and self.of(first) is OTHER else SINGLE
        if name in _TO_OTHER:
            return OTHER
        if name in _MADE and self._is_torchs(node):
            return SINGLE
        if name in _LIKE or name in PASSING_ON:
            found = self.of(first) if first is not None else NOTHING_KNOWN
            if found is NOTHING_KNOWN and self._is_torchs(node):
                return SINGLE if is_power(first) else FLOATING
            return found
        if name in _JOINING and node.args and isinstance(node.args[0].value, (cst.List, cst.Tuple)):
            parts = [self.of(element.value) for element in node.args[0].value.elements]
            return (
                parts[0] if len(set(parts)) == 1 else (FLOATING if any(part.is_tensor for part in parts) else parts[0])
            )
        if name in _COMBINING and node.args:
            operands = [arg.value for arg in node.args if arg.keyword is None]
            operands = operands[1:] if name == "where" else [*([first] if first is not None else []), *operands][:2]
            found = NUMBER
            for operand in operands:
                found = _promoted(found, self.of(operand))
            return found
        return FLOATING if self._is_torchs(node) and name not in ("tensor", "arange", "range") else NOTHING_KNOWN

    def _is_of_numbers(self, node: cst.Call) -> bool:
        """`math.exp(x)`, `float(x)`, `np.float64(x)`, and `np.exp(x)` of a number."""
        dotted = self.facts.names.dotted(node.func) or ""
        if isinstance(node.func, cst.Name) and self.facts.names.variable_at(node.func) is None:
            return node.func.value == "float"
        if dotted.startswith("math.") or _NUMPY_NUMBER.fullmatch(dotted) is not None:
            return True
        return _NUMPY_FUNCTION.fullmatch(dotted) is not None and all(self.of(arg.value) is NUMBER for arg in node.args)

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

    def _dtype(self, node: cst.BaseExpression) -> Precision:
        """The precision that `dtype=` asks for."""
        name = (self.facts.names.dotted(node) or "").rpartition(".")[2]
        if name in ("float32", "float"):
            return SINGLE
        if name in ("float16", "half"):
            return HALF
        if isinstance(node, cst.Attribute) and node.attr.value == "dtype":
            return self.of(node.value)
        return OTHER if name else FLOATING

    def _converted(self, node: cst.Call, receiver: cst.BaseExpression) -> Precision:
        """`x.to(device)`, `x.to(torch.float32)`, `x.to(y.dtype)`, `x.type_as(y)`."""
        values = [arg.value for arg in node.args]
        if called_name(node) == "type_as" and values:
            return self.of(values[0])
        for value in values:
            if (self.facts.names.dotted(value) or "").startswith("torch.") or (
                isinstance(value, cst.Attribute) and value.attr.value == "dtype"
            ):
                return self._dtype(value)
        return self.of(receiver)

    def of_module(self, node: cst.Call) -> Precision | None:
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
                found += [self.of(value) for value in self.facts.objects.returned_by(one.origin.methods["forward"])]
        return either(found) if found else None

    def _made_by(self, made: cst.Call, call: cst.Call) -> Precision | None:
        """What the module that `made` constructs returns for a call."""
        made = self._bare(made)
        dotted = self.facts.names.dotted(made.func) or ""
        if not dotted.startswith("torch.nn."):
            return None
        found = self._of_layer(made)
        if found is None and call.args and not call.args[0].star:
            found = self.of(call.args[0].value)
            return FLOATING if found is NOTHING_KNOWN else found
        return found or FLOATING

    def _of_layer(self, made: cst.Call) -> Precision | None:
        """What a layer of torch returns whatever it is given; None where it passes on what it is given."""
        dotted = self.facts.names.dotted(made.func) or ""
        if not dotted.startswith("torch.nn."):
            return FLOATING
        if _HALF_LAYERS.match(dotted):
            return HALF
        if _FLOAT32_LAYERS.match(dotted):
            return SINGLE
        if _TUPLE_LAYERS.match(dotted):
            return NOTHING_KNOWN
        if dotted == "torch.nn.Sequential":
            return self._of_last(made)
        return None

    def _bare(self, made: cst.Call) -> cst.Call:
        """The layer of `weight_norm(nn.Conv1d(...))`, which returns what the layer does."""
        inner = made.args[0].value if made.args else None
        return self._bare(inner) if isinstance(inner, cst.Call) and self._only_reparameterizes(made.func) else made

    def _only_reparameterizes(self, func: cst.BaseExpression) -> bool:
        """True for `weight_norm`, and for `norm` after `norm = spectral_norm if spectral else weight_norm`."""
        meant = self.facts.objects.values_of(func) if isinstance(func, cst.Name) else []
        chosen = [(one.body, one.orelse) if isinstance(one, cst.IfExp) else (one,) for one in meant or [func]]
        return all(_REPARAMETERIZED.match(self.facts.names.dotted(one) or "") for ones in chosen for one in ones)

    def _of_last(self, container: cst.Call) -> Precision | None:
        """What the last layer that decides it makes of a container's input: of Linear and ReLU it is Linear."""
        for arg in reversed(container.args):
            if arg.star or not isinstance(arg.value, cst.Call):
                return FLOATING
            found = self._of_layer(self._bare(arg.value))
            if found is not None:
                return found if found.is_tensor else FLOATING
        return None


def tensor_operand(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that an operation is about: X of `torch.exp(X)`, `F.relu(X)` and `X.exp()`."""
    if isinstance(call.func, cst.Attribute) and not is_of_module(facts, call.func):
        return call.func.value
    first = next((arg for arg in call.args if not arg.star), None)
    return first.value if first is not None and (first.keyword is None or first.keyword.value == "input") else None


def is_of_module(facts: Facts, func: cst.Attribute) -> bool:
    """True for `torch.exp` and `F.relu`: the attribute of an imported module, not the method of a tensor."""
    return facts.names.dotted(func.value) is not None or facts.text(func.value) in ("torch", "F")


def either(found: Iterable[Precision]) -> Precision:
    """What may be one or the other; nothing at all is nothing known."""
    kinds = set(found)
    if len(kinds) == 1:
        return kinds.pop()
    return FLOATING if kinds and kinds <= {HALF, SINGLE, FLOATING} else NOTHING_KNOWN


def _promoted(left: Precision, right: Precision) -> Precision:
    """Type promotion. A float32 tensor without dimensions leaves half tensors half, so that mixtures are either."""
    kinds = {left, right} - {NUMBER}
    if not kinds:
        return NUMBER
    if NOTHING_KNOWN in kinds:
        return FLOATING if kinds & {HALF, SINGLE, FLOATING} else NOTHING_KNOWN
    if len(kinds) == 1:
        return kinds.pop()
    return either(kinds - {OTHER})


def is_power(node: cst.BaseExpression | None) -> bool:
    """`x ** 2`, which is float32 under autocast if x is a tensor at all."""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power)


def _is_weight(value: cst.BaseExpression, selector: tuple[int, ...]) -> bool:
    """True for `p` of `for p in net.parameters()`, of `for name, p in net.named_parameters()`, and of a zip of them."""
    if not isinstance(value, cst.Call):
        return False
    name = called_name(value)
    if name == "zip" and selector and selector[0] < len(value.args):
        return _is_weight(value.args[selector[0]].value, selector[1:])
    return (name == "parameters" and not selector) or (name == "named_parameters" and selector == (1,))
