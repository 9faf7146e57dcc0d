"""The options of a migration."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from amp_migrate.patterns import Patterns
from amp_migrate.selection import Selection

Api = Literal["torch.cuda.amp", "torch.amp"]
Dtype = Literal["float16", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Options:
    """How to write the native form.

    `api` is the spelling: `torch.cuda.amp` for every torch since 1.6, `torch.amp` for 2.3 and newer; None
    takes it from the project (its declared torch, else the installed one). `dtype` is autocast's; bfloat16
    needs no scaler. `repair_clip` unscales before a clip that the source applied to scaled gradients. `selection` says
    which source forms are looked for, and which findings are shown. With `reports_plain`, plain loops that are not
    selected by their code are reported only. `torch` is the oldest one that is supported; None takes what the project
    declares. Files of `exclude` are not touched, and the codes of `per_file_ignores` are ignored in the files of each.
    `operations` are what functions and layers of other packages return, by their full names (`models.RESULTS`).
    With `partial`, what is left alone is marked with comments; with `prints_plans`, results have the plan as text.
    Raises ValueError for other values.
    """

    api: Api | None = None
    dtype: Dtype = "float16"
    repair_clip: bool = False
    selection: Selection = dataclasses.field(default_factory=Selection)
    reports_plain: bool = False
    torch: tuple[int, int] | None = None
    exclude: Patterns | None = None
    per_file_ignores: tuple[tuple[Patterns, tuple[str, ...]], ...] = ()
    operations: tuple[tuple[str, str], ...] = ()
    partial: bool = False
    prints_plans: bool = False

    def __post_init__(self) -> None:
        if self.api is not None and self.api not in get_args(Api):
            raise ValueError(f"api must be one of {', '.join(get_args(Api))} or None, not {self.api!r}")
        if self.dtype not in get_args(Dtype):
            raise ValueError(f"dtype must be one of {', '.join(get_args(Dtype))}, not {self.dtype!r}")
