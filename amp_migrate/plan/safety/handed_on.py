"""Half outputs of a region that go on to what takes float32: modules, criteria, and code that is not read.

    with autocast(...):
        fake = generator(noise)
    real_or_fake = discriminator(fake.detach())    =>    discriminator(fake.float().detach())
    return fake.detach()                           =>    return fake.detach().float()    (to a file out of the unit)

Outside of autocast a module raises for half, a criterion sums it, and code that is not read had float32 before. What
may be no tensor is not cast: it is refused where a module takes it that is not read either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Class, Statement, called_name, input_and_target
from amp_migrate.files.only_ranking import only_ranks
from amp_migrate.files.only_reading import runs_models
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.moved import before_moves
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.foreign import is_unknown
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.rules.regions import HALF_OUTSIDE

_SAVES = ("torch.save", "pickle.dump", "pickle.dumps")
_MEASURE = re.compile(r"criterion|metric|dice|iou\b", re.IGNORECASE)


def keep_handed_on(context: Context, forwards: Forwards, regions: Sequence[Region], *, is_seen: bool) -> None:
    """Float32 for what modules, criteria and code that is not read are given, and where that saw float32 before
    (`is_seen`), for what functions return to it and attributes keep for it. Raises Refusal where a module that is not
    read gets what may be no tensor.
    """
    covered = {inner for region in regions for one in region.statements() for inner in one.descendants()}
    under_autocast = context.values.runs_under_autocast
    statements = {one for one in context.facts.tree.all_statements() if one in covered or not under_autocast([one])}
    _keep_given(context, forwards, statements, is_seen=is_seen)
    if is_seen:
        _keep_seen(context, statements)


# -- what calls are given -------------------------------------------------------------------------------


def _keep_given(context: Context, forwards: Forwards, statements: Collection[Statement], *, is_seen: bool) -> None:
    for call, _ in context.reach.calls():
        is_unread = _runs_unread(context, forwards, call)
        is_open = is_seen and _is_open(context, forwards, call)
        takes_parts = is_unread or is_open or _is_elsewhere(context.facts, call)
        for arg in call.args if is_open else _taken(context, forwards, call, is_unread=is_unread):
            given = Place(arg.value, (ANY,) if arg.star else ())
            for place in _parts(context, given) if takes_parts or arg.star else [given]:
                node = place.node
                if context.precisions.of(node, place.frames) is not Precision.HALF:
                    continue
                cast = _tensor(context, node) if context.facts.tree.statement_of(node) in statements else None
                if cast is not None:
                    context.safety.keep_float32(cast)
                elif is_unread:
                    text, run = context.facts.text(arg.value), context.facts.text(call.func)
                    message = f"{text} leaves autocast in half for {run}, which runs a model in float32"
                    raise Refusal(HALF_OUTSIDE, arg.value, message)


def _taken(context: Context, forwards: Forwards, call: cst.Call, *, is_unread: bool) -> Sequence[cst.Arg]:
    """The arguments that have to be float32: all that a module or code that is not read gets, and the first one of a
    criterion.
    """
    entered = context.steps.calls.entered(call)
    is_forward = any(one.function.name == "forward" and one.function.is_method for one in entered)
    if is_unread or is_forward or forwards.roles.is_forward(call):
        return call.args
    if _is_elsewhere(context.facts, call):
        return [arg for place, arg in enumerate(call.args) if not _is_only_ranked(context.facts, call, place)]
    layers = [row for rows in context.steps.calls.layers.called(call.func) for row in rows]
    is_loss = Tensors(context.facts).is_torch_loss(call) and not any(
        row and not row.reduction and not row.policy for row in layers
    )
    first = input_and_target(call)[:1] if is_loss or _is_measure(context.facts, call) else ()
    return [arg for arg in call.args if arg.value in first]


def _is_open(context: Context, forwards: Forwards, call: cst.Call) -> bool:
    """True for `hook(fake)`, where nobody has in sight what is called."""
    calls = context.steps.calls
    is_known = context.facts.objects.candidates(call) or calls.entered(call) or calls.layers.called(call.func)
    return not is_known and forwards.is_of_object(call)


def _runs_unread(context: Context, forwards: Forwards, call: cst.Call) -> bool:
    """True for a call of a module whose forward is not read, and of a function that runs a model it is given."""
    calls = context.steps.calls
    if any(map(runs_models, _resolved(context.facts, call))):
        return True
    if context.facts.objects.candidates(call) or calls.entered(call):
        return False
    return _is_module(context, call) or forwards.roles.is_forward(call) or calls.layers.is_own_part(call.func)


def _resolved(facts: Facts, call: cst.Call) -> list[str]:
    """The function that is called, by its resolved names."""
    function = facts.objects.called_function(call)
    if function is None:
        return list(facts.names.imported_as(call.func))
    path, name = facts.name_of(function)
    return [f"{path.removesuffix('.py')}.{name}"]


def _is_module(context: Context, call: cst.Call) -> bool:
    """A call of a network: of layers with parameters, of a class that derives from Module, or of what is asked for its
    parameters.
    """
    facts = context.facts
    layers = [row for rows in context.steps.calls.layers.called(call.func) for row in rows]
    if layers:
        return any(row is None or row.parameters for row in layers)
    for one in facts.objects.objects(call.func):
        origin = one.origin
        if one.kind == "call" and isinstance(origin, cst.Call):
            return (facts.names.dotted(origin.func) or "").startswith("torch.nn.")
        if one.kind == "instance" and isinstance(origin, Class):
            bases = [facts.text(base.value) for base in origin.node.bases]
            return any("Module" in base for base in bases) and "Loss" not in origin.node.name.value
    return any(_asks_for_parameters(facts, load) for load in facts.names.loads_at(call.func))


def _asks_for_parameters(facts: Facts, load: cst.Name) -> bool:
    parent = facts.tree.parents.get(load)
    return isinstance(parent, cst.Attribute) and parent.value is load and parent.attr.value == "parameters"


def _is_measure(facts: Facts, call: cst.Call) -> bool:
    """True for a criterion or a metric by its name that nobody has in sight: it may sum pixels, beyond 65504."""
    name = called_name(call)
    return _MEASURE.search(name) is not None and not name[:1].isupper() and not facts.objects.candidates(call)


def _is_elsewhere(facts: Facts, call: cst.Call) -> bool:
    """True for a function, or a method of an instance, of a file or a package that is not read: a metric perhaps."""
    if facts.objects.candidates(call) or not isinstance(call.func, (cst.Name, cst.Attribute)):
        return False
    nodes = [call.func, *([call.func.value] if isinstance(call.func, cst.Attribute) else [])]
    paths = (path for node in nodes for path in facts.objects.paths_behind(node))
    return any(facts.elsewhere.source_of(path) is not None or is_unknown(path) for path in paths)


def _is_only_ranked(facts: Facts, call: cst.Call, place: int) -> bool:
    if any(arg.star for arg in call.args[: place + 1]):
        return False
    keyword = call.args[place].keyword
    resolved = facts.names.imported_as(call.func)
    at = keyword.value if keyword is not None else place
    return bool(resolved) and all(only_ranks(one, at) for one in resolved)


# -- what is a tensor -----------------------------------------------------------------------------------


def _tensor(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The expression to cast, which certainly is a tensor: X of `X.detach()`, if that is one that has a name."""
    inner = before_moves(node)
    named = isinstance(inner, (cst.Name, cst.Attribute)) and context.precisions.of(inner) is Precision.HALF
    return next((one for one in ([inner] if named else []) + [node] if _is_tensor(context, one)), None)


def _is_tensor(context: Context, node: cst.BaseExpression) -> bool:
    """True for what is used as a tensor, and for what operations of torch have made, for all that is in sight. A module
    that is not read may return several.
    """
    if context.values.of(node).is_container:
        return False
    if isinstance(node, cst.Subscript) and _is_tensor(context, node.value):
        return True
    is_used = any(map(Tensors(context.facts).shows_tensor, _uses(context.facts, node)))
    return is_used or all(_is_made(context, one) for one in context.precisions.places(node))


def _is_made(context: Context, place: Place) -> bool:
    made = context.trace(place, lambda row: False)
    is_known = not made.open and all(one.operations[-1] is not None for one in made.ends)
    return is_known and bool(made.ends) and context.values.at(place).is_tensor


def _uses(facts: Facts, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Where the same value is read in the same words: `out`, `out[0]`, `self.out`."""
    yield node
    root = node
    while isinstance(root, (cst.Attribute, cst.Subscript)):
        root = root.value
    variable = facts.names.variable_at(root)
    if variable is None:
        return
    bindings = reaching(variable, facts.tree.statement_of(node))
    for other in variable.loads:
        use: cst.CSTNode = other
        while facts.text(use) != facts.text(node) and isinstance(use, (cst.Name, cst.Attribute, cst.Subscript)):
            use = facts.tree.parents[use]
        is_same = isinstance(use, type(node)) and facts.text(use) == facts.text(node)
        if is_same and reaching(variable, facts.tree.statement_of(other)) == bindings:
            assert isinstance(use, cst.BaseExpression)
            yield use


def _parts(context: Context, place: Place) -> Iterator[Place]:
    """A value that may be a tensor, what is put into a list or dict, and what a function returns: whole expressions."""
    waiting, seen = [place], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        node, step = current.node, context.steps.of(current)
        function = context.facts.tree.function_at.get(node) or context.facts.objects.function_handed_over(node)
        if current.keys:
            waiting += step.same
            waiting += [one for made in step.made if _makes_several(made) for one in made.operands]
            if step.is_container or any(not one.keys and context.values.at(one).is_container for one in step.same):
                waiting.append(Place(node, (*current.keys, ANY), current.frames))
        elif isinstance(node, cst.Call) and (called_name(node)[:1].isupper() or context.facts.objects.is_partial(node)):
            waiting += [Place(arg.value, (), current.frames) for arg in node.args]
        elif function is not None:
            waiting += [Place(one, (), current.frames) for one in context.facts.objects.returned_by(function)]
        elif isinstance(node, (cst.IfExp, cst.BooleanOperation)):
            waiting += step.same
        elif context.values.at(current).is_container:
            waiting.append(Place(node, (ANY,), current.frames))
        else:
            yield current


def _makes_several(made: Made) -> bool:
    """True for `x.chunk(2)` and `map(torch.detach, outputs)`."""
    return made.operation is not None and made.operation.shape_only


# -- what files outside of the unit see -----------------------------------------------------------------


def _keep_seen(context: Context, statements: Collection[Statement]) -> None:
    facts = context.facts
    values = [
        Place(value)
        for one in statements
        if facts.is_seen_outside(*facts.name_of(one.function))
        for value in _given_back(facts, one)
    ]
    saves = (one for one, _ in context.reach.calls() if facts.names.dotted(one.func) in _SAVES)
    values += [Place(arg.value) for one in saves for arg in one.args[:1]]
    for variable in facts.names.all_variables():
        given = [one for one in variable.bindings if one.value is not None and one.kind == "assign"]
        if any(one.statement in statements for one in given) and facts.names.used_elsewhere(variable):
            values += [Place(one.value, one.selector) for one in given if one.value is not None]
    for field, stores in facts.objects.all_stores():
        values += [Place(one.value, one.selector) for one in stores if _is_read_outside(facts, one.base, field)]
    for node in dict.fromkeys(place.node for value in values for place in _parts(context, value)):
        if facts.tree.statement_of(node) in statements and _is_half_output(context, node):
            context.safety.keep_float32(node)


def _given_back(facts: Facts, statement: Statement) -> Iterator[cst.BaseExpression]:
    node = statement.node
    if isinstance(node, cst.Return) and node.value is not None:
        yield node.value
    for part in facts.tree.expressions(statement):
        if isinstance(part, cst.Yield) and isinstance(part.value, cst.BaseExpression):
            yield part.value


def _is_read_outside(facts: Facts, base: cst.BaseExpression, field: str) -> bool:
    """True where files outside of the unit speak of an attribute of a class of the unit, or give what is filled."""
    if any(one.kind == "parameter" for one in facts.objects.objects(base)):
        return field.startswith("[") and facts.is_seen_outside(*facts.name_of(facts.tree.function_of(base)))
    origins = facts.objects.origins(base)
    if any(isinstance(one, cst.Call) and _is_elsewhere(facts, one) for one in origins):
        return True
    owners = [one for one in origins if isinstance(one, Class)]
    return any(facts.is_seen_outside(facts.file_of(one.node).path, f"{one.name}.{field}") for one in owners)


def _is_half_output(context: Context, node: cst.BaseExpression) -> bool:
    """True for half tensors; what is out of sight may be the numbers of classes, unless it is used as others are."""
    value = context.values.of(node)
    is_floating = not value.is_open or any(map(Tensors(context.facts).shows_floating, _uses(context.facts, node)))
    return value.may_be_half and is_floating and context.precisions.of(node) is Precision.HALF
