"""What breaks in half precision in the code that a forward reaches."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule
from amp_migrate.rules.source_forms import PLAIN

INDEXED_WRITE = Rule(
    "AMP185",
    "attention",
    "a value is written by index into a float32 tensor",
    "torch raises where the dtypes differ, and under autocast the value may be half",
    "write value.to(destination.dtype), if the value is a tensor",
)
PRODUCT_IN_HALF = Rule(
    "AMP186",
    "attention",
    "a product of matrices runs in half, and should run in float32",
    "in half a sum of squares overflows beyond 65504, and phases and small distances are lost in rounding",
    "give the product a line of its own, and run it on .float() inputs inside of `with autocast(enabled=False)`",
)
SUMMED_LOSS = Rule(
    "AMP187",
    "note",
    "a loss is summed, not averaged",
    "times the loss scale, 65536 at first, the gradients of a sum may overflow; GradScaler skips those steps, and "
    "halves the scale each time",
    "nothing; to skip fewer steps at the start, give GradScaler a lower init_scale",
)
SAMPLED_POINTS = Rule(
    "AMP188",
    "attention",
    "a picture is sampled at points that may be made in half",
    "products run in half under autocast, and in a picture of 1,000 pixels a half coordinate is off by up to half "
    "a pixel",
    "compute the points in float32: their products inside of `with autocast(enabled=False)`, on .float() values",
)
NOTHING_IN_HALF = Rule(
    "AMP191",
    "attention",
    "nothing would run in half",
    "autocast runs convolutions and products of matrices in half, and there are none here: the training becomes "
    "neither faster nor smaller",
    f"leave the script as it is, with a comment `# amp-migrate: ignore-file[{PLAIN}]`; the change would do no harm",
)
FOREIGN_CODE = Rule(
    "AMP192",
    "attention",
    "code of a package that is not read runs on half values",
    "autocast casts for torch's own operations; a kernel of the package's own may raise for half, or lose precision",
    "run the script on a GPU once; if the package raises, give it .float() values inside of `with "
    "autocast(enabled=False)`",
    cases={
        "model": Case(
            "run time alone picks what is trained",
            "it is assumed to be one of the models that these files define or import, which were all read; another one "
            "was not, and may break in half",
            "see that it is one of them, or give its file, too",
        ),
        "network": Case(
            "a network of a package that is not read runs under autocast",
            "autocast runs its layers in half, and what the package computes with them may overflow, raise or lose "
            "precision there",
            "run the script on a GPU once, and compare its loss with that of float32",
        ),
    },
)
BCE_ON_PROBABILITIES = Rule(
    "AMP967",
    "refusal",
    "a binary cross entropy takes probabilities that may have been half",
    "CUDA autocast raises for it, and a sigmoid in half is exactly 1 from logit 8.5 on, which makes the gradient NaN",
    "use BCEWithLogitsLoss on what the sigmoid is given, then run again",
    cases={
        "logarithm": Case(
            "a logarithm or a quotient takes probabilities that a container makes in half",
            "in half a sigmoid is exactly 1 from logit 8.5 on, and tanh from 4.5 on: their gradients are NaN",
            "take the sigmoid out of the container and give it .float(), then run again",
        ),
    },
)
GRADIENT_PENALTY = Rule(
    "AMP968",
    "refusal",
    "a gradient penalty shares its graph with a loss, or its code was not found",
    "the gradients of its gradients belong in float32, and the forward of the loss does not",
    "give the penalty a forward of its own on .float() inputs, outside of what the loss uses, then run again",
    cases={
        "unread": Case(
            "the code of the penalty was not found",
            "the gradients of its gradients belong in float32: its code has to be read for the forward that it uses",
            "give the file that defines it, too; or keep this training in float32",
        ),
        "foreign": Case(
            "code that is not read may take gradients of an output",
            "a gradient that is taken under autocast is in half and unscaled, as in an inner step of meta learning",
            "take the gradient in the project's own code, outside of autocast; or keep this training in float32",
        ),
        "inside": Case(
            "every forward takes gradients itself",
            "gradients are taken outside of autocast, and no forward is left for it",
            "take the gradients outside of what runs the model for the loss, then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS}),
)
LOSS_ON_CPU = Rule(
    "AMP969",
    "refusal",
    "the loss is computed on the CPU",
    "half values leave the GPU there: most operations of the CPU take none, and GradScaler takes a loss on the GPU",
    "compute the loss on the GPU, and move it afterwards, then run again",
)
UNREAD_CODE = Rule(
    "AMP970",
    "refusal",
    "code that would run under autocast is in a file that was not read",
    "it may break in half precision, and nobody has run this training in it yet",
    "give the whole folder; where the file cannot be read, or there are too many, add autocast and a GradScaler by "
    "hand",
    helped_by=frozenset({Help.SCRIPTS}),
)
BEYOND_HALF = Rule(
    "AMP980",
    "refusal",
    "a half tensor is filled with a number beyond 65504",
    "torch raises for it; the tensor is changed in place, and other code may hold it, so that it cannot be cast here",
    "use the form that makes a new tensor (masked_fill in place of masked_fill_), or fill with -inf; then run again",
)
LINEAR_ALGEBRA = Rule(
    "AMP981",
    "refusal",
    "linear algebra or a transform cannot be kept in float32",
    "half has no kernels for it, and the line does more than this one operation",
    "give the operation a line of its own, with a name for what it takes, or cast its input with .float(); then "
    "run again",
)
AUTOGRAD_FUNCTION = Rule(
    "AMP982",
    "refusal",
    "an autograd function cannot take custom_fwd and custom_bwd",
    "under autocast it meets half and float32 side by side, in what it saves for its backward as well",
    "give it a static forward(ctx, ...) and backward(ctx, ...) of its own, then run again",
    cases={
        "shared": Case(
            "an autograd function fills or keeps a list that it is given",
            "by custom_fwd(cast_inputs=torch.float32) it gets a copy of each list: what others put into theirs is lost",
            "cast the tensors in its forward and turn autocast off there, put custom_fwd and custom_bwd without "
            "cast_inputs on it, then run again",
        ),
    },
)
COMPILED_EXTENSION = Rule(
    "AMP983",
    "refusal",
    "the forward calls a compiled extension",
    "autocast casts for torch's own operations only; most extensions take float32 and raise for half, or read it "
    "wrongly",
    "call it in an autograd function with custom_fwd(cast_inputs=torch.float32), then run again",
)
COMPLEX_PARAMETERS = Rule(
    "AMP984",
    "refusal",
    "the model has complex parameters",
    "GradScaler raises for their gradients, since torch cannot unscale complex numbers",
    "keep them as pairs of real numbers and read them by torch.view_as_complex, or train with --dtype bfloat16",
)
FLOAT32_ONLY = Rule(
    "AMP985",
    "refusal",
    "code under autocast takes nothing but float32",
    "it raises for a half tensor, and autocast may have made one of its input",
    "give it the value with .float(), then run again",
)
