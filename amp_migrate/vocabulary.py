"""Names of torch's interface that more than one reader asks for."""

from __future__ import annotations

# torch.nn.utils, the deprecated forms without an underscore included.
GRADIENT_CLIPS = frozenset("clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grad_value".split())
