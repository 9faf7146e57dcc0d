"""What several test files share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from amp_migrate.verify import standin
from amp_migrate.verify.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Processes that run scripts, on the CPU on any machine: they import torch once for all tests."""
    with Pool("cpu") as pool:
        yield pool


@pytest.fixture(scope="module")
def apex() -> Iterator[Any]:
    """The stand-in, imported as a script would, and gone from the process afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(standin.DIRECTORY))
    import apex

    yield apex
    if hasattr(apex.amp._amp_state, "handle"):
        apex.amp._amp_state.handle._deactivate()
    sys.path.remove(str(standin.DIRECTORY))
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "apex":
            del sys.modules[name]
