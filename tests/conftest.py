"""What several test files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amp_migrate.verify.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Processes that run scripts, on the CPU on any machine: they import torch once for all tests."""
    with Pool("cpu") as pool:
        yield pool
