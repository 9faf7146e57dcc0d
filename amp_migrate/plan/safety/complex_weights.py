"""Complex parameters, whose gradients GradScaler cannot unscale.

`scaler.unscale_` and `scaler.step` raise ("_amp_foreach_non_finite_check_and_unscale" not implemented for
'ComplexFloat'; [run], torch 2.13). Two real numbers in the last dimension, read by torch.view_as_complex, can be
scaled, but the names and shapes in checkpoints change with them.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.findings import Refusal
from amp_migrate.models import Dtype
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import COMPLEX_PARAMETERS

_COMPLEX = frozenset((Dtype.COMPLEX,))


def check_complex_weights(context: Context) -> None:
    """Raises Refusal for a complex parameter of a module that runs under autocast."""
    for owner in context.reach.classes:
        for method in owner.methods.values():
            for statement in method.descendants():
                for call in context.facts.tree.calls(statement):
                    if _is_complex_parameter(context, call):
                        message = f"{owner.name} has a complex parameter, whose gradient cannot be unscaled"
                        raise Refusal(COMPLEX_PARAMETERS, call, message)


def _is_complex_parameter(context: Context, call: cst.Call) -> bool:
    is_parameter = called_name(call) == "Parameter" and bool(call.args)
    return is_parameter and context.values.of(call.args[0].value).dtypes == _COMPLEX
