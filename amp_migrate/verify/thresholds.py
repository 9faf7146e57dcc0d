"""How much two runs may differ, in one place. Where the numbers come from: docs/verification.md.

All differences are relative. Each limit is the larger of a fixed number, measured on correct pairs, and a multiple of
what half precision does to this very script: `noise` is what one autocast over the original moves its first loss by,
`control` is what one rounding error in the weights does to its curve.
"""

from __future__ import annotations

from amp_migrate.verify.form import Form

ROUNDING = 1e-5  # of float32, in a first loss or gradient norm
# In float64 right pairs reached 2e-15, and mistakes are as large as in float32: AdamW with an eps of 1e-6 in place of
# 1e-8 is 1.6e-5 off. What rounding makes of an unstable script is a billionth of what it makes of it in float32.
FLOAT64 = 1e-9
FLOAT64_OF_FLOAT32 = 1e-6
GROWTH = 1e3  # of an error, in one update, at most: that of a mistake begins at its size
LEAST_OF_USUAL = 1e-3  # losses and norms nearer to 0 than so much of the usual ones are measured by that
PERHAPS_ROUNDING = 1e-2  # a Sigmoid that saturates in float32 moved the first loss by 1e-5, the next ones by more
ROUNDING_UNPROVEN = 2e-6  # in ten updates, where float64 cannot be asked

FIRST_LOSS: dict[Form, float] = {
    "patched by Apex": 2.0**-11,  # cross_entropy under autocast rounds log-probabilities to half; Apex casts before it
    "cast by Apex": 2.0**-11,
    "native": 2.0**-11,
    "FP16_Optimizer": 2e-3,  # rounded weights, and a loss that may be computed in half precision
    "half by hand": 2e-3,
    "float32": 2.0**-11,  # the outputs are half numbers now, and one sample of the noise may be small by chance
}
FIRST_GRADIENT = 1e-2
LARGEST_LIMIT = 100.0  # of a gradient norm near an optimum: a forgotten loss scale moves it much further
LOSSES: dict[Form, float] = {  # of ten updates, and of the whole curve
    "patched by Apex": 5e-3,
    "cast by Apex": 5e-2,  # it rounds in other places, in every update
    "native": 5e-2,
    "FP16_Optimizer": 1e-2,
    "half by hand": 1e-2,
    "float32": 5e-3,
}
WEIGHTS = 2e-2  # Adam and its like move a weight by a whole step where rounding turns the sign of a tiny gradient

BFLOAT16 = 8.0  # times as coarse as float16: 8 bits of precision instead of 11

TIMES_NOISE = 4.0
NOISE_NOT_MEASURED = 2.0**-11  # a rounding of float16: one autocast over everything overflows, or stops
TIMES_CONTROL = 4.0
TIMES_CONTROL_OF_WEIGHTS = 5.0
CHAOTIC = 0.1  # a control that moves further than this proves little

# Of the share that half precision has in the original: less than the first is a warning (a network that was never
# given to amp stays in float32), less than the second a forgotten region.
USUAL_OF_PRECISION = 0.7
LEAST_OF_PRECISION = 0.4
USUAL_PRECISION_SHARE = 0.7  # where it is not known

RECOGNISED = 0.1  # a number that is off by a loss scale, give or take this, names its cause

SKIPPED_SHARE = 0.2  # of the skipped steps
SKIPPED_STEPS = 2
MOST_SKIPPED = 0.5  # of all steps, once a first one was applied
END_OF_SCALE = 2.0  # one growth or backoff apart
