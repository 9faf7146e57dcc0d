"""Half values that a training hands to NumPy, or to other packages on the CPU.

    output = model(x)                        (under autocast)
    score(output.detach().cpu().numpy())     =>    score(output.float().detach().cpu().numpy())
    torchvision.utils.save_image(output.cpu(), path)     =>    torchvision.utils.save_image(output.float().cpu(), path)

NumPy has no bfloat16 (TypeError), much of what takes its arrays no half (np.linalg, OpenCV, PIL, scipy.ndimage), and
its sums of half values are half; nor had torch itself much arithmetic of half values on the CPU before 2.2. What
trained in half before has handed on half as well; a plain loop never did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import reads
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.interp.place import Place
from amp_migrate.interp.values import Values
from amp_migrate.models import Dtype
from amp_migrate.models.queries import only_moves
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.half_parts import plain_names
from amp_migrate.plan.regions.moved import after_moves, before_moves
from amp_migrate.plan.regions.tensors import Tensors

_INTEGERS = frozenset((Dtype.INTEGER, Dtype.BOOLEAN))


def halves_before_numpy(facts: Facts, values: Values, backwards: Iterable[Backward]) -> Iterator[cst.BaseExpression]:
    """X of each `X.detach().cpu().numpy()`, and of each `X.cpu()` for a package, that may be half. Where a function is
    given class numbers as well, it is what its other callers give.
    """
    losses = {path[0] for backward in backwards for path in reads(backward.loss)}
    for call, _ in facts.tree.every(cst.Call):
        is_bare = isinstance(call.func, cst.Attribute) and not call.args
        if is_bare and (called_name(call) == "numpy" or _is_for_a_package(facts, call)):
            assert isinstance(call.func, cst.Attribute)
            yield from _floating(facts, values, before_moves(call.func.value), losses)


def _floating(
    facts: Facts, values: Values, given: cst.BaseExpression, losses: set[str]
) -> Iterator[cst.BaseExpression]:
    """What may be half and certainly is no integer; of what may be either, that of which it comes."""
    waiting, seen = [Place(given)], set()
    while waiting:
        place = waiting.pop()
        value = values.at(place)
        if place in seen or not value.may_be_half:
            continue
        seen.add(place)
        is_integer = not value.dtypes.isdisjoint(_INTEGERS)
        if not place.keys and (_is_of_model(facts, values, place, losses) if value.is_open else not is_integer):
            yield place.node
            continue
        step = values.steps.of(place)
        moved = [one.operands[0] for one in step.made if one.operation is not None and only_moves(one.operation)]
        waiting += [*step.same, *moved]


def _is_for_a_package(facts: Facts, call: cst.Call) -> bool:
    """True for `x.cpu()` in an argument of `make_grid(x.cpu().unsqueeze(1))`, but for torch itself and local code."""
    taker = facts.tree.taker(after_moves(facts, call)) if called_name(call) == "cpu" else None
    paths = facts.objects.import_paths(taker.func) if taker is not None else ()
    return any(not path.startswith("torch.") and facts.elsewhere.source_of(path) is None for path in paths)


def _is_of_model(facts: Facts, values: Values, given: Place, losses: set[str]) -> bool:
    """True for floating tensors that models out of sight return, and nothing but models; not where an operation in
    sight makes numbers of classes of them on some way.
    """
    ways = values.ways_of_dtype(given)
    if not values.may_leave_autocast(given) or any(not _INTEGERS.isdisjoint(values.made_of(one)) for one in ways.ends):
        return False
    tensors = Tensors(facts)
    of_models = values.halves(given)
    is_mixed = any(one.node not in of_models for one in ways.open)
    nodes = walk(given.node) if is_mixed else [one.node for one in ways.places]
    variables = (facts.names.variable_at(one) for one in nodes if isinstance(one, cst.BaseExpression))
    loads = [load for one in dict.fromkeys(variables) if one is not None for load in one.loads]
    return any(tensors.shows_floating(load) or _is_compared(facts, load, losses) for load in loads)


def _is_compared(facts: Facts, load: cst.Name, losses: set[str]) -> bool:
    """True for `output` in `loss = criterion(output[1:], target)`, whatever the criterion is."""
    parent = facts.tree.parents.get(load)
    while isinstance(parent, cst.Subscript):
        parent = facts.tree.parents.get(parent)
    call = facts.tree.parents.get(parent) if isinstance(parent, cst.Arg) else None
    node = facts.tree.statement_of(load).node
    if not isinstance(call, cst.Call) or call.args[0] is not parent or not isinstance(node, cst.Assign):
        return False
    return node.value is call and bool(losses & set(plain_names(node.targets[0].target) or []))
