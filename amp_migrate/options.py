"""The options of a migration."""

from __future__ import annotations

import dataclasses
from typing import Literal

Api = Literal["torch.cuda.amp", "torch.amp"]
Dtype = Literal["float16", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Options:
    """How to write the native form.

    `api` is the spelling: `torch.cuda.amp` for every torch since 1.6, `torch.amp` for 2.3 and newer; None
    takes it from the project (its declared torch, else the installed one). `dtype` is autocast's; bfloat16
    needs no scaler. `repair_clip` unscales before a clip that the source applied to scaled gradients.
    """

    api: Api | None = None
    dtype: Dtype = "float16"
    repair_clip: bool = False
