"""Training steps: backward, unscale_, clip, step and update."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule

SCALED_CLIP_KEPT = Rule(
    "AMP104",
    "attention",
    "gradients are clipped before they are unscaled",
    "inside `with amp.scale_loss` the gradients are still multiplied by the loss scale (65536 at the start, where "
    "it is dynamic), so that the threshold is in effect divided by it; this is kept, for the same training",
    "run again with --repair-clip to unscale first; updates become larger then, so check the learning rate",
)
CLIP_AFTER_UNSCALE = Rule(
    "AMP108",
    "attention",
    "gradients are clipped after they are unscaled now",
    "inside `with amp.scale_loss` apex clipped gradients times the loss scale, so that the threshold was in effect "
    "divided by it; --repair-clip unscales first, and bfloat16 has no loss scale",
    "expect larger updates, and check the learning rate",
)
OPTIONAL_LOSS = Rule(
    "AMP120",
    "note",
    "options decide whether there is a loss at all",
    "GradScaler.step raises for an optimizer without gradients, where apex's step did nothing",
    "nothing, as long as one of the losses is switched on",
)
UNSCALED_LOSS_IS_SCALED = Rule(
    "AMP124",
    "note",
    "a loss that apex did not scale is scaled",
    "its gradients are added to those of a scaled loss, which natively stay scaled until the step; under apex's O1 "
    "they had been unscaled by then, and under O2 apex lost what was added",
    "nothing; the sum is what the script says",
)
CAUGHT_WHILE_UNSCALED = Rule(
    "AMP126",
    "note",
    "an exception in a clip or a step ends the training, although the script catches it",
    "a GradScaler takes an optimizer for unscaled until update(), so that the next unscale_ raises, where apex "
    "went on; after an exception in a forward or a backward (mostly out of memory) the training goes on as before",
    "nothing, if the training may end there; else call scaler.update() in the handler where the exception came "
    "from the clip or the step",
)
STEP_LEFT_OUT = Rule(
    "AMP127",
    "note",
    "a step without any gradient is left out",
    "GradScaler.step raises AssertionError where none of the optimizer's parameters has a gradient; a plain "
    "step passes over parameters without one, as all of torch's optimizers do",
    "nothing; where a backward comes before every step, the new test can go",
)
LOGGED_GRADIENTS = Rule(
    "AMP128",
    "note",
    "gradients are logged while they are scaled",
    "its hooks see the gradients of the scaled loss, 65536 times as large at first; the step takes unscaled ones",
    'write log="parameters" to log the weights alone; or log the gradients by hand, after '
    "scaler.unscale_(optimizer) and before the step",
)
GRADIENTS_IN_USE = Rule(
    "AMP904",
    "refusal",
    "gradients, or the loss scale, are used where native AMP has no equal",
    "native gradients stay scaled until the step, and can be unscaled only once before it",
    "use them between the last backward and the step, in the branch that steps, then run again; or migrate by "
    "hand, with scaler.unscale_(optimizer) before the first use",
    cases={
        "state": Case(
            "apex's own state is read or written",
            "a GradScaler has a state of its own: it can be read by get_scale(), and set where the scaler is made",
            "give amp.initialize the scale as loss_scale=..., take the access out, then run again",
        ),
        "no effect": Case(
            "the clip had no effect",
            "under O2 apex makes the gradients of its master weights when the `with` ends: a clip inside saw none, "
            "and would have an effect natively",
            "run again with --repair-clip, and check the learning rate; or remove the clip, which changes nothing",
        ),
        "micro-batch": Case(
            "scaled gradients are clipped in every round",
            "apex clipped what one micro-batch had added, and natively a clip sees the sum of all",
            "run again with --repair-clip; or clip once, in the branch that steps",
        ),
        "sums": Case(
            "gradients are summed over processes",
            "scaled gradients can be averaged over processes as they are; whatever else is done to them would see "
            "the loss scale",
            "let DistributedDataParallel average, or leave nothing but all_reduce and the division in this code, "
            "then run again",
        ),
        "second": Case(
            "an unscaled backward adds to scaled gradients",
            "a sum of scaled and unscaled gradients has no meaning natively",
            "scale this loss as well, by `with amp.scale_loss(...)`, or clear the gradients before and after it; "
            "then run again",
        ),
        "kept": Case(
            "gradients may stay over a step",
            "the step has unscaled them, and the next backward would add scaled ones",
            "call optimizer.zero_grad() on every path between the step and the next backward, then run again",
        ),
        "rounds": Case(
            "another optimizer steps during an accumulation",
            "one scaler serves both, and each update may change the scale of what is being added up",
            "step both optimizers in the same rounds, or migrate by hand with a scaler for each",
        ),
        "decides": Case(
            "the norm decides about the step in every round",
            "natively an overflow is found by scaler.step, which would not be reached then: the scale would never "
            "go down",
            "by hand: keep the test, and call scaler.update() in its other branch, too, before anything leaves the "
            "function; after unscale_ it lowers the scale there",
        ),
        "unnamed": Case(
            "no name leads to the optimizer",
            "unscale_ has to be given the optimizer where its gradients are used, and nothing there leads to it",
            "hand the optimizer to this function, or keep it as an attribute of the object, then run again",
        ),
    },
)
STEP_NOT_JOINED = Rule(
    "AMP911",
    "refusal",
    "backward and step are not joined",
    "scaler.scale, unscale_, step and update stand around both, in one order",
    "call the step in the function of the backward, or in one that this calls by its name; then run again",
    cases={
        "hidden": Case(
            "code of another file makes a backward or a step",
            "what it does to the gradients, and when, would have to change as well",
            "call backward and step in this file, then run again; or migrate by hand: keep the call outside of "
            "autocast, and clear the gradients after it",
        ),
        "no step": Case(
            "only the arm without mixed precision steps",
            "in mixed precision these gradients would never be used",
            "call optimizer.step() after this backward in the same arm, then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS}),
)
UPDATE_PLACE = Rule(
    "AMP912",
    "refusal",
    "the update has no certain place",
    "scaler.update() must run exactly once after the steps of each round",
    "make the steps run under one condition, then run again",
    cases={
        "returned": Case(
            "the result of a step is returned",
            "scaler.update() has to follow the step",
            "call the step in a statement of its own before the return, then run again",
        ),
        "either": Case(
            "it may be an optimizer or something else",
            "scaler.step takes torch's optimizers only, and what else this may be has no param_groups",
            "step the optimizer and the other object in arms of their own, then run again",
        ),
    },
)
CLOSURE = Rule(
    "AMP913",
    "refusal",
    "an optimizer is given a closure",
    "a closure runs the backward again inside of the step, which GradScaler.step does not support",
    "use an optimizer that needs no closure, and call backward before its step; or train this part in float32",
)
NO_GRADIENTS = Rule(
    "AMP921",
    "refusal",
    "an optimizer may step without gradients",
    "GradScaler.step raises AssertionError where none of the optimizer's parameters has a gradient; without a "
    "scaler such a step just does nothing, or repeats the last one",
    "step once after each backward, in the same branch, then run again",
    helped_by=frozenset({Help.CALLERS, Help.MAKERS}),
)
STEP_ON_SCALED = Rule(
    "AMP923",
    "refusal",
    "the optimizer steps on scaled gradients",
    "apex unscales when `with amp.scale_loss` ends, so a step inside it used gradients 65536 times too large",
    "move the step out of the `with`, check the learning rate, and run again",
)
GRADIENTS_NOT_CLEARED = Rule(
    "AMP927",
    "refusal",
    "nothing clears the gradients of a loop",
    "each step takes the gradients of all rounds before it as well; a scaler would divide those again, so that "
    "next to nothing is left of them",
    "if that is not meant, call optimizer.zero_grad() in each round, then run again; if it is, migrate by hand",
)
