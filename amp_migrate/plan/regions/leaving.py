"""Half tensors that leave a training region (rules B4, E3).

Most uses take half as they take float. A model outside of autocast does not, nor does a criterion, nor a matrix
product with a float32 operand: they get `.float()`. O1 had patched torch for both, O2 had handed out float32.

    with autocast(...):
        fake = generator(noise)
    real_or_fake = discriminator(fake.detach())    =>    discriminator(fake.float().detach())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.tree import Class, Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.regions.training import Region

_PASS_ON = frozenset(
    "detach data view reshape squeeze unsqueeze permute transpose t T contiguous clone flatten".split()
)
_PRODUCTS = frozenset("mm bmm matmul einsum addmm baddbmm inv cholesky svd qr eigh solve lstsq pinverse".split())


def halves_leaving(facts: Facts, forwards: Forwards, regions: list[Region]) -> list[cst.Name]:
    """The loads that need `.float()`. Raises Refusal where one is not certainly a tensor."""
    tensors = Tensors(facts)
    found = []
    for region in regions:
        for name in dict.fromkeys(half_names(facts, forwards, region)):
            loads = list(loads_after(facts, name, region))
            found += [
                element
                for load in loads
                for element in _elements_of(facts, load)
                if not any(other.covers(facts.tree.statement_of(element)) for other in regions)
                and _needs_float32(facts, tensors, element)
            ]
            for load in loads:
                statement = facts.tree.statement_of(load)
                if any(other.covers(statement) for other in regions) or not _needs_float32(facts, tensors, load):
                    continue
                if not any(tensors.shows_tensor(other) for other in loads):
                    message = f"{name} leaves autocast in half for a model or a matrix product in float32"
                    raise Refusal("AMP925", load, message)
                found.append(load)
    return found


def _elements_of(facts: Facts, load: cst.Name) -> Iterator[cst.Name]:
    """The uses of `output` in `for output in outputs:`, also behind enumerate and zip."""
    statement = facts.tree.statement_of(load)
    if not isinstance(statement.node, cst.For):
        return
    target: cst.BaseExpression = statement.node.target
    arg = facts.tree.parents.get(load)
    call = facts.tree.parents.get(arg) if isinstance(arg, cst.Arg) else None
    if call is statement.node.iter and isinstance(call, cst.Call) and isinstance(target, cst.Tuple):
        place = {"enumerate": 1, "zip": call.args.index(arg)}.get(called_name(call))
        if place is None or place >= len(target.elements):
            return
        target = target.elements[place].value
    elif load is not statement.node.iter:
        return
    variable = facts.names.variable_at(target) if isinstance(target, cst.Name) else None
    for one in variable.loads if variable is not None else ():
        if facts.tree.statement_of(one).inside(statement):
            yield one


def loads_after(facts: Facts, name: str, region: Region) -> Iterator[cst.Name]:
    """The loads after the region, up to the statement that certainly gives the name another value."""
    variable = facts.names.visible(name, region.function)
    loads = variable.loads if variable is not None else []
    for statement in what_follows(region.last):
        for load in loads:
            at = facts.tree.statement_of(load)
            if at.inside(statement) and not _is_rebound(name, statement, at):
                yield load
        if _rebinds(statement, name):
            return


def _is_rebound(name: str, outer: Statement, at: Statement) -> bool:
    """True where the blocks between a statement and one inside of it certainly give the name another value before."""
    inner = at.path()[len(outer.path()) :]
    return any(_rebinds(earlier, name) for place in inner for earlier in place.block.statements[: place.index])


def _rebinds(statement: Statement, name: str) -> bool:
    """True for an assignment to the name, also in the body of a `with`, which always runs."""
    if isinstance(statement.node, cst.With):
        return any(_rebinds(inner, name) for block in statement.blocks for inner in block.statements)
    return (name,) in writes(statement) and isinstance(statement.node, cst.Assign)


def what_follows(statement: Statement) -> Iterator[Statement]:
    """What runs after a statement in its function: later siblings, then those of what holds it."""
    current: Statement | None = statement
    while current is not None:
        yield from current.next_siblings()
        current = current.block.owner


def half_names(facts: Facts, forwards: Forwards, region: Region) -> Iterator[str]:
    """The names that a region gives the outputs of models."""
    tensors = Tensors(facts)
    for statement in region.statements():
        for inner in statement.descendants():
            node = inner.node
            if isinstance(node, cst.Assign) and isinstance(node.value, (cst.Call, cst.Subscript)):
                if forwards.runs_model(inner):
                    yield from tensors.half_names(node.targets[0].target, node.value) or []


def _needs_float32(facts: Facts, tensors: Tensors, load: cst.Name) -> bool:
    node: cst.CSTNode = load
    parent = facts.tree.parents.get(node)
    while isinstance(parent, (cst.Attribute, cst.Call)):
        passes_on = isinstance(parent, cst.Attribute) and parent.value is node and parent.attr.value in _PASS_ON
        if not passes_on and not (isinstance(parent, cst.Call) and parent.func is node):
            break
        node, parent = parent, facts.tree.parents.get(parent)
    if isinstance(parent, cst.BinaryOperation):
        return isinstance(parent.operator, cst.MatrixMultiply)
    call = facts.tree.parents.get(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    dotted = facts.names.dotted(call.func) or ""
    if dotted.startswith("torch.") and called_name(call) in _PRODUCTS:
        return True
    return _is_module(facts, call) or (call.args[0] is parent and tensors.is_torch_loss(call))


def _is_module(facts: Facts, call: cst.Call) -> bool:
    """A call of a network: made by torch.nn, of a class that derives from one, or asked for its parameters."""
    if not isinstance(call.func, (cst.Name, cst.Attribute)):
        return False
    for one in facts.objects.objects(call.func):
        origin = one.origin
        if one.kind == "call" and isinstance(origin, cst.Call):
            dotted = facts.names.dotted(origin.func) or ""
            return dotted.startswith("torch.nn.") and not dotted.endswith("Loss")
        if one.kind == "instance" and isinstance(origin, Class):
            bases = [facts.text(base.value) for base in origin.node.bases]
            return any("Module" in base for base in bases) and "Loss" not in origin.node.name.value
    variable = facts.names.variable_at(call.func)
    loads = variable.loads if variable is not None else []
    return any(_asks_for_parameters(facts, load) for load in loads)


def _asks_for_parameters(facts: Facts, load: cst.Name) -> bool:
    parent = facts.tree.parents.get(load)
    return isinstance(parent, cst.Attribute) and parent.value is load and parent.attr.value == "parameters"
