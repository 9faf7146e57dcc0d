"""Plain float32 loops, and trainings that are left in float32."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule
from amp_migrate.rules.source_forms import PLAIN

PLAIN_LOOP = Rule(
    PLAIN,
    "note",
    "a plain float32 loop",
    "under autocast and with a GradScaler it needs less GPU memory, and is often twice as fast",
    f"`amp-migrate --select {PLAIN} --write` migrates it, `--ignore {PLAIN}` leaves plain loops out",
)
TEST = Rule(
    "AMP950",
    "refusal",
    "a test trains here",
    "a test says what is to be computed, and in which type; it is told by its folder, its name or its class",
    "nothing; if it trains for use, give the file another name or folder, then run again",
)
UNKNOWN_CALLER = Rule(
    "AMP951",
    "refusal",
    "who calls this training code, or what it trains, is not known",
    "the callers would have to make the GradScaler and pass it on",
    "give the files that call it too, or add autocast and a scaler by hand",
    cases={
        "model": Case(
            "the model comes from a caller",
            "the forward of the model would run under autocast, and has to be read for what breaks in half",
            "give the files that call this code, too; or add autocast and a GradScaler by hand",
        ),
        "run time": Case(
            "run time alone decides what is run",
            "what would run under autocast has to be read for what breaks in half",
            "call the class by its name in the code, then run again; or add autocast and a GradScaler by hand",
        ),
        "fit": Case(
            "who calls this fit of a few tensors is not known",
            "where another training calls it for each batch, each call would get a new GradScaler, which skips steps "
            "until its scale fits",
            "give the files that call it, too; or leave it in float32, where a fit of so little costs no time",
        ),
    },
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS, Help.SCRIPTS}),
)
UNKNOWN_OPTIMIZER = Rule(
    "AMP952",
    "refusal",
    "the optimizer is not known",
    "a GradScaler steps torch's optimizers, once for each backward and without a closure; whether this is such a "
    "one, and what it holds, has to be seen",
    "make it in these files as in torch.optim.SGD(model.parameters(), lr=...), or give the file that makes it, "
    "then run again",
    helped_by=frozenset({Help.CALLERS, Help.MAKERS}),
)
LOSS_EVALUATED_AGAIN = Rule(
    "AMP953",
    "refusal",
    "an optimizer takes the loss more than once for a step",
    "GradScaler.step supports neither closures nor several backwards for one step",
    "use an optimizer that needs neither; or keep this part in float32",
)
FLOAT64 = Rule(
    "AMP954",
    "refusal",
    "the training is in float64",
    "who asks for double precision needs more digits than half has",
    "nothing; if double precision is not needed, take it out, then run again",
)
SECOND_ORDER = Rule(
    "AMP955",
    "refusal",
    "gradients are differentiated again",
    "second-order statistics, and gradients of gradients, lose their meaning when they are scaled and half",
    "keep it in float32; or, with torch.autograd.grad, scale the loss and divide the gradients by hand before they "
    "are used",
)
SEVERAL_PROCESSES = Rule(
    "AMP956",
    "refusal",
    "several processes train the same weights",
    "each would need a loss scale of its own, and half weights of one would miss the updates of the others",
    "nothing; use DistributedDataParallel for training on GPUs",
    cases={
        "part": Case(
            "DistributedDataParallel has a part of what is trained",
            "the scaler of each process looks for overflows itself: one in a network whose gradients are not averaged "
            "skips the step of this process alone, and the weights and the loss scales of the processes part",
            "put all of it into DistributedDataParallel; or take the ShardedGradScaler of "
            "torch.distributed.fsdp, whose processes agree on what they skip; or --dtype bfloat16, which needs none",
        ),
    },
)
NO_STEP = Rule(
    "AMP957",
    "refusal",
    "no optimizer steps after this backward",
    "gradients that are looked at, or that other code applies, would come out scaled",
    "nothing, where the gradients themselves are wanted (saliency, attacks); else give the file that steps, too",
    helped_by=frozenset({Help.CALLERS, Help.MAKERS}),
)
GRADIENTS_WATCHED = Rule(
    "AMP958",
    "refusal",
    "gradients are looked at while they are scaled",
    "hooks, and gradients of inputs, see those of the scaled loss, which scaler.unscale_ does not reach",
    "divide them by scaler.get_scale() by hand, or keep this part in float32",
    cases={
        "anomaly": Case(
            "anomaly detection is on",
            "it raises at the first inf or NaN, and a GradScaler meets some while it looks for its scale, and "
            "skips those steps",
            "take it out, or switch it on by an option for debugging, then run again",
        ),
    },
)
UPDATE_BY_HAND = Rule(
    "AMP959",
    "refusal",
    "parameters are updated by hand",
    "a GradScaler skips the step of an optimizer where gradients overflow, and knows of no other update",
    "use an optimizer of torch.optim (SGD computes p -= lr * p.grad), then run again",
    cases={
        "given": Case(
            "gradients are given to the parameters without a backward",
            "torch.autograd.grad knows of no GradScaler, and without its scale small gradients are zero in half",
            "call loss.backward(), then run again; or give torch.autograd.grad the scaled loss by hand",
        ),
    },
)
FRAMEWORK = Rule(
    "AMP960",
    "refusal",
    "a framework runs the training",
    "it has mixed precision built in, with a scaler of its own",
    "use the framework's switch for it",
    cases={
        "unknown": Case(
            "an object takes the loss to its own backward",
            "such an object may scale the loss, and step, by itself",
            "use what its class has for mixed precision; or call loss.backward() and optimizer.step() here, then "
            "run again",
        ),
    },
)
OLD_CODE = Rule(
    "AMP961",
    "refusal",
    "the code cannot run with a torch that has native AMP",
    "native AMP needs torch 1.6 and Python 3, and there this line fails",
    "bring the line up to date, as in loss.item() for loss.data[0] and range for xrange; then run again",
)
VERSION_BESIDE = Rule(
    "AMP962",
    "refusal",
    "a version in mixed precision lies beside this file",
    "this one was probably kept in float32 to compare",
    "use the other file; or remove it, then run again",
)
NO_GPU = Rule(
    "AMP963",
    "silence",
    "no GPU is in sight",
    "nothing shows that this training runs on a GPU, and autocast would not help it on a CPU",
    "nothing",
    helped_by=frozenset({Help.CALLERS, Help.GPU}),
)
SEVERAL_LOSSES = Rule(
    "AMP964",
    "refusal",
    "a backward of a list by its name, or with gradients of its own",
    "each loss in the list would have to be scaled where it is made, and what the gradients are is not known",
    "write the losses out, as in torch.autograd.backward([loss, other]); then run again",
)
UNKNOWN_DEVICE = Rule(
    "AMP966",
    "refusal",
    "it is not known when the training is on a GPU",
    "autocast and GradScaler are for the GPU, and have to be switched off on the CPU",
    'decide about the device once, as in device = torch.device("cuda" if torch.cuda.is_available() else "cpu"), '
    "then run again",
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS}),
)
CHOSEN_PRECISION = Rule(
    "AMP971",
    "refusal",
    "a precision is chosen by hand where this trains",
    "whoever casts to half or bfloat16 has decided about precision, and the training may depend on it",
    "if the cast is for inference only, move it to a file that does not train, then run again; else migrate by hand",
    cases={
        "like another": Case(
            "weights are trained in the type of another model",
            "if that model is half, these weights are, and a GradScaler refuses their gradients",
            "make the weights float32, as in .to(device) without a dtype, then run again",
        ),
    },
    helped_by=frozenset({Help.CASTS}),
)
SHARED_PARAMETERS = Rule(
    "AMP972",
    "refusal",
    "two optimizers step the same parameters",
    "each optimizer that a GradScaler steps has its gradients unscaled: those of both would be divided twice",
    "give each parameter to one optimizer, then run again; or unscale by hand with one optimizer that has them all",
)
FILE_OF_SETTINGS = Rule(
    "AMP973",
    "refusal",
    "a file of settings names what trains here",
    "hydra makes it when the script runs, and no code shows whether it is on a GPU",
    "make the object in code, then run again; or add autocast and a GradScaler by hand",
    cases={
        "import": Case(
            "a module is imported by a name of run time",
            "what trains is made of it when the script runs, and no code shows whether it is on a GPU",
            "import the module by its name in the code, then run again; or add autocast and a GradScaler by hand",
        )
    },
    helped_by=frozenset({Help.CALLERS, Help.GPU}),
)
