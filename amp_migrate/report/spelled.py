"""One line that says how native AMP is spelled in what is written, and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amp_migrate.options import Options
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import APEX_AMP, FP16_UTILS, HALF, PLAIN

_BECOME_NATIVE = (APEX_AMP, FP16_UTILS, HALF, PLAIN)


def spelled(results: Iterable[Result], options: Options) -> tuple[str, ...]:
    """A line for each spelling and reason, as in "torch.amp: torch 2.13 is installed here"; none where the user has
    chosen the spelling, and none where no unit becomes native AMP.
    """
    changed = [one for one in results if one.changed and one.form in _BECOME_NATIVE and not one.only_companions]
    if options.api is not None or not changed:
        return ()
    from amp_migrate.files.torch_version import spelling_in  # it asks for installed packages, which takes a while

    # A unit is spelled in one way: as the project of its first file allows.
    found = {spelling_in(Path(one.members[0]), options.torch) for one in changed}
    return tuple(f"{one.api}: {one.why}" for one in sorted(found))
