"""Functions of the form without its optimizer: a model is cast, and trained as it is.

    net = network_to_half(net)
    optimizer = SGD(net.parameters(), lr=0.1)
    ...
    loss.backward()
    optimizer.step()

It is training in half by hand, whoever has written the function (`sources/half`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.stores import subscript_key
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.rules.half import DEPENDS_ON_HALF
from amp_migrate.sources.fp16_utils.names import (
    ACCESSORS,
    form_name,
    makes_wrapper,
    program_statements,
    returns_the_model,
)

CASTS = frozenset("network_to_half BN_convert_float batchnorm_to_float convert_network".split())


def trains_in_half(facts: Facts, sites: Collection[cst.CSTNode]) -> bool:
    """True where all that the unit has of the form are such casts, of models that a plain backward trains."""
    calls = [site for site in sites if isinstance(site, cst.Call)]
    if any(form_name(facts, call.func) not in CASTS for call in calls):
        return False
    statements = program_statements(facts)
    backwards = [call for one in statements for call in facts.tree.calls(one) if called_name(call) == "backward"]
    wraps = any(makes_wrapper(facts, one) for one in facts.tree.all_statements())
    is_trained = bool(backwards) and all(_is_plain_backward(call) for call in backwards)
    return is_trained and not wraps and not any(_reaches_inside(facts, call) for call in calls)


def casts_of_models(facts: Facts) -> Iterator[tuple[Statement, cst.Call, cst.Arg]]:
    """The calls of such functions, each with the argument that is the model."""
    for statement in program_statements(facts):
        for call in facts.tree.calls(statement):
            if call.args and not call.args[0].star and form_name(facts, call.func) in CASTS:
                yield statement, call, call.args[0]


def _is_plain_backward(call: cst.Call) -> bool:
    """True for `loss.backward()`: what is given a loss may wrap the optimizer in a file of its own."""
    return isinstance(call.func, cst.Attribute) and all(arg.keyword is not None for arg in call.args)


def _reaches_inside(facts: Facts, call: cst.Call) -> bool:
    """True where `net[1]` may mean the model behind the cast of its input."""
    if returns_the_model(facts, call.func):
        return False
    wrapped = facts.objects.objects(call)
    return any(
        subscript_key(part) in ACCESSORS.values() and facts.objects.objects(part.value) & wrapped
        for part, _ in facts.tree.every(cst.Subscript)
    )


# Layers that a forward puts into float32 by hand: `self.offset = self.offset.float()`.
#
# Under autocast they compute in half, whatever their weights are, and what they feed may take nothing but float32.


def float_parts(facts: Facts, statements: Iterable[Statement]) -> Iterator[Refusal]:
    """A refusal for each such layer."""
    for statement in statements:
        if statement.function.name != "forward":
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, cst.Call) and called_name(part) == "float" and isinstance(part.func, cst.Attribute):
                if not part.args and _is_layer(facts, part.func.value):
                    text = facts.text(part.func.value)
                    message = f"{text} is put into float32 where the model runs, and computes in half under autocast"
                    yield Refusal(DEPENDS_ON_HALF, part, message)


def _is_layer(facts: Facts, node: cst.BaseExpression) -> bool:
    makers = [facts.names.dotted(call.func) or "" for call in facts.objects.calls_behind(node)]
    layers = [name.rpartition(".")[2] for name in makers if name.startswith("torch.nn.")]
    return any(name[:1].isupper() and "Norm" not in name for name in layers)  # float32 was for norms anyway
