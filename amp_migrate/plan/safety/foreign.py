"""Code of other packages, which nobody reads here, on half values.

    self.conv = SplineConv(8, 8, dim=2, kernel_size=5)            a kernel of its own may take float32 only: said
    return self.conv(self.linear(x), edges)

    weights = gradient_update_parameters(model, inner_loss)       it may take gradients, unscaled: refused (rule H6)

    return QPFunction()(gram.float(), e)        =>    with autocast(enabled=False):
                                                          return QPFunction()(gram.float(), e)

What a script casts by hand for such code is computed in float32, and so are the products that are cast: autocast would
cast again inside of it, and a solver that gets float32 from some operations and half from others raises.

Packages of torch's own operations, and those whose own training scripts use autocast, are known (`traits.json`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.lookups import texts
from amp_migrate.facts.tree import Function
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.models import Dtype, traits
from amp_migrate.models.queries import may_compute_in_half
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.namespaces import is_module, table_of
from amp_migrate.plan.safety.passing import casts_to, computes_linearly, moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import isolate
from amp_migrate.plan.safety.run_time_names import is_by_name
from amp_migrate.rules.safety import FOREIGN_CODE, GRADIENT_PENALTY

_DICT = ".__dict__"


def check_foreign_code(context: Context, forwards: Forwards) -> None:
    """Say once of each package what is used of it, and raise Refusal where a function of one gets a model together with
    its output.
    """
    used: dict[str, dict[str, cst.Call]] = {}
    networks: dict[str, dict[str, cst.Call]] = {}
    run = {(at.function, context.facts.text(call.func)) for call, at in context.reach.calls()}

    def is_run(node: cst.BaseExpression, function: Function) -> bool:
        return forwards.is_whole_model(node) or (function, context.facts.text(node)) in run

    for call, at in context.reach.calls():
        names = dict.fromkeys(foreign_names(context.facts, call))
        evaluated = dict.fromkeys(_evaluated(context.facts, call))
        computed = [arg for arg in call.args if (names or evaluated) and _is_computed(context, arg)]
        models = [arg for arg in call.args if names and computed and is_run(arg.value, at.function)]
        if models and any(arg not in models for arg in computed):
            message = f"{shown(next(iter(names)))} gets a model and what it computes, and its code is not read"
            raise Refusal(GRADIENT_PENALTY, call, message, case="foreign")
        is_given_half = any(context.values.of(arg.value).may_be_half for arg in computed)
        names |= evaluated if is_given_half else {}
        found = used if is_given_half else networks
        for name in names if is_given_half or _is_network(context, call) else ():
            found.setdefault(name.partition(".")[0], {}).setdefault(name, call)
    for package, calls in {**networks, **used}.items():
        code = "its code is" if len(calls) == 1 else "their code is"
        does = "may be given half values" if package in used else "may run under autocast"
        case = "" if package in used else "network"
        message = f"{', '.join(map(shown, calls))} {does}, and {code} not read"
        context.note(next(iter(calls.values())), FOREIGN_CODE, message, case=case)


def run_in_float32(context: Context) -> None:
    """An island for each call of such code that is given what the script has cast, and for the products that are cast;
    a note where there can be none.
    """
    for call, _ in context.reach.calls():
        names = list(foreign_names(context.facts, call))
        given = [Place(arg.value) for arg in call.args if names and _is_computed(context, arg)]
        cast = [
            one
            for one in given
            if any(casts_to(made, Dtype.SINGLE, Dtype.DOUBLE) for made in context.trace(one, moves).passed)
        ]
        for product in [one for value in cast for one in context.products_behind(value, computes_linearly)]:
            isolate(context, product, f"the script casts it for {shown(names[0])}", call, call.func)
        statement = context.facts.tree.statement_of(call)
        if cast and context.can_be_island(statement, call, call.func):
            context.safety.isolate(statement)
        elif cast and statement not in context.safety.islands:
            context.note(call, FOREIGN_CODE, f"{shown(names[0])} is given float32, and may compute in half")


def foreign_names(facts: Facts, call: cst.Call) -> Iterator[str]:
    """The full names of what a call may run, where that belongs to a package of which nothing is known, or of the
    package that `getattr(losses, name)` looks it up in.
    """
    for one in _meant(facts, call):
        table = table_of(one)
        for path in [*facts.objects.import_paths(one), *(facts.objects.import_paths(table) if table else ())]:
            name = path.partition(_DICT)[0]
            if is_unknown(name) and facts.elsewhere.source_of(name) is None:
                yield name


def _evaluated(facts: Facts, call: cst.Call) -> Iterator[str]:
    """`eval(args.loss)`, which may mean anything."""
    for one in _meant(facts, call):
        if isinstance(one, cst.Call) and is_by_name(one) and next(texts(one.args[0].value), None) is None:
            yield facts.text(one)


def _meant(facts: Facts, call: cst.Call) -> list[cst.BaseExpression]:
    """What a call calls, and what makes that."""
    called = call.func.func if isinstance(call.func, cst.Call) else call.func  # `Solver(steps=3)(x)`
    made = facts.objects.calls_behind(called) if isinstance(called, (cst.Name, cst.Attribute, cst.Subscript)) else []
    return [called, call.func, *made, *(maker.func for maker in made)]


def is_unknown(name: str) -> bool:
    """True for what belongs to a package of which nothing is known, or to a file of the project that is missing."""
    package = name.partition(".")[0]
    is_known = package in traits.named("under autocast") or package in sys.stdlib_module_names
    return not is_known and models.function(name) is None and not is_module(name) and name[:1] != "."


def _is_network(context: Context, call: cst.Call) -> bool:
    """True for what is made out of sight, and called with what may be a tensor: autocast runs its layers in half."""
    is_made = any(one.kind == "call" for one in context.facts.objects.objects(call.func))
    is_kept = context.facts.tree.statement_of(call) in context.safety.islands
    if not is_made or is_kept or any(arg.value in context.safety.floats for arg in call.args):
        return False  # a repair has seen to it
    given = (context.precisions.of(arg.value) for arg in call.args)
    return any(one not in (Precision.OTHER, Precision.NUMBER) for one in given)


def _is_computed(context: Context, arg: cst.Arg) -> bool:
    """True for a tensor that comes out of a product or a layer, or of a call under autocast that is not read."""
    ways = context.trace(Place(arg.value), lambda row: not may_compute_in_half(row))
    calls = (one for one in ways.open if isinstance(one.node, cst.Call) and context.runs(one.node))
    value = context.values.of(arg.value)
    return (bool(ways.ends) or any(calls)) and bool(value.dtypes) and value.is_tensor
