"""The GradScaler of a training: when it is on, where it is made, and who gets it."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule

GUARDS_DIFFER = Rule(
    "AMP905",
    "refusal",
    "two guards cannot be shown to agree",
    "one scaler has one `enabled`: with guards that differ, some backward or step would be scaled and another one not",
    "test the same variable in both places, then run again",
    helped_by=frozenset({Help.CALLERS}),
)
UNKNOWN_SCALER = Rule(
    "AMP914",
    "refusal",
    "the scaler, or its condition, is not known where it is needed",
    "the scaler has to be made once, before everything that uses it, and to reach all of it",
    "let one function, such as main, call the setup, the training and the checkpoints; then run again",
    cases={
        "condition": Case(
            "a condition is not known where the scaler is made or a forward runs",
            "the condition is the `enabled` of autocast and of the scaler",
            "compute the condition before, in the same function or as a parameter of it, then run again",
        ),
        "early": Case(
            "the scaler is used before it is made",
            "the scaler is made where mixed precision is set up",
            "move this below the setup, then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS, Help.MAKERS}),
)
SCALER_CANNOT_PASS = Rule(
    "AMP915",
    "refusal",
    "a function cannot be given the scaler",
    "the function has to get the scaler as a parameter, and not all of its calls can be given one",
    "call it by its name, with arguments that are written out (no *args, no getattr, no decorator in between), "
    "then run again",
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS}),
)
TWO_LOSS_SCALES = Rule(
    "AMP916",
    "refusal",
    "two loss scales for one scaler",
    "one scaler serves all losses and optimizers of a training",
    "ask for the same loss scale in all calls of amp.initialize, then run again",
    cases={
        "by hand": Case(
            "the losses are multiplied by hand",
            "one scaler serves all losses and optimizers of a training",
            "multiply all losses by the same loss scale, then run again",
        ),
    },
)
