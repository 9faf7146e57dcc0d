"""Which expressions of a program are certainly tensors, by what torch's layers, functions, and losses give and take."""

from __future__ import annotations

import ast

from tests.metamorphic.program import Program

_LAYERS = set(
    "Linear Conv1d Conv2d Conv3d ConvTranspose2d BatchNorm1d BatchNorm2d LayerNorm GroupNorm InstanceNorm2d Embedding "
    "ReLU LeakyReLU GELU SiLU ELU PReLU Sigmoid Tanh Softmax LogSoftmax Dropout Dropout2d MaxPool2d AvgPool2d "
    "AdaptiveAvgPool2d Flatten Bilinear Softplus".split()
)
_FUNCTIONS = set(
    "relu leaky_relu gelu silu elu sigmoid tanh softmax log_softmax dropout linear conv2d layer_norm normalize softplus".split()
)
_LOSSES = set(
    "CrossEntropyLoss MSELoss L1Loss SmoothL1Loss BCELoss BCEWithLogitsLoss NLLLoss HuberLoss KLDivLoss SoftMarginLoss".split()
)
_LOSS_FUNCTIONS = set(
    "cross_entropy mse_loss l1_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits nll_loss "
    "huber_loss kl_div".split()
)


class Tensors:
    """What holds a layer or a loss in a program: names that are bound once, to one of torch's own."""

    def __init__(self, program: Program) -> None:
        nodes = program.nodes()
        aliases = [one for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for one in node.names]
        self.functional = {one.asname for one in aliases if one.name == "torch.nn.functional"} | {
            one.asname or one.name for one in aliases if one.name == "functional"
        }
        self.torch = {one.asname or one.name for one in aliases if one.name == "torch"}
        self.has_torch = "torch" in self.torch and all(
            any(isinstance(one, ast.Import) and one.names[0].name == "torch" for one in tree.body)
            for tree in program.files.values()
        )
        bound: dict[str, set[str]] = {}
        for node in nodes:
            for target in node.targets if isinstance(node, ast.Assign) else []:
                for name in _names(target):
                    kind = _last(_made_by(node.value)) if isinstance(target, (ast.Name, ast.Attribute)) else ""  # type: ignore[attr-defined]
                    bound.setdefault(name, set()).add(kind)
            if isinstance(node, (ast.arg, ast.For, ast.comprehension, ast.withitem)):
                for name in _otherwise_bound(node):
                    bound.setdefault(name, set()).add("")
        own = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        self.layers = {name for name, kinds in bound.items() if kinds <= _LAYERS - own}
        self.losses = {name for name, kinds in bound.items() if kinds <= _LOSSES - own}

    def is_tensor(self, node: ast.expr, parent: ast.AST, any_dimensions: bool) -> bool:
        """True for a tensor of at least one dimension, or of whatever number; what is called stays as it is."""
        if isinstance(parent, ast.Call) and node in parent.args[:1] and self._is_loss(parent):
            return isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))
        if not isinstance(node, ast.Call):
            return False
        return self._is_layer(node) or (any_dimensions and self._is_loss(node) and not _has_keywords(node))

    def _is_layer(self, call: ast.Call) -> bool:
        path, _, name = ast.unparse(call.func).rpartition(".")
        if name in _FUNCTIONS and (path in self.functional or path in self.torch):
            return "inplace" not in {one.arg for one in call.keywords}
        return name in self.layers and path in ("", "self")

    def _is_loss(self, call: ast.Call) -> bool:
        path, _, name = ast.unparse(call.func).rpartition(".")
        return (name in _LOSS_FUNCTIONS and path in self.functional) or (name in self.losses and path in ("", "self"))


def _has_keywords(call: ast.Call) -> bool:
    return any(one.arg == "reduction" for one in call.keywords)


def _made_by(value: ast.expr) -> ast.expr:
    """`nn.Linear` of `nn.Linear(3, 4).cuda()`"""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("cuda", "to"):
        value = value.func.value
    return value.func if isinstance(value, ast.Call) else value


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _names(target: ast.expr) -> set[str]:
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(target)
        if isinstance(one, (ast.Name, ast.Attribute))
    }


def _otherwise_bound(node: ast.arg | ast.For | ast.comprehension | ast.withitem) -> set[str]:
    if isinstance(node, ast.arg):
        return {node.arg}
    target = node.optional_vars if isinstance(node, ast.withitem) else node.target
    return _names(target) if target is not None else set()
