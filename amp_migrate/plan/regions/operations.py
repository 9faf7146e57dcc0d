"""Which operands of torch's operations the result has its precision from, where autocast has no say.

What CUDA's autocast runs in half is in none of these tables: there float32 does not come out of float32.
"""

from __future__ import annotations

import re

# Shape, place or range of one tensor, and means of it: the first operand.
OF_ONE = frozenset(
    "view view_as reshape permute transpose t contiguous flatten unflatten squeeze squeeze_ unsqueeze unsqueeze_ "
    "expand expand_as repeat repeat_interleave clone detach cuda cpu to type float double chunk split unbind narrow "
    "select index_select gather masked_select take roll flip pad interpolate upsample grid_sample mean max min amax "
    "amin clamp clamp_ clamp_min clamp_max clip dropout dropout2d max_pool1d max_pool2d avg_pool1d avg_pool2d "
    "adaptive_avg_pool2d adaptive_max_pool2d requires_grad_ retain_grad Variable pow sqrt nan_to_num diagonal "
    "movedim unfold sum prod cumsum cumprod log log1p abs neg reciprocal rsqrt".split()
)
# Arithmetic of several tensors: all operands.
OF_SEVERAL = frozenset(
    "add sub mul div multiply subtract divide true_divide maximum minimum lerp add_ sub_ mul_ div_ rsub".split()
)
# What takes a list of tensors, and returns one.
JOINING = frozenset("cat stack concat concatenate hstack vstack dstack block_diag".split())
# New tensors of float32, whatever autocast does.
FRESH = frozenset(
    "zeros ones full empty rand randn eye tensor zeros_like ones_like full_like rand_like randn_like empty_like "
    "new_zeros new_ones new_full new_empty new_tensor FloatTensor".split()
)
# Nonlinear functions that autocast runs in float32: what they return is as exact as a sigmoid of float32.
IN_FLOAT32 = frozenset("exp expm1 softplus log_softmax gumbel_softmax".split())
# Layers that are one of the operations above.
LAYERS_OF_ONE = frozenset(
    "Identity Flatten Unflatten Dropout Dropout2d Upsample UpsamplingBilinear2d UpsamplingNearest2d MaxPool1d "
    "MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool2d AdaptiveMaxPool2d ZeroPad2d ReflectionPad2d "
    "ReplicationPad2d".split()
)
# As new tensors, in the dtype of another one.
LIKE = frozenset(name for name in FRESH if name.endswith("_like") or name.startswith("new_"))
_NOT_HALF = re.compile(r"device|cuda|gpu|cpu|rank|(float|float32|floattensor|double)$")


def keeps_float32(text: str) -> bool:
    """True for the text of an argument of `x.to(...)` and `x.type(...)` that is a device, or float32."""
    return _NOT_HALF.search(text.lower().strip("\"'")) is not None and "half" not in text.lower()
