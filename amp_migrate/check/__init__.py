"""Do the files of a unit use native AMP correctly? (rules K)

The checks read nothing but the files: they hold for code that anybody wrote, and run on our own output
before it is written.
"""

from __future__ import annotations

from amp_migrate.check.autocast import check_autocast
from amp_migrate.check.calls import check_calls
from amp_migrate.check.lifetime import check_checkpoints, check_creations
from amp_migrate.check.names import check_names
from amp_migrate.check.ownership import check_owners
from amp_migrate.check.regions import check_losses
from amp_migrate.check.scalers import Scalers
from amp_migrate.check.states import check_states
from amp_migrate.check.typestate import check_typestate
from amp_migrate.check.violation import Violation
from amp_migrate.facts import Facts


def check_module(after: Facts, before: Facts | None = None) -> list[Violation]:
    """Everything wrong with the native AMP of some files.

    With `before`, the files that they were made from, they are all that uses their scalers, and names, imports and
    calls that the change broke are found too. Without it, other files may use the scalers, and what cannot be told
    without them is no violation.
    """
    whole = before is not None
    scalers = Scalers(after, whole=whole)
    violations = [
        *check_typestate(after, scalers, whole=whole),
        *check_autocast(after, scalers, whole=whole),
        *check_losses(after, scalers),
        *check_creations(after, scalers),
        *check_owners(after, scalers),
    ]
    if before is None:
        violations += check_checkpoints(after, scalers)
    else:
        violations += [*check_names(after, before), *check_calls(after, before), *check_states(after, before, scalers)]
    return violations


__all__ = ["Violation", "check_module"]
