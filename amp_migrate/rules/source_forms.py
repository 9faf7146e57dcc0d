"""The codes of the source forms: what is looked for."""

from __future__ import annotations

APEX_AMP = "AMP010"
FP16_UTILS = "AMP030"
HALF = "AMP040"
PLAIN = "AMP050"
COMPANIONS = "AMP060"
MODERNISE = "AMP300"
NATIVE = "AMP400"

# In the order in which the summary counts them.
TITLES = {
    APEX_AMP: "apex.amp",
    FP16_UTILS: "apex.fp16_utils",
    HALF: ".half() training",
    PLAIN: "plain float32 loops",
    COMPANIONS: "other parts of apex",
    MODERNISE: "torch.cuda.amp",
    NATIVE: "native AMP",
}
