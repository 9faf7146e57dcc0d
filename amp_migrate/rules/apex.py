"""Apex's amp: what becomes of it beside the training steps, and uses of it that are not understood."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule

FLOAT32_WEIGHTS = Rule(
    "AMP101",
    "note",
    "half weights become float32 weights under autocast",
    "native AMP keeps the weights in float32 and casts them by operation; half weights have no native form",
    "cast outputs with .float() before arithmetic of your own on them, since apex handed them out in float32; "
    "checkpoints load unchanged",
)
PURE_HALF = Rule(
    "AMP102",
    "note",
    "O3 becomes autocast with a scaler",
    "training in pure float16 has no native form: GradScaler refuses half gradients",
    "nothing; the weights take the memory of float32, and small updates are no longer lost",
)
UNUSED_OPTION = Rule(
    "AMP103",
    "note",
    "an option or parameter has no effect any more",
    "only what the migration took out has read it; it stays, so that old command lines and calls still work",
    "remove it once nobody passes it any more",
)
ONE_SCALER = Rule(
    "AMP105",
    "note",
    "one scaler serves all losses",
    "apex kept a loss scale for each loss; natively one scaler serves a training",
    "nothing; the training differs after an overflow only, which lowers the scale of all losses and no longer that "
    "of one",
)
UNTESTED_CHECKPOINT = Rule(
    "AMP107",
    "attention",
    "a checkpoint is loaded without a test of its format",
    "apex saved {'loss_scaler0': ...}, for which GradScaler.load_state_dict raises KeyError",
    'convert old ones with `amp-migrate checkpoint FILE --write`, or guard the load with `if "scale" in ...`',
)
DEFAULT_IS_NO_LEVEL = Rule(
    "AMP111",
    "attention",
    "the default of a level option is not a level",
    "amp.initialize raises for all but O0, O1, O2 and O3, written with the letter O: the script runs only where "
    "the option is given, or where a test leaves that call out",
    "give the option the default that was meant, such as O1; where the default is to mean float32, give it O0",
)
KEEP_BATCHNORM_UNDER_O1 = Rule(
    "AMP114",
    "attention",
    "keep_batchnorm_fp32 is given under O1",
    "apex raises RuntimeError for it, so the script cannot have run as it stands",
    "nothing: autocast keeps the weights of BatchNorm in float32",
)
ARGUMENT_OF_INITIALIZE = Rule(
    "AMP116",
    "attention",
    "an argument of amp.initialize has no native form",
    "autocast keeps weights in float32, and decides about casts by operation",
    "check that nothing relies on the dtype of weights or outputs",
    cases={
        "bounds": Case(
            "the argument bounds the loss scale",
            "a GradScaler has no bounds for its scale; they have no effect on a static scale, and whether this one "
            "is static is known at run time only",
            "nothing where the scale is static; else check that the training relies on no bound: a GradScaler "
            "halves its scale at each overflow, without end",
        ),
    },
)
LEVEL_AS_ENABLED = Rule(
    "AMP117",
    "attention",
    "`enabled` of amp.initialize is given the level",
    "`enabled` is only tested for truth, and the third argument is `enabled`: the level is the default, O1",
    "nothing to keep this training, which was O1 all along; for another level write opt_level=",
)
LEVEL_AT_RUN_TIME = Rule(
    "AMP118",
    "note",
    "the level is known at run time only",
    "O1, O2 and O3 all become autocast with float32 weights, and O0 switches it off",
    "nothing; an option for the level still works",
)
APEX_NOT_REQUIRED = Rule(
    "AMP122",
    "note",
    "mixed precision does not depend on apex being installed",
    "without apex the script trained in float32",
    "nothing; or give the script an option that switches mixed precision",
)
APEX_FOR_OLD_TORCH = Rule(
    "AMP123",
    "note",
    "Apex was for an older torch",
    "every torch from 1.6 on has native AMP, and the script used it there already",
    "nothing, unless you train with a torch before 1.6",
)
HALF_FUNCTION = Rule(
    "AMP168",
    "note",
    "a half_function goes",
    "autocast casts the operations in it one by one; apex cast its arguments first, and then the operations as well",
    "nothing",
)
FLOAT_FUNCTION = Rule(
    "AMP169",
    "note",
    "a float_function is kept out of autocast",
    "custom_fwd casts its arguments as apex did, and turns autocast off inside, where apex still ran products in half",
    "nothing; where the products in it matter for speed, take the decorator off and cast the arguments with "
    ".float() instead",
)
UNKNOWN_AMP_USE = Rule(
    "AMP902",
    "refusal",
    "a use of Apex's mixed precision is not understood",
    "one use that is left behind would keep the whole script from running without Apex",
    "write it as Apex documents it, each call in a statement of its own: `model, optimizer = amp.initialize(model, "
    'optimizer, opt_level="O1")`, `with amp.scale_loss(loss, optimizer) as scaled_loss:`; then run again',
    cases={
        "argument": Case(
            "an argument has no native form",
            "a GradScaler has nothing that does the same",
            "drop the argument if it may go, then run again; else migrate this step by hand",
        ),
        "scaler": Case(
            "code that is given no scaler needs it",
            "the native form saves, loads or reads the scaler there, and no parameter brings it",
            "do this in the function that calls amp.initialize, or hand the function what it needs, such as "
            "amp.state_dict(); then run again",
        ),
        "no training": Case(
            "no training uses it",
            "only the training shows what the native form has to be",
            "give the files that train with it; for inference alone, write model.half() or `with "
            'torch.autocast("cuda")` in its place by hand',
        ),
        "two forms": Case(
            "a script can choose between two kinds of mixed precision",
            "both would have to become one, and they need not train the same",
            "remove one of the two, then run again",
        ),
        "handle": Case(
            "amp.init is used beside casts or scales of another kind",
            "amp.init casts operation by operation, and divides by its own scale only",
            "take the cast or the second scale out, then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS}),
)
AMP_ESCAPES = Rule(
    "AMP903",
    "refusal",
    "the apex.amp module goes where it cannot be followed",
    "who receives it would have to receive a GradScaler instead",
    "give the file that receives it, too; or hand on what it needs of the module, such as its state_dict or a "
    "flag, then run again",
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS}),
)
REJECTED_ARGUMENT = Rule(
    "AMP906",
    "refusal",
    "apex is given an argument that it rejects",
    "apex raises at this line, so that what is meant cannot be known",
    "correct the argument, then run again",
    helped_by=frozenset({Help.CALLERS}),
)
NO_LEVEL = Rule(
    "AMP907",
    "refusal",
    "the optimization level is not a level",
    "apex raises at this line, so that which level is meant cannot be known",
    "write O0, O1, O2 or O3, with the letter O",
)
CAST_FUNCTION = Rule(
    "AMP909",
    "refusal",
    "a function's casts are changed in a way that has no native form",
    "native AMP has no list of functions that can be edited, and custom_fwd stands for simple cases only",
    "cast inside the function (`x.float()`), or run it in autocast(enabled=False), and remove the registration",
    cases={
        "elsewhere": Case(
            "another file is needed",
            "which calls of the function are cast, and where, depends on that file",
            "give the file with the function, and the one that calls amp.initialize, or the whole folder",
        ),
    },
    helped_by=frozenset({Help.ALL_CALLS}),
)
OLD_HANDLE = Rule(
    "AMP910",
    "refusal",
    "a use of apex's old handle is not understood",
    "which optimizer the handle wraps has to be known, to step it by the scaler",
    "write `handle = amp.init(enabled=...)` and `optimizer = handle.wrap_optimizer(optimizer)` as statements of "
    "their own, with arguments that are written out; then run again",
)
STAR_IMPORT = Rule(
    "AMP917",
    "refusal",
    "a name comes from apex through a star import",
    "the import goes, and would leave the name undefined",
    "import each name that is used from where it is defined, then run again",
)
IMPORT_IN_USE = Rule(
    "AMP918",
    "refusal",
    "a name that is bound by the import of apex is used for something else",
    "the import goes, and the name with it: it says whether apex is installed, or has a value only where it is not",
    "write the value that is meant in its place, or bind the name somewhere else, then run again",
)
NATIVE_BESIDE_APEX = Rule(
    "AMP919",
    "refusal",
    "native AMP is used beside apex",
    "the code supports both, or is migrated already: a second scaler would unscale the gradients twice",
    "remove the apex branch by hand where the native one is complete",
)
