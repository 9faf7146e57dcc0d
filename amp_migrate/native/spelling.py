"""How native AMP is spelled: `torch.cuda.amp` or `torch.amp`, float16 or bfloat16.

Facts by torch version ([T x.y.z] as of the reference): `torch.cuda.amp` exists since 1.6 and warns since 2.4,
`torch.amp.GradScaler` exists since 2.3 and takes the device first, the second positional argument of
`torch.autocast` changed its meaning in 1.11. So everything but the device is given by keyword.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.torch_name import torch_name
from amp_migrate.facts.tree import Function
from amp_migrate.options import Api, Dtype


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Writes calls of native AMP. `torch` is the name that the module is bound to, `quote` the author's."""

    torch: str
    api: Api
    dtype: Dtype
    quote: str

    def autocast(self, enabled: str | None, *, cached: bool = True) -> str:
        """`autocast(enabled=..., cache_enabled=False)`; None is always on."""
        arguments = [] if self.dtype == "float16" else [f"dtype={self.torch}.bfloat16"]
        if enabled is not None:
            arguments.append(f"enabled={enabled}")
        if not cached:
            arguments.append("cache_enabled=False")
        return self._call("autocast", arguments)

    def grad_scaler(
        self,
        enabled: str | None,
        init_scale: str | None = None,
        growth_factor: str | None = None,
        growth_interval: str | None = None,
    ) -> str:
        """`GradScaler(init_scale=..., growth_factor=..., growth_interval=..., enabled=...)`; None is the default."""
        arguments = [] if init_scale is None else [f"init_scale={init_scale}"]
        if growth_factor is not None:
            arguments.append(f"growth_factor={growth_factor}")
        if growth_interval is not None:
            arguments.append(f"growth_interval={growth_interval}")
        if enabled is not None:
            arguments.append(f"enabled={enabled}")
        return self._call("GradScaler", arguments)

    def custom_fwd(self, casts: str | None, around: str | None = None) -> str:
        """The decorator for an autograd function's forward: on arguments of a type, outside of autocast, or as the
        region says. `around` is a function that is given to it as a value.
        """
        if casts is None and around is None and self.api != "torch.amp":
            return f"{self.torch}.cuda.amp.custom_fwd"
        half = "bfloat16" if self.dtype == "bfloat16" else "float16"
        arguments = [] if casts is None else [f"cast_inputs={self.torch}.{half if casts == 'half' else casts}"]
        return self._call("custom_fwd", arguments, device="device_type=", first=around)

    def custom_bwd(self) -> str:
        """The decorator that runs its backward as its forward ran."""
        if self.api == "torch.amp":
            return self._call("custom_bwd", [], device="device_type=")
        return f"{self.torch}.cuda.amp.custom_bwd"

    def _call(self, name: str, arguments: list[str], device: str = "", first: str | None = None) -> str:
        if self.api == "torch.amp":
            arguments = [f"{device}{self.quote}cuda{self.quote}", *arguments]
        if first is not None:
            arguments = [first, *arguments]
        module = "amp" if self.api == "torch.amp" else "cuda.amp"
        return f"{self.torch}.{module}.{name}({', '.join(arguments)})"


class Spellings:
    """The spelling in each file of a unit; `without_torch` are those that came to need an import of it."""

    def __init__(self, facts: Facts, api: Api, dtype: Dtype) -> None:
        self.facts = facts
        self.api = api
        self.dtype = dtype
        self.without_torch: set[Function] = set()

    @property
    def uses_scaler(self) -> bool:
        """bfloat16 has the exponent range of float32, so its losses need no scaling."""
        return self.dtype == "float16"

    def at(self, node: cst.CSTNode) -> Spelling:
        """The spelling to write at a node."""
        root = self.facts.tree.root_of(node)
        name = torch_name(self.facts, root)
        if name is None:
            self.without_torch.add(root)
        return Spelling(name or "torch", self.api, self.dtype, self.facts.quote(node))
