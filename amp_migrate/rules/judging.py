"""What `judge` has against a migration that somebody else made."""

from __future__ import annotations

from amp_migrate.rules.rule import Rule

ANOTHER_PROGRAM = Rule(
    "AMP420",
    "breach",
    "not the same program",
    "mixed precision changes nothing about a program but its precision: without it both sides have to be the same "
    "statements",
    "do here what the original does; a change that is meant belongs into a commit of its own",
)
ANOTHER_SWITCH = Rule(
    "AMP421",
    "breach",
    "mixed precision is switched in another way",
    "autocast and the scaler are to be on exactly where the original's mixed precision is on; else an option, or a "
    "run without a GPU, trains in another precision than before",
    "give both the condition of the original, such as autocast(enabled=args.fp16) and GradScaler(enabled=args.fp16)",
)
LOST_FUNCTION = Rule(
    "AMP422",
    "breach",
    "a function is gone that was not about precision",
    "what it did is not done any more, or its callers do not find it",
    "put it back; where nobody needs it, delete it in a commit of its own",
)
LOST_NAME = Rule(
    "AMP423",
    "breach",
    "what was removed, renamed or given other parameters is still used",
    "where it is reached it raises NameError, AttributeError, ImportError or TypeError, maybe in a test or a "
    "notebook only",
    "change this use as well, or keep the old name with its parameters",
)
STILL_NEEDS_APEX = Rule(
    "AMP424",
    "breach",
    "the program stops where Apex is not installed",
    "Apex's amp was deleted in 2025, and native AMP does not need it: without Apex this ends the program that was "
    "migrated",
    "remove the import, the assertion or the check",
)
HALF_WEIGHTS = Rule(
    "AMP425",
    "breach",
    "weights are in half precision beside a GradScaler",
    "scaler.step raises `Attempting to unscale FP16 gradients`; under autocast weights stay in float32, and each "
    "operation casts what it needs",
    "remove the cast of the model",
)
SCALED_GRADIENTS = Rule(
    "AMP426",
    "breach",
    "gradients are read or changed while they are still scaled",
    "they are multiplied by the loss scale, 65536 at the start, until scaler.unscale_ or scaler.step",
    "call scaler.unscale_(optimizer) before this, or divide by scaler.get_scale()",
)
UNKNOWN_TO_TORCH = Rule(
    "AMP427",
    "breach",
    "torch has no such name",
    "this raises AttributeError or ImportError: torch's AMP has autocast, GradScaler, custom_fwd and custom_bwd, "
    "and for the rest of Apex torch has other names or nothing",
    "write GradScaler and autocast for initialize, scaler.scale(loss).backward() for scale_loss, "
    "SyncBatchNorm.convert_sync_batchnorm for convert_syncbn_model, and torch.optim.AdamW for FusedAdam",
    explains_its_line=True,
)
WAITS_FOR_GRADIENTS = Rule(
    "AMP428",
    "breach",
    "torch's DistributedDataParallel waits for gradients that do not come",
    "Apex's left out what had no gradient; torch's waits for each parameter that required one when it was wrapped, "
    "and stops with `Expected to have finished reduction`",
    "give find_unused_parameters=True; where parameters are frozen, do it before the model is wrapped",
)
OTHER_WORDS = Rule(
    "AMP429",
    "note",
    "the program prints something else, or takes one more option",
    "what is printed and logged, the help of an option or the message of an assertion differs, or there is a new "
    "option; the rest is the same",
    "nothing, unless a program reads the output",
)
NOT_COMPARED = Rule(
    "AMP430",
    "attention",
    "this could not be compared",
    "whether it is the same program here is not known; nothing is said against it",
    "read this place on both sides; if both run, compare them with `amp-migrate verify --before A --after B`",
    is_undecided=True,
)
