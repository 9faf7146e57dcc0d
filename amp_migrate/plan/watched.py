"""Models whose gradients are logged by hooks, which see those of the scaled loss (rule H6).

    wandb.watch(model)                        log="gradients" is the default, and "all" has them, too
    wandb.init(project="x").watch(model)

Only what is logged changes, so it is said and nothing is refused. Where the source scaled its loss, the hooks have seen
scaled gradients all along.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.facts.values import literal_value


def calls_that_log_gradients(facts: Facts) -> Iterator[cst.Call]:
    """Every call of `watch` that may hook the gradients of a model."""
    for call, _ in facts.tree.every(cst.Call):
        if called_name(call) == "watch" and _is_of_wandb(facts, call.func):
            logged = argument_value(call, "log", 2)
            if logged is None or literal_value(logged) not in ("parameters", None):
                yield call


def _is_of_wandb(facts: Facts, func: cst.BaseExpression) -> bool:
    """True for the function of the package, and for the method of a run."""
    if facts.names.dotted(func) == "wandb.watch":
        return True
    runs = facts.objects.objects(func.value) if isinstance(func, cst.Attribute) else ()
    makers = [one.origin.func for one in runs if isinstance(one.origin, cst.Call)]
    return any(facts.names.dotted(maker) == "wandb.init" for maker in makers)
