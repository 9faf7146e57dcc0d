"""Files that belong together, and results that do not hold."""

from __future__ import annotations

from amp_migrate.home import ISSUES
from amp_migrate.rules.rule import Case, Help, Rule

BELONGS_TOGETHER = Rule(
    "AMP901",
    "refusal",
    "what belongs together is migrated together or not at all",
    "the files share a scaler, training steps or checkpoints, which have to change at the same time",
    "see the finding in the file that the message names; where that one can be mended, run again",
    cases={
        "not given": Case(
            "the other file was not given",
            "both have to change together, and only files that are given are changed",
            "run again with both files, or with their folder",
        ),
        "elsewhere": Case(
            "mixed precision is used in sight of no setup, or set up in sight of no use",
            "the scaler is made where mixed precision is set up, and has to reach each backward, step and checkpoint",
            "give the files that hold the other part, or the whole folder; if they were given, let the script "
            "import them by name, so that the two parts can be joined; if nothing calls amp.initialize, apex scales no "
            "loss: take it out",
        ),
        "unscaled": Case(
            "a loss is not scaled although apex is set up",
            "apex scaled no loss here, so it is not known which backwards belong to its optimizers",
            "write the backward as `with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()`, "
            "then run again; if it was to stay in float32, remove amp.initialize",
        ),
        "without": Case(
            "a script does without the setup that a function needs",
            "the function needs the scaler after the migration, and this script has none to give",
            "call it only where mixed precision is set up, or give it the state that it saves as a parameter, then "
            "run again",
        ),
        "two ways": Case(
            "two scripts change a line that they share in two ways",
            "each script decides what a function that they share is given, and these two decide differently",
            "let both scripts choose the device, the precision and the arguments in the same way, or give each a "
            "function of its own, then run again",
        ),
        "form": Case(
            "the other file has another source form",
            "a unit is migrated from one source form, and the other file has one that comes first: apex.amp, "
            "apex.fp16_utils, half by hand, float32",
            "see the findings in that file; where it is migrated or written natively, run again",
        ),
        "float32": Case(
            "a script in float32 shares what another one trains in half",
            "what both share would run under autocast in both, and one of them trains in float32 on purpose",
            "give the script in float32 a function or class of its own, or let it switch mixed precision off, then "
            "run again",
        ),
        "copy": Case(
            "a copy of FP16_Optimizer would change, too",
            "other scripts may need the copy as it is",
            "give all scripts that use the copy; or cast in a file of its own what is not trained by it",
        ),
        "many": Case(
            "too many files belong to it",
            "classes that are derived from one another have to take the scaler in the same way",
            "give the folder of this script alone; or add autocast and a GradScaler by hand",
        ),
        "neighbour": Case(
            "another file relies on apex being set up here",
            "apex changes what that file computes, and without it that file would do something else, or raise",
            "take out of that file what the message says, or write it natively, then run again",
        ),
        "decides": Case(
            "another file chooses a precision for what is shared",
            "half values from there would meet float32 from here, or float32 was meant there",
            "give that file a function of its own, or migrate it by hand, then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS, Help.OTHER_PART}),
    about="file",
    is_secondary=True,
)
NOT_THE_SAME = Rule(
    "AMP998",
    "refusal",
    "the result was not the same program, and is not written",
    "what would have been written does something else than the original, besides its precision; this is a mistake "
    "of amp-migrate, not of the script, and nothing of the unit is changed",
    f"report it at {ISSUES}, with both lines and the function around them; migrate the place by hand, or leave it",
)
INTERNAL_ERROR = Rule(
    "AMP999",
    "error",
    "an internal error",
    "what was written did not pass its own checks, or the analysis failed; this is a mistake of amp-migrate, not "
    "of the script, and nothing of the unit is changed",
    f"report it at {ISSUES}, with the message and, if you may, the files; the other files are processed all the same",
    about="file",
)
