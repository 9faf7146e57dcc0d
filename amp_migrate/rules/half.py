"""Trainings in half by hand: casts, loss scales and master copies of the script's own."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule

RAISED_EPS = Rule(
    "AMP175",
    "note",
    "an eps that may have been raised for half gradients",
    "1e-8 is zero in half, so scripts that train in half give Adam a larger eps, which changes the updates",
    "nothing; with float32 gradients the default of 1e-8 works again, but compare before changing it",
)
SCALED_LOSS_READ = Rule(
    "AMP177",
    "attention",
    "a loss that was scaled is read",
    "the script multiplied the loss by its own loss scale, so that what it printed or summed up was scaled as well",
    "compare with logs of old runs carefully; where something divides the value by the scale, take the division out",
)
STATE_OF_HALF_RUN = Rule(
    "AMP179",
    "attention",
    "an optimizer's state is loaded that a run in half may have saved",
    "such a state belongs to master copies of the weights, mostly flat ones, and does not fit the parameters of "
    "the model",
    "resume such a run from the weights alone; states of new runs, and of runs without half, load",
)
WEIGHTS_CAST_OTHERWISE = Rule(
    "AMP926",
    "refusal",
    "the weights are cast to half in yet another way than around the steps",
    "the casts around the steps go; one that stays would leave half weights, whose gradients a GradScaler refuses",
    "remove this cast, since autocast takes float32 weights; then run again",
)
DEPENDS_ON_HALF = Rule(
    "AMP935",
    "refusal",
    "code depends on half precision in a way that is not understood",
    "with float32 weights under autocast, code that asks for half, casts to it or has a half() of its own may do "
    "something else, or raise",
    "take the casts out by hand, and the tests of the dtype with them, then run again",
)
UNKNOWN_TRAINER = Rule(
    "AMP936",
    "refusal",
    "what trains the half model is not understood",
    "the weights become float32 together with the optimizer that steps on them, the backward and the loss scale: "
    "all of these have to be known",
    "make the optimizer in these files, as in torch.optim.SGD(model.parameters(), lr=...), and step it after "
    "loss.backward(); then run again, or migrate this step by hand",
    cases={
        "masters": Case(
            "there are master copies of the weights",
            "the copies go with the half weights, and every use of them has to be known",
            "let the optimizer step on model.parameters() and take the master copies out, then run again",
        ),
        "scale": Case(
            "the loss scale is not one",
            "a GradScaler multiplies the loss and divides the gradients by one number, under one condition",
            "multiply the loss and divide the gradients by the same variable under the same test, then run again",
        ),
        "compared": Case(
            "the script compares half with float32",
            "what is trained in half is to be compared with the same in float32",
            "nothing, if it is there to compare; else remove the one that is not needed, then run again",
        ),
        "no wrapper": Case(
            "Apex's half weights are trained without FP16_Optimizer",
            "there is no loss scale to take over, and half weights have no native form",
            "remove the call that makes the weights half, and add autocast and a GradScaler by hand",
        ),
    },
)
OWN_SCALE = Rule(
    "AMP937",
    "refusal",
    "a loss scale of the script's own, with what belongs to it, is not understood",
    "the scale, the check for overflow and the master copies go together or not at all, wherever they are used",
    "migrate the class or loop by hand: scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update(), "
    "the forwards under autocast, and the trained model in float32; an arm without half shows what has to be left",
)
UNKNOWN_HALF_USER = Rule(
    "AMP938",
    "refusal",
    "a class trains in half by hand, and who uses it is not known",
    "its backward, the optimizer and the forwards under autocast are in different files, and change together",
    "give the whole folder; else give the class a GradScaler, and put the forwards of its users under autocast",
    helped_by=frozenset({Help.CALLERS}),
)
