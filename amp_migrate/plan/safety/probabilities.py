"""Logarithms of probabilities: in half a sigmoid is exactly 1 from logit 8.5 on, and its logarithm minus infinity.

    p = torch.sigmoid(z)                                          =>    p = torch.sigmoid(z.float())
    loss = -(t * torch.log(p) + (1 - t) * torch.log(1 - p))

As for torch's own binary cross entropy (rule E4), the sigmoid itself has to run in float32: `.float()` on its result
comes too late ([run]). softmax runs in float32 under autocast anyway. So it is with what is divided by 1 - p, with
tanh, which is 1 from 4.5 on, and with either at the end of a container:

    y = self.net(x)                                               =>    y = self.net[-1](self.net[:-1](x).float())
    torch.log(1 - y ** 2 + 1e-6)

    Bernoulli(torch.sigmoid(z))                                   =>    Bernoulli(torch.sigmoid(z.float()))
    Normal(mean, std)                                             =>    Normal(mean.float(), std)

So it is with a product that is taken from 1, be it a cosine: a half number is 1 from 0.9998 on.

    cosine = F.linear(F.normalize(x), F.normalize(w))      =>    with autocast(enabled=False):
    sine = torch.sqrt(1.0 - cosine**2)                               cosine = F.linear(F.normalize(x.float()), ...)

A distribution computes in the dtype of what it is given, down to `finfo(dtype).eps`: 1e-3 from 0 and 1 in half.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.plan.regions.sigmoids import ends_in_probabilities
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import is_one, numbers
from amp_migrate.plan.safety.passing import computes_linearly
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import ends_in_half, keep_product
from amp_migrate.plan.safety.vanishing import with_a_pole
from amp_migrate.rules.safety import BCE_ON_PROBABILITIES

_FEW = 4  # 2 * p * q / (p + q) is a probability still


def keep_probabilities(context: Context) -> None:
    """Float32 for the arguments of the sigmoids whose results a logarithm or a distribution takes, and for all that
    distributions take.
    """
    for made in context.results:
        if made.is_a("logarithm"):
            _keep_sigmoids(context, made.operands[0])
        for near_one in _taken_from_one(context, made):
            _keep_sigmoids(context, near_one)
            for end in (ends := context.trace(near_one, _keeps_ones).ends):
                # A layer makes no probability beside another maker, such as a sigmoid.
                is_layer = len(ends) == 1 and ends_in_half(end) and context.precisions.of(end.node) is Precision.HALF
                if is_layer or (context.is_product(end) and context.values.of(end.node).may_be_half):
                    keep_product(context, end.node, "what it lacks of 1 comes near a pole")
    for call, _ in context.reach.calls():
        if (context.facts.names.dotted(call.func) or "").startswith("torch.distributions."):
            for arg in call.args:
                _keep_sigmoids(context, Place(arg.value))
                may_be_half = context.precisions.of(arg.value).may_be_half
                if may_be_half and context.values.may_leave_autocast(Place(arg.value)):
                    context.safety.keep_float32(arg.value)


def _taken_from_one(context: Context, made: Made) -> Iterator[Place]:
    """P of `torch.log(1 - P)`, `x / (1 - P)`, `(1 - P**2).rsqrt()` and `torch.log1p(-P)`."""
    if made.is_a("pole at minus one"):
        for passed in context.trace(made.operands[0], _passes).passed:
            factors = [one for operand in passed.operands for one in numbers(context.facts, operand.node)]
            if passed.is_a("negation") or (passed.is_a("product of numbers") and any(one < 0 for one in factors)):
                yield from passed.operands
    for argument in with_a_pole(context, made):
        for passed in context.trace(argument, _passes).passed:
            if passed.is_a("difference") and any(is_one(context.facts, one.node) for one in passed.operands):
                yield from passed.operands


def _keep_sigmoids(context: Context, probability: Place) -> None:
    for end in context.trace(probability, _passes, lambda one: _is_scaled(context, one)).ends:
        if end.operation is not None and _saturates(end.operation):
            argument = end.operands[0].node
            kind = context.precisions.of(argument)
            if kind not in (Precision.SINGLE, Precision.OTHER):  # no double becomes less
                context.safety.keep_float32(argument)
        elif isinstance(end.node, cst.Call) and context.runs(end.node):
            _keep_last(context, end, end.node)


def _keep_last(context: Context, made: Made, container: cst.Call) -> None:
    """Float32 for the module that ends a container, where that makes probabilities."""
    if ends_in_probabilities(context.facts, container):
        context.safety.split += [container] if container not in context.safety.split else []
        return
    for row in reversed(made.operations):
        if row is not None and _saturates(row):
            text = context.facts.text(container)
            message = f"what saturates in {text} is no last module that can be run on its own"
            raise Refusal(BCE_ON_PROBABILITIES, container, message, case="logarithm")
        if row is None or not _passes(row):
            return


def _saturates(row: Operation) -> bool:
    return row.is_a("sigmoid") or row.is_a("bounded")


def _passes(row: Operation) -> bool:
    """What a probability comes through, be it computed with; no layer's product."""
    return row.policy != "half" and not _saturates(row) and not row.is_a("softmax")


def _keeps_ones(row: Operation) -> bool:
    """What is near 1 only where that is which it is made of."""
    return computes_linearly(row) or row.is_a("square") or row.is_a("quotient")


def _is_scaled(context: Context, made: Made) -> bool:
    """True for `512 * sigmoid(z)`, a length or a brightness: that is no probability."""
    if not made.is_a("product of numbers"):
        return False
    return any(abs(one) > _FEW for operand in made.operands for one in numbers(context.facts, operand.node))
