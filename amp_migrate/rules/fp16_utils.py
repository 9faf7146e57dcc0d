"""Apex's fp16_utils: FP16_Optimizer, copies of it, and what goes with them."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Rule

FP16_OPTIMIZER = Rule(
    "AMP160",
    "note",
    "FP16_Optimizer becomes autocast with a GradScaler",
    "half weights beside float32 masters have no native form: the weights themselves are float32, and autocast "
    "casts by operation",
    "nothing; there is one copy of the weights now, in float32",
)
OTHER_OPTIMIZER = Rule(
    "AMP161",
    "attention",
    "mixed precision trains with another optimizer than before",
    "the optimizer was chosen for half weights; the program without mixed precision, which has another one, is "
    "what the migrated one has to be",
    "check the learning rate and the weight decay; to keep the old optimizer, build it from the float32 parameters "
    "in place of the new one",
)
LEARNING_RATE_GOES = Rule(
    "AMP162",
    "attention",
    "a learning rate that was set in mixed precision only goes",
    "it was the schedule of an optimizer that goes; the one that is used now has its own, and both would multiply",
    "check that the optimizer or its scheduler warms up as you want",
)
ARMS_DIFFERED = Rule(
    "AMP163",
    "attention",
    "mixed precision did something else here",
    "the migrated program follows the arm without mixed precision; what the other arm did besides is gone",
    "compare the two arms, and put in by hand what you miss",
    cases={
        "apex": Case(
            "apex computed something else than the script says",
            "apex did not compute what the script says, and native AMP does",
            "nothing, where the script says what is meant; the training is not quite that under apex, so check the "
            "learning rate and the threshold of a clip",
        ),
        "list": Case(
            "an iterator becomes a list",
            "an iterator, such as model.parameters(), is empty after its first use; the half arm had a list, and "
            "the float32 arm now has one, too",
            "nothing, if all of it is meant each time; float32 training changes where the empty iterator was read",
        ),
    },
)
STATE_LOSES_PREFIX = Rule(
    "AMP164",
    "attention",
    "the keys of the model's state lose a prefix",
    "the wrapper around the half model put one before each key, and it is gone",
    "take the prefix off where old checkpoints are loaded (`amp-migrate checkpoint FILE --write` does so where a "
    "file has the state of an FP16_Optimizer), and where other code loads new ones",
)
STATE_OF_FP16_OPTIMIZER = Rule(
    "AMP165",
    "attention",
    "an optimizer's state is loaded that FP16_Optimizer may have saved",
    'FP16_Optimizer saves the state of its optimizer under "optimizer_state_dict", beside master weights and a '
    "loss scale",
    'convert old checkpoints with `amp-migrate checkpoint FILE --write`, or load state["optimizer_state_dict"] of '
    "them; new ones work",
)
UNWRAPPED_OPTIMIZER = Rule(
    "AMP166",
    "attention",
    "an optimizer beside the wrapped one steps on gradients of the scaled loss",
    "FP16_Optimizer unscales the gradients of its own optimizer only; any other one stepped on gradients times the "
    "loss scale",
    "expect smaller updates in mixed precision: those of the program without it",
)
SCALE_SETTING = Rule(
    "AMP167",
    "note",
    "a setting of the dynamic loss scale has no native form",
    "a GradScaler halves its scale at every overflow, and has no smallest one",
    "nothing in most cases; to start lower or to grow later, set init_scale and growth_interval of the GradScaler",
)
LOSS_TIMES_SCALE = Rule(
    "AMP170",
    "attention",
    "a loss is multiplied by the loss scale, and scaled",
    "FP16_Optimizer scales the loss itself, as a GradScaler does, and takes its own scale off the gradients only: "
    "the step takes them times the factor of the script, before and after the migration; where that is an option "
    "whose 0 means a dynamic scale, it takes zeros",
    "take the factor out of the loss; a learning rate or a threshold that was found with it may have to change",
)
CLIP_NORM_READ = Rule(
    "AMP176",
    "attention",
    "the norm of a clip is read, and is not -1 for an overflow any more",
    "apex returned -1 from clip_master_grads where gradients overflowed; torch's clip returns inf or nan",
    "test math.isfinite(norm) where the code tests for -1, and where norms are averaged or logged",
)
OVERFLOW_SKIPPED = Rule(
    "AMP178",
    "attention",
    "an overflow ended more than the optimizer's step",
    "GradScaler leaves out the step alone: averages of the weights, schedules and logs after it go on, as they do "
    "without mixed precision",
    "to leave them out as well, compare scaler.get_scale() before and after scaler.update(): it is smaller after "
    "an overflow",
)
UNKNOWN_FP16_USE = Rule(
    "AMP930",
    "refusal",
    "a use of FP16_Optimizer is not understood",
    "one use that is left behind would keep the whole script from running without Apex",
    "use nothing of FP16_Optimizer but backward, step, zero_grad, overflow, loss_scale, clip_master_grads and its "
    "state, each in a statement of its own, with arguments that are written out; then run again",
    cases={
        "arm": Case(
            "only the arm in mixed precision has it",
            "the migrated program is the arm without mixed precision under autocast, and that arm lacks this",
            "set it in the other arm as well, as it should be in float32, then run again",
        ),
    },
)
UNKNOWN_WRAPPER = Rule(
    "AMP931",
    "refusal",
    "the class that scales the loss was not found",
    "only the code of the class tells whether it is a copy of apex's FP16_Optimizer",
    "give the file that defines it as well, or the whole folder; or migrate by hand",
    cases={
        "wrapper": Case(
            "an unknown class has a backward for the loss",
            "a backward that is given the loss mostly scales it, and a second scale would be added to that",
            "give the file that defines the class; or use what it has for mixed precision",
        ),
    },
)
SCALE_BY_HAND = Rule(
    "AMP932",
    "refusal",
    "the loss scale or the master weights are handled by hand",
    "a GradScaler owns the loss scale, and its optimizer has the float32 weights themselves",
    "give FP16_Optimizer the scale where it wraps the optimizer, and take the master weights out, then run again; "
    "or migrate by hand: float32 weights, scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()",
    cases={
        "read": Case(
            "the scaled loss is read",
            "natively there is no variable that holds the scaled loss",
            "read the loss before it is scaled, then run again",
        ),
    },
)
