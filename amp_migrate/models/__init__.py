"""What operations do, as data: torch's, measured (`python -m tests.operations`), and what is written by hand.

Asked by the front ends, the planner and the repairs. Nothing elsewhere holds a list of torch's operations.
"""

from __future__ import annotations

from amp_migrate.models.dtypes import Dtype
from amp_migrate.models.operation import Operation
from amp_migrate.models.rules import RESULTS
from amp_migrate.models.table import (
    configure,
    function,
    is_distribution,
    is_tensor_function,
    layer,
    layers,
    method,
    names,
)

__all__ = [
    "RESULTS",
    "Dtype",
    "Operation",
    "configure",
    "function",
    "is_distribution",
    "is_tensor_function",
    "layer",
    "layers",
    "method",
    "names",
]
