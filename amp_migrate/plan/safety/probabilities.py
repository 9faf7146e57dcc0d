"""Logarithms of probabilities: in half a sigmoid is exactly 1 from logit 8.5 on, and its logarithm minus infinity.

    p = torch.sigmoid(z)                                          =>    p = torch.sigmoid(z.float())
    loss = -(t * torch.log(p) + (1 - t) * torch.log(1 - p))

As for torch's own binary cross entropy (rule E4), the sigmoid itself has to run in float32: `.float()` on its result
comes too late ([run]). softmax runs in float32 under autocast anyway.

    Bernoulli(torch.sigmoid(z))                                   =>    Bernoulli(torch.sigmoid(z.float()))
    Normal(mean, std)                                             =>    Normal(mean.float(), std)

A distribution computes in the dtype of what it is given, down to `finfo(dtype).eps`: 1e-3 from 0 and 1 in half.
"""

from __future__ import annotations

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import numbers
from amp_migrate.plan.safety.precision import Precision

_FEW = 4  # 2 * p * q / (p + q) is a probability still


def keep_probabilities(context: Context) -> None:
    """Float32 for the arguments of the sigmoids whose results a logarithm or a distribution takes, and for all that
    distributions take.
    """
    for made in context.results:
        if made.is_a("logarithm"):
            _keep_sigmoids(context, made.operands[0])
    for call, _ in context.reach.calls():
        if (context.facts.names.dotted(call.func) or "").startswith("torch.distributions."):
            for arg in call.args:
                _keep_sigmoids(context, Place(arg.value))
                may_be_half = context.precisions.of(arg.value).may_be_half
                if may_be_half and context.values.may_leave_autocast(Place(arg.value)):
                    context.safety.keep_float32(arg.value)


def _keep_sigmoids(context: Context, probability: Place) -> None:
    for end in context.trace(probability, _passes, lambda one: _is_scaled(context, one)).ends:
        if end.is_a("sigmoid"):
            argument = end.operands[0].node
            kind = context.precisions.of(argument)
            if kind not in (Precision.SINGLE, Precision.OTHER):  # no double becomes less
                context.safety.keep_float32(argument)


def _passes(row: Operation) -> bool:
    """What a probability comes through, be it computed with; no layer's product."""
    return row.policy != "half" and not row.is_a("sigmoid") and not row.is_a("softmax")


def _is_scaled(context: Context, made: Made) -> bool:
    """True for `512 * sigmoid(z)`, a length or a brightness: that is no probability."""
    if not made.is_a("product of numbers"):
        return False
    return any(abs(one) > _FEW for operand in made.operands for one in numbers(context.facts, operand.node))
