"""What `apex.fp16_utils` is made of, and how its parts are recognised.

They are known by where they are imported from. A class that was copied into the repository is known by what it does:
a wrapper of an optimizer that makes the backward itself and keeps master weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.findings import Finding
from amp_migrate.rules.fp16_utils import STATE_LOSES_PREFIX

MODULES = (
    "apex.fp16_utils",
    "apex.optimizers.FP16_Optimizer",
    "apex.optimizers.fp16_optimizer",
    "apex.contrib.optimizers.FP16_Optimizer",
    "apex.contrib.optimizers.fp16_optimizer",
)

# The name that a class of the unit's own gets in the lowered program, where the class itself is gone.
MARK = "__FP16_Optimizer__"

OPTIMIZERS = frozenset(("FP16_Optimizer", MARK))
# They return the model that they are given, in half.
MODEL_CASTS = frozenset(
    "network_to_half FP16Model FP16_Module BN_convert_float batchnorm_to_float convert_network convert_module".split()
)
# They change the prefix of the keys of the state.
PREFIXES = {"network_to_half": "1.", "FP16Model": "network.", "FP16_Module": "module."}
# How the model inside is reached.
ACCESSORS = {"network_to_half": "[1]", "FP16Model": ".network"}
HAND_LOOPS = frozenset("prep_param_lists model_grads_to_master_grads master_params_to_model_params".split())
HELPERS = frozenset("to_python_float clip_grad_norm".split())
SCALERS = frozenset("LossScaler DynamicLossScaler tofp16".split())
KNOWN = OPTIMIZERS | MODEL_CASTS | HAND_LOOPS | HELPERS | SCALERS

# Methods of FP16_Optimizer that no optimizer has ([A:apex/fp16_utils/fp16_optimizer.py]; the clip of its copies, too).
CLIPS = frozenset("clip_master_grads clip_fp32_grads".split())
# They bring one set of weights up to the other: natively there is one.
COPIES = frozenset("_model_params_to_master_params _master_params_to_model_params".split())
METHODS = CLIPS | COPIES | {"update_master_grads", "inspect_master_grad_data"}

_WORDS = re.compile("|".join(KNOWN | METHODS))
_OWN_METHODS = METHODS | {"_update_scale", "_downscale_master", "_check_overflow", "_model_grads_to_master_grads"}
_MASTERS = re.compile(rb"master|fp32_groups_flat|fp32_from_fp16|loss_scale")


def may_hold_form(facts: Facts) -> bool:
    """False only where nothing is of the form: no name of it is said, and no class wraps an optimizer."""
    return facts.says(_WORDS) or any(map(is_wrapper, facts.tree.classes))


def form_name(facts: Facts, node: cst.BaseExpression) -> str | None:
    """The name in `apex.fp16_utils` of what an expression means, or of what it is a copy of."""
    if isinstance(node, cst.Name) and node.value == MARK:
        return MARK
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return None
    for path in (*facts.names.imported_as(node), *facts.objects.import_paths(node)):
        name = path.rpartition(".")[2]
        if name in KNOWN and (_is_apex(path) or (name not in HELPERS and _is_copy(facts, path, name))):
            return name
    function = facts.objects.function_named(node)
    if function is not None and function.owner is None and function.name in MODEL_CASTS | HAND_LOOPS:
        return function.name
    if own_class(facts, node) is not None:
        return "FP16_Optimizer"
    name = node.value if isinstance(node, cst.Name) else ""
    return name if name in PREFIXES and any(one.name == name for one in facts.tree.classes) else None


def is_of_apex(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for what is imported from apex itself."""
    return any(_is_apex(path) for path in (*facts.names.imported_as(node), *facts.objects.import_paths(node)))


def unknown_copy(facts: Facts, node: cst.BaseExpression) -> str | None:
    """The full name of what has the name of the class, and cannot be looked at."""
    if isinstance(node, (cst.Name, cst.Attribute)) and form_name(facts, node) is None:
        for path in facts.names.imported_as(node):
            if path.rpartition(".")[2] == "FP16_Optimizer" and facts.elsewhere.source_of(path) is None:
                return path
    return None


def own_class(facts: Facts, node: cst.BaseExpression) -> Class | None:
    """The class of the unit that a name means, where it is such a wrapper."""
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    for owner in facts.tree.classes:
        if owner.name == name and is_wrapper(owner):
            return owner
    return None


def is_wrapper(owner: Class) -> bool:
    """True for a class that wraps an optimizer: it makes the backward of a loss, steps, and has masters to keep."""
    backward = owner.methods.get("backward")
    if backward is None or not {"__init__", "step"} <= owner.methods.keys():
        return False
    takes_loss = len(backward.parameters) > 1 and "loss" in backward.parameters[1].name.value
    return takes_loss and (bool(_OWN_METHODS & owner.methods.keys()) or "loss_scale" in owner.methods)


def wrapper_parameters(facts: Facts, node: cst.BaseExpression) -> tuple[str, ...]:
    """The parameters of the constructor, by position."""
    owner = own_class(facts, node)
    if owner is None:
        return ("init_optimizer", "static_loss_scale", "dynamic_loss_scale", "dynamic_loss_args", "verbose")
    return tuple(param.name.value for param in owner.methods["__init__"].parameters[1:])


def _is_apex(path: str) -> bool:
    return path.startswith("apex.")


def _is_copy(facts: Facts, path: str, name: str) -> bool:
    """True for what another file defines as a function or class of that name, with what belongs to it."""
    source = facts.elsewhere.source_of(path)
    if source is None:
        return False
    encoded = name.encode()
    if name in OPTIMIZERS:
        return b"class " + encoded in source and b"def backward(self, loss" in source and bool(_MASTERS.search(source))
    return re.search(rb"^(?:def|class) " + encoded + rb"\b", source, re.MULTILINE) is not None and b"half" in source


def keeps_keys(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a copy of a model's wrapper whose keys get no prefix: it hands out the state of the model inside, or it
    puts nothing around the model.
    """
    name = form_name(facts, node) or ""
    if name == "network_to_half":
        return returns_the_model(facts, node)
    own = [owner for owner in facts.tree.classes if owner.name == name]
    if own:
        return all("state_dict" in owner.methods for owner in own)
    sources = [source for path in facts.names.imported_as(node) if (source := facts.elsewhere.source_of(path))]
    with_state = re.compile(
        rb"^class %s\b(?:(?!^class ).)*?\bdef state_dict\(" % name.encode(), re.MULTILINE | re.DOTALL
    )
    return bool(sources) and all(with_state.search(source) for source in sources)


def returns_the_model(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a copy of `network_to_half` that puts no cast before the model, as newer ones do: `model[1]` is a layer
    of the model's own then, and the keys of its state are what they were.
    """
    function = facts.objects.function_named(node)
    if function is not None:
        return not any(isinstance(part, cst.Call) and called_name(part) == "Sequential" for part in walk(function.node))
    sources = [source for path in facts.names.imported_as(node) if (source := facts.elsewhere.source_of(path))]
    return bool(sources) and not any(b"Sequential(" in _code_of(source, b"network_to_half") for source in sources)


def _code_of(source: bytes, name: bytes) -> bytes:
    """A function of a file, without what stands behind `#`."""
    found = re.search(rb"^def %s\b.*\n(?:(?:[ \t].*)?\n)*" % name, source + b"\n", re.MULTILINE)
    return re.sub(rb"#.*", b"", found.group()) if found is not None else b""


def is_inside_copy(function: Function) -> bool:
    """True for the methods of such a class and for copies of the functions: what they do is the form's business."""
    for current in function.around:
        if current.owner is not None and (is_wrapper(current.owner) or current.owner.name in MODEL_CASTS | SCALERS):
            return True
        if current.owner is None and current.name in MODEL_CASTS | HAND_LOOPS | SCALERS:
            return True
    return False


def program_statements(facts: Facts) -> list[Statement]:
    """The statements of the unit without what is inside of copies, and without files that are there for a copy only:
    its helpers are the copy's business, too.
    """
    statements = [one for one in facts.tree.all_statements() if not is_inside_copy(one.function)]
    copies = {facts.tree.root_of(owner.node) for owner in facts.tree.classes if is_wrapper(owner)}
    if not copies:
        return statements
    wrapping = {facts.tree.root_of(one.node) for one in statements if makes_wrapper(facts, one)}
    return [one for one in statements if facts.tree.root_of(one.node) not in copies - wrapping]


def makes_wrapper(facts: Facts, statement: Statement) -> bool:
    """True for a statement that wraps an optimizer."""
    return any(form_name(facts, call.func) in OPTIMIZERS for call in facts.tree.calls(statement))


def is_backward(facts: Facts, call: cst.Call) -> bool:
    """True for `optimizer.backward(loss)`: no tensor is called an optimizer, and none is given its loss."""
    if called_name(call) != "backward" or not isinstance(call.func, cst.Attribute) or not call.args:
        return False
    first = call.args[0]
    if first.star or (first.keyword is not None and first.keyword.value != "loss"):
        return False
    receiver = call.func.value
    if (facts.names.dotted(call.func) or "").startswith("torch."):
        return False
    if "optim" in facts.text(receiver).lower():
        return True
    return not facts.objects.objects(receiver).isdisjoint(facts.analysis(_wrapped_objects))


def _wrapped_objects(facts: Facts) -> ObjectSet:
    """What wrappers may hold: they are known by the optimizers that they are put around."""
    calls = [call for call, _ in facts.tree.every(cst.Call) if form_name(facts, call.func) in OPTIMIZERS]
    return frozenset().union(*map(facts.objects.objects, calls))


# Whoever loads the state of a model that was in a wrapper (rule F).


def prefixed_states(
    facts: Facts, statements: Iterable[Statement], wrappers: Iterable[tuple[cst.Call, str]]
) -> Iterator[Finding]:
    """A finding for each wrapper that goes, with what it put before the keys."""
    loads = [call for one in statements for call in facts.tree.calls(one) if called_name(call) == "load_state_dict"]
    for call, prefix in wrappers:
        wrapped = facts.objects.objects(call)
        places = [
            f"line {facts.line(load)}"
            for load in loads
            if isinstance(load.func, cst.Attribute) and facts.objects.objects(load.func.value) & wrapped
        ]
        where = f", and are loaded in {', '.join(places)}" if places else ""
        message = f'the keys of states that were saved behind {called_name(call)} begin with "{prefix}"{where}'
        yield facts.finding(call, STATE_LOSES_PREFIX, message)
