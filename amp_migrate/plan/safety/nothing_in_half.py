"""Trainings in which autocast would change nothing: sums of embeddings, distances, products of sparse matrices.

score = (head + relation - tail).norm(dim=1)          no operation of CUDA autocast's list for half

Whatever is not known for certain may run in half: only names that torch itself gives are looked at.
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.models import names
from amp_migrate.models.queries import in_half, never_in_half
from amp_migrate.plan.regions.tensors import TENSOR_METHODS
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import NOTHING_IN_HALF

_LAYERS = re.compile(
    r"torch\.nn\.(Embedding|EmbeddingBag|Parameter|Identity|Flatten|Dropout\w*|AlphaDropout|\w*Norm\w*|\w*Pool\w*|ReLU6?"
    r"|LeakyReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Sigmoid|LogSigmoid|Tanh|Soft\w+|LogSoftmax|Hard\w+|ZeroPad\w+"
    r"|CosineSimilarity|PairwiseDistance|\w*Loss)$"
)
_OF_PYTHON = re.compile(r"(?:math|random|time|datetime|numpy|os|logging|collections|itertools|functools)(?:\.|$)")
# Methods of containers, and those that ask a tensor for its parts.
_OF_PARTS = frozenset("append extend insert pop update items keys values get join format indices coalesce".split())


def note_what_stays_in_float32(context: Context) -> None:
    """Says it where nothing under autocast would be computed in half."""
    statements = [one for one in context.reach.statements if one not in context.safety.islands]
    parts = [part for statement in statements for part in context.facts.tree.expressions(statement)]
    running = {statement.function for statement in context.reach.statements}
    if parts and not any(_may_run_in_half(context, running, part) for part in parts):
        context.note(parts[0], NOTHING_IN_HALF, "nothing that runs here is computed in half under autocast")


def _may_run_in_half(context: Context, running: set[Function], part: cst.CSTNode) -> bool:
    if isinstance(part, cst.BinaryOperation):
        return isinstance(part.operator, cst.MatrixMultiply)
    if not isinstance(part, cst.Call):
        return False
    if called_name(part) in names(in_half):
        return True
    dotted = context.facts.names.dotted(part.func) or ""
    is_known = called_name(part) in TENSOR_METHODS | _OF_PARTS | names(never_in_half)
    if dotted.startswith("torch."):
        return not is_known and _LAYERS.match(dotted) is None
    if dotted:
        return _OF_PYTHON.match(dotted) is None and not context.facts.objects.candidates(part)
    if isinstance(part.func, cst.Name) and context.facts.names.variable_at(part.func) is None:
        return part.func.value in ("getattr", "eval", "map")
    return not _is_read(context, running, part) and _may_be_layer(context, part, is_known=is_known)


def _is_read(context: Context, running: set[Function], call: cst.Call) -> bool:
    """True for functions of the unit; of a method whose object is not known, all that have its name are `running`."""
    if context.facts.objects.candidates(call):
        return True
    methods = {one.methods[called_name(call)] for one in context.facts.tree.classes if called_name(call) in one.methods}
    return bool(methods) and methods <= running


def _may_be_layer(context: Context, call: cst.Call, *, is_known: bool) -> bool:
    """True for what is called, unless it is a layer that is known, a module of the unit, or a method of tensors."""
    held = context.facts.objects.objects(call.func)
    modules = [one.origin for one in held if isinstance(one.origin, (cst.Call, Class))]
    if not modules:
        return not (is_known and isinstance(call.func, cst.Attribute))
    return not all(_is_known_layer(context, module) for module in modules)


def _is_known_layer(context: Context, module: object) -> bool:
    if isinstance(module, cst.Call):
        return _LAYERS.match(context.facts.names.dotted(module.func) or "") is not None
    return isinstance(module, Class) and any(
        "forward" in one.methods for one in context.facts.objects.ancestors(module)
    )
