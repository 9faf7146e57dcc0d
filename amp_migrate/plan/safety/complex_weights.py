"""Complex parameters, whose gradients GradScaler cannot unscale.

`scaler.unscale_` and `scaler.step` raise ("_amp_foreach_non_finite_check_and_unscale" not implemented for
'ComplexFloat'; [run], torch 2.13). Two real numbers in the last dimension, read by torch.view_as_complex, can be
scaled, but the names and shapes in checkpoints change with them.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import COMPLEX_PARAMETERS

_COMPLEX = frozenset("cfloat cdouble complex64 complex128 chalf".split())


def check_complex_weights(context: Context) -> None:
    """Raises Refusal for a complex parameter of a module that runs under autocast."""
    for owner in context.reach.classes:
        for method in owner.methods.values():
            for statement in method.descendants():
                for call in context.facts.tree.calls(statement):
                    if called_name(call) == "Parameter" and any(_is_complex(part) for part in walk(call)):
                        message = f"{owner.name} has a complex parameter, whose gradient cannot be unscaled"
                        raise Refusal(COMPLEX_PARAMETERS, call, message)


def _is_complex(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in _COMPLEX
