"""Mistakes in native AMP that was there before us."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Rule

CLIP_OF_SCALED = Rule(
    "AMP401",
    "attention",
    "gradients are clipped before they are unscaled",
    "they are still multiplied by the loss scale, 65536 at the start, so that the threshold is in effect divided "
    "by it: nearly every step is clipped, to almost nothing",
    "call scaler.unscale_(optimizer) directly before the clip",
)
UNSCALED_TWICE = Rule(
    "AMP402",
    "attention",
    "gradients are unscaled twice before the next step",
    "GradScaler raises RuntimeError for it",
    "unscale once for each step: with accumulation only in the round that steps, under its condition",
)
UNSCALED_AFTER_STEP = Rule(
    "AMP403",
    "attention",
    "gradients are unscaled after the step",
    "GradScaler raises RuntimeError for it, and the step has unscaled them already",
    "call scaler.unscale_(optimizer) before scaler.step(optimizer)",
)
STEPPED_TWICE = Rule(
    "AMP404",
    "attention",
    "an optimizer steps twice before the update of its scaler",
    "GradScaler raises RuntimeError for it",
    "step once, then call scaler.update()",
    cases={
        "updated": Case(
            "the scaler was updated in between",
            "there was no backward since the first step, and scaler.step divides the same gradients by the loss "
            "scale once more: the step does next to nothing",
            "step once for each backward: remove one of the two, or clear the gradients and run a backward between "
            "them",
        ),
    },
)
STEP_PAST_SCALER = Rule(
    "AMP405",
    "attention",
    "an optimizer steps past its scaler",
    "the gradients are still scaled: the update is 65536 times too large at the start, or one with inf where "
    "scaler.step would have skipped it",
    "write scaler.step(optimizer) and, after it, scaler.update()",
    cases={
        "unscaled": Case(
            "the gradients are unscaled already",
            "where they overflowed they are inf or NaN, and so are the weights after this step; scaler.step would "
            "have skipped it",
            "write scaler.step(optimizer)",
        ),
        "again": Case(
            "the scaler has stepped it already",
            "the optimizer makes two steps on the same gradients",
            "remove this step: scaler.step(optimizer) calls it",
        ),
    },
)
UNSCALED_LOSS = Rule(
    "AMP406",
    "attention",
    "a scaler unscales or steps gradients of a loss that it did not scale",
    "it divides them by the loss scale all the same, or raises where nothing has been scaled yet",
    "write scaler.scale(loss).backward(), or step with optimizer.step()",
)
UPDATE_WITHOUT_STEP = Rule(
    "AMP407",
    "attention",
    "a scaler is updated where nothing has stepped",
    "GradScaler raises AssertionError for it: no inf checks were recorded prior to update",
    "call scaler.update() under the same condition as scaler.step",
)
BACKWARD_AFTER_UNSCALE = Rule(
    "AMP408",
    "attention",
    "a backward adds scaled gradients to unscaled ones",
    "such a sum has no meaning; and where a further unscale_ comes before update(), GradScaler raises RuntimeError",
    "with accumulation, unscale, clip and step only in the round that steps, under one condition",
)
UPDATE_MISSING = Rule(
    "AMP409",
    "attention",
    "scaler.update() is missing, or does not run after every step",
    "the next unscale_ or step of this optimizer raises RuntimeError",
    "call scaler.update() once after the last scaler.step of each round, under the same condition",
)
BACKWARD_UNDER_AUTOCAST = Rule(
    "AMP410",
    "attention",
    "a backward runs under autocast",
    "torch advises against it: a backward takes the dtypes of its forward by itself",
    "end the `with autocast` block before the backward",
)
LOSS_ON_HALF = Rule(
    "AMP411",
    "note",
    "a loss is computed outside of autocast on what came out of it",
    "under autocast torch computes losses in float32; outside of it a half input makes it compute them in half",
    "move the loss into the region, or give it its input with .float()",
)
SCALER_IN_LOOP = Rule(
    "AMP412",
    "attention",
    "a scaler is made anew in a loop, and its optimizer is not",
    "the loss scale that was found is lost each time, and the steps until it is found again are skipped",
    "make the scaler once, before the loop",
)
SCALER_NOT_SAVED = Rule(
    "AMP413",
    "note",
    "the state of a scaler is not saved",
    "a run that is resumed starts with the default loss scale, and skips steps until it has found a good one",
    "save scaler.state_dict() beside the state of the optimizer; load it where that is loaded, if the checkpoint "
    "has its key",
)
FOREIGN_SCALER = Rule(
    "AMP414",
    "attention",
    "an optimizer is given to another scaler than the one that scaled its loss",
    "each scaler has a scale of its own: gradients are divided by a scale that they were not multiplied by, twice, "
    "or not at all",
    "give each optimizer to one scaler: scale its loss, unscale_, step and update with that one",
    cases={
        "unstepped": Case(
            "no scaler steps the optimizer",
            "its gradients are unscaled, and scaler.step is called for other optimizers only",
            "call scaler.step for this optimizer with the scaler that unscales it; look for a wrong name in one of "
            "the calls",
        ),
    },
)
UPDATE_BETWEEN_STEPS = Rule(
    "AMP415",
    "attention",
    "a scaler is updated between the steps of two optimizers",
    "the second one divides its gradients by the new scale, although they were multiplied by the old one",
    "call scaler.update() once, after the last scaler.step of the round",
)
SCALED_TWICE = Rule(
    "AMP416",
    "attention",
    "a loss is scaled twice",
    "its gradients are multiplied by the scale twice, and divided once",
    "scale each loss once, at its backward: scaler.scale(loss).backward()",
)
