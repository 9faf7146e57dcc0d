"""Every finding: its code, what it is about, why it matters, and what to do by hand.

Codes are stable and never reused: AMP0xx are source forms (`selection.py`), AMP1xx go with a unit that is migrated,
AMP301 to AMP319 with the spelling of native AMP, AMP401 to AMP419 with mistakes in native AMP that was there before us,
AMP420 to AMP439 with what `judge` has against a migration, AMP9xx with a unit that is left alone, AMP99x with a file
that could not be processed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from amp_migrate.home import REPOSITORY

_ISSUES = f"{REPOSITORY}/issues"

Kind = Literal["note", "attention", "breach", "refusal", "silence", "error"]


@dataclasses.dataclass(frozen=True)
class Case:
    """One cause of a finding, where it asks for other words than the rest of its rule; `title` says which one."""

    title: str
    why: str
    what_to_do: str


@dataclasses.dataclass(frozen=True)
class Rule:
    """One kind of finding.

    A `note` is for information, an `attention` wants a look before merging, a `breach` is a mistake in a migration that
    somebody else made, a `refusal` says why a unit is left alone, an `error` that a file could not be read, parsed or
    written. A `silence` is why a unit is none of our business; it is never shown, but may be lifted by more files.
    `cases` are named by the places that raise them.
    """

    code: str
    kind: Kind
    title: str
    why: str
    what_to_do: str
    cases: Mapping[str, Case] = dataclasses.field(default_factory=dict)

    def of(self, case: str) -> Rule | Case:
        """Who has the words for a case; without one, the rule itself."""
        return self.cases[case] if case else self


_RULES = (
    Rule(
        "AMP050",
        "note",
        "a plain float32 loop",
        "under autocast and with a GradScaler it needs less GPU memory, and is often twice as fast",
        "`amp-migrate --select AMP050 --write` migrates it, `--ignore AMP050` leaves plain loops out",
    ),
    Rule(
        "AMP101",
        "note",
        "half weights become float32 weights under autocast",
        "native AMP keeps the weights in float32 and casts them by operation; half weights have no native form",
        "cast outputs with .float() before arithmetic of your own on them, since apex handed them out in float32; "
        "checkpoints load unchanged",
    ),
    Rule(
        "AMP102",
        "note",
        "O3 becomes autocast with a scaler",
        "training in pure float16 has no native form: GradScaler refuses half gradients",
        "nothing; the weights take the memory of float32, and small updates are no longer lost",
    ),
    Rule(
        "AMP103",
        "note",
        "an option or parameter has no effect any more",
        "only what the migration took out has read it; it stays, so that old command lines and calls still work",
        "remove it once nobody passes it any more",
    ),
    Rule(
        "AMP104",
        "attention",
        "gradients are clipped before they are unscaled",
        "inside `with amp.scale_loss` the gradients are still multiplied by the loss scale (65536 at the start, where "
        "it is dynamic), so that the threshold is in effect divided by it; this is kept, for the same training",
        "run again with --repair-clip to unscale first; updates become larger then, so check the learning rate",
    ),
    Rule(
        "AMP105",
        "note",
        "one scaler serves all losses",
        "apex kept a loss scale for each loss; natively one scaler serves a training",
        "nothing; the training differs after an overflow only, which lowers the scale of all losses and no longer that "
        "of one",
    ),
    Rule(
        "AMP106",
        "note",
        "a forward stays in float32",
        "autocast is written only where its condition is known and where the code shows what becomes of the half "
        "results; without it the results are float32, as without mixed precision",
        "wrap it in autocast by hand if evaluation is slow, and cast its results with .float()",
    ),
    Rule(
        "AMP107",
        "attention",
        "a checkpoint is loaded without a test of its format",
        "apex saved {'loss_scaler0': ...}, for which GradScaler.load_state_dict raises KeyError",
        'convert old ones with `amp-migrate checkpoint FILE --write`, or guard the load with `if "scale" in ...`',
    ),
    Rule(
        "AMP108",
        "attention",
        "gradients are clipped after they are unscaled now",
        "inside `with amp.scale_loss` apex clipped gradients times the loss scale, so that the threshold was in effect "
        "divided by it; --repair-clip unscales first, and bfloat16 has no loss scale",
        "expect larger updates, and check the learning rate",
    ),
    Rule(
        "AMP109",
        "attention",
        "binary cross entropy is computed in float32, outside of autocast",
        "CUDA autocast raises for it; the sigmoid before it was not found, and a sigmoid in half is exactly 1 from "
        "logit 8.5 on",
        "use BCEWithLogitsLoss on the logits, or give the last sigmoid a float32 input: torch.sigmoid(x.float())",
    ),
    Rule(
        "AMP111",
        "attention",
        "the default of a level option is not a level",
        "amp.initialize raises for all but O0, O1, O2 and O3, written with the letter O: the script runs only where "
        "the option is given, or where a test leaves that call out",
        "give the option the default that was meant, such as O1; where the default is to mean float32, give it O0",
    ),
    Rule(
        "AMP112",
        "attention",
        "bfloat16 does not reach the replicas of DataParallel",
        "the threads of DataParallel are told whether autocast is on, but not its dtype: with several GPUs they run in "
        "float16, and nothing scales the loss",
        "use DistributedDataParallel, or put the autocast into the model's forward",
    ),
    Rule(
        "AMP113",
        "note",
        "torch 1.6 takes no autocast to the replicas of DataParallel",
        "the project allows torch 1.6, in which the threads of DataParallel are not told that autocast is on: with "
        "several GPUs the forward runs in float32 there",
        "nothing with torch 1.7 or newer; for torch 1.6 decorate the model's forward with autocast()",
    ),
    Rule(
        "AMP114",
        "attention",
        "keep_batchnorm_fp32 is given under O1",
        "apex raises RuntimeError for it, so the script cannot have run as it stands",
        "nothing: autocast keeps the weights of BatchNorm in float32",
    ),
    Rule(
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
    ),
    Rule(
        "AMP117",
        "attention",
        "`enabled` of amp.initialize is given the level",
        "`enabled` is only tested for truth, and the third argument is `enabled`: the level is the default, O1",
        "nothing to keep this training, which was O1 all along; for another level write opt_level=",
    ),
    Rule(
        "AMP118",
        "note",
        "the level is known at run time only",
        "O1, O2 and O3 all become autocast with float32 weights, and O0 switches it off",
        "nothing; an option for the level still works",
    ),
    Rule(
        "AMP120",
        "note",
        "options decide whether there is a loss at all",
        "GradScaler.step raises for an optimizer without gradients, where apex's step did nothing",
        "nothing, as long as one of the losses is switched on",
    ),
    Rule(
        "AMP121",
        "attention",
        "a copy of the model is cast to half by hand",
        "apex's O1 had patched torch, so that a half copy took float32 inputs anywhere; native autocast casts inside "
        "its regions only",
        "drop the cast, or give the copy half inputs where it runs",
    ),
    Rule(
        "AMP122",
        "note",
        "mixed precision does not depend on apex being installed",
        "without apex the script trained in float32",
        "nothing; or give the script an option that switches mixed precision",
    ),
    Rule(
        "AMP123",
        "note",
        "Apex was for an older torch",
        "every torch from 1.6 on has native AMP, and the script used it there already",
        "nothing, unless you train with a torch before 1.6",
    ),
    Rule(
        "AMP124",
        "note",
        "a loss that apex did not scale is scaled",
        "its gradients are added to those of a scaled loss, which natively stay scaled until the step; under apex's O1 "
        "they had been unscaled by then, and under O2 apex lost what was added",
        "nothing; the sum is what the script says",
    ),
    Rule(
        "AMP125",
        "note",
        "a region keeps no casts of weights",
        "the same weights run without gradients first, and torch (until the end of 2025) reuses the casts that it made "
        "there, which have no graph: the weights would not be trained",
        "nothing; cache_enabled=False needs torch 1.10, and casts the weights at each use",
    ),
    Rule(
        "AMP126",
        "note",
        "an exception in a clip or a step ends the training, although the script catches it",
        "a GradScaler takes an optimizer for unscaled until update(), so that the next unscale_ raises, where apex "
        "went on; after an exception in a forward or a backward (mostly out of memory) the training goes on as before",
        "nothing, if the training may end there; else call scaler.update() in the handler where the exception came "
        "from the clip or the step",
    ),
    Rule(
        "AMP127",
        "note",
        "a step without any gradient is left out",
        "GradScaler.step raises AssertionError where none of the optimizer's parameters has a gradient; Apex just "
        "stepped, and torch's optimizers pass over parameters without one",
        "nothing; where a backward comes before every step, the new test can go",
    ),
    Rule(
        "AMP128",
        "note",
        "gradients are logged while they are scaled",
        "its hooks see the gradients of the scaled loss, 65536 times as large at first; the step takes unscaled ones",
        'write log="parameters" to log the weights alone; or log the gradients by hand, after '
        "scaler.unscale_(optimizer) and before the step",
    ),
    Rule(
        "AMP130",
        "attention",
        "the apex of PyPI is asked for",
        "the package of that name on PyPI is a toolkit for the web framework Pyramid, not NVIDIA's Apex, which is not "
        "there; `apex==0.1` is the version of a build from source, and PyPI has none like it",
        "remove the line; if something still imports apex, install NVIDIA's from https://github.com/NVIDIA/apex "
        "instead",
    ),
    Rule(
        "AMP131",
        "note",
        "NVIDIA's Apex is installed here",
        "native AMP is a part of torch: only what still imports apex needs it",
        "remove the line once nothing imports apex; the message says whether something does",
    ),
    Rule(
        "AMP132",
        "note",
        "a document speaks of Apex",
        "readers may install Apex for mixed precision, which needs nothing but torch once the scripts are migrated",
        "say that mixed precision needs torch only; keep what is about parts of apex that are still imported",
    ),
    Rule(
        "AMP133",
        "attention",
        "the project asks for a torch without native AMP, or allows one",
        "native AMP came with torch 1.6; with an older one, migrated code fails at its import",
        "ask for torch 1.6 or newer, and for the torchvision and torchaudio that go with it",
    ),
    Rule(
        "AMP190",
        "attention",
        "a model returns logits now",
        "its last Sigmoid saturates in half, and CUDA autocast raises for the binary cross entropy after it; "
        "BCEWithLogitsLoss computes both together, in float32",
        "nothing for the files that were given; other code that runs the model has to apply torch.sigmoid",
    ),
    Rule(
        "AMP191",
        "attention",
        "nothing would run in half",
        "autocast runs convolutions and products of matrices in half, and there are none here: the training becomes "
        "neither faster nor smaller",
        "leave the script as it is, with a comment `# amp-migrate: ignore-file[AMP050]`; the change would do no harm",
    ),
    Rule(
        "AMP185",
        "attention",
        "a value is written by index into a float32 tensor",
        "torch raises where the dtypes differ, and under autocast the value may be half",
        "write value.to(destination.dtype), if the value is a tensor",
    ),
    Rule(
        "AMP186",
        "attention",
        "a product of matrices runs in half, and should run in float32",
        "in half a sum of squares overflows beyond 65504, and phases and small distances are lost in rounding",
        "give the product a line of its own, and run it on .float() inputs inside of `with autocast(enabled=False)`",
    ),
    Rule(
        "AMP187",
        "note",
        "a loss is summed, not averaged",
        "times the loss scale, 65536 at first, the gradients of a sum may overflow; GradScaler skips those steps, and "
        "halves the scale each time",
        "nothing; to skip fewer steps at the start, give GradScaler a lower init_scale",
    ),
    Rule(
        "AMP188",
        "attention",
        "a picture is sampled at points that may be made in half",
        "products run in half under autocast, and in a picture of 1,000 pixels a half coordinate is off by up to half "
        "a pixel",
        "compute the points in float32: their products inside of `with autocast(enabled=False)`, on .float() values",
    ),
    Rule(
        "AMP170",
        "attention",
        "a loss is multiplied by the loss scale, and scaled",
        "FP16_Optimizer scales the loss itself, as a GradScaler does, and takes its own scale off the gradients only: "
        "the step takes them times the factor of the script, before and after the migration; where that is an option "
        "whose 0 means a dynamic scale, it takes zeros",
        "take the factor out of the loss; a learning rate or a threshold that was found with it may have to change",
    ),
    Rule(
        "AMP168",
        "note",
        "a half_function goes",
        "autocast casts the operations in it one by one; apex cast its arguments first, and then the operations as "
        "well",
        "nothing",
    ),
    Rule(
        "AMP169",
        "note",
        "a float_function is kept out of autocast",
        "custom_fwd casts its arguments as apex did, and turns autocast off inside, where apex still ran products in "
        "half",
        "nothing; where the products in it matter for speed, take the decorator off and cast the arguments with "
        ".float() instead",
    ),
    Rule(
        "AMP175",
        "note",
        "an eps that may have been raised for half gradients",
        "1e-8 is zero in half, so scripts that train in half give Adam a larger eps, which changes the updates",
        "nothing; with float32 gradients the default of 1e-8 works again, but compare before changing it",
    ),
    Rule(
        "AMP177",
        "attention",
        "a loss that was scaled is read",
        "the script multiplied the loss by its own loss scale, so that what it printed or summed up was scaled as well",
        "compare with logs of old runs carefully; where something divides the value by the scale, take the division "
        "out",
    ),
    Rule(
        "AMP176",
        "attention",
        "the norm of a clip is read, and is not -1 for an overflow any more",
        "apex returned -1 from clip_master_grads where gradients overflowed; torch's clip returns inf or nan",
        "test math.isfinite(norm) where the code tests for -1, and where norms are averaged or logged",
    ),
    Rule(
        "AMP178",
        "attention",
        "an overflow ended more than the optimizer's step",
        "GradScaler leaves out the step alone: averages of the weights, schedules and logs after it go on, as they do "
        "without mixed precision",
        "to leave them out as well, compare scaler.get_scale() before and after scaler.update(): it is smaller after "
        "an overflow",
    ),
    Rule(
        "AMP179",
        "attention",
        "an optimizer's state is loaded that a run in half may have saved",
        "such a state belongs to master copies of the weights, mostly flat ones, and does not fit the parameters of "
        "the model",
        "resume such a run from the weights alone; states of new runs, and of runs without half, load",
    ),
    Rule(
        "AMP160",
        "note",
        "FP16_Optimizer becomes autocast with a GradScaler",
        "half weights beside float32 masters have no native form: the weights themselves are float32, and autocast "
        "casts by operation",
        "nothing; there is one copy of the weights now, in float32",
    ),
    Rule(
        "AMP161",
        "attention",
        "mixed precision trains with another optimizer than before",
        "the optimizer was chosen for half weights; the program without mixed precision, which has another one, is "
        "what the migrated one has to be",
        "check the learning rate and the weight decay; to keep the old optimizer, build it from the float32 parameters "
        "in place of the new one",
    ),
    Rule(
        "AMP162",
        "attention",
        "a learning rate that was set in mixed precision only goes",
        "it was the schedule of an optimizer that goes; the one that is used now has its own, and both would multiply",
        "check that the optimizer or its scheduler warms up as you want",
    ),
    Rule(
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
    ),
    Rule(
        "AMP164",
        "attention",
        "the keys of the model's state lose a prefix",
        "the wrapper around the half model put one before each key, and it is gone",
        "take the prefix off where old checkpoints are loaded (`amp-migrate checkpoint FILE --write` does so where a "
        "file has the state of an FP16_Optimizer), and where other code loads new ones",
    ),
    Rule(
        "AMP165",
        "attention",
        "an optimizer's state is loaded that FP16_Optimizer may have saved",
        'FP16_Optimizer saves the state of its optimizer under "optimizer_state_dict", beside master weights and a '
        "loss scale",
        'convert old checkpoints with `amp-migrate checkpoint FILE --write`, or load state["optimizer_state_dict"] of '
        "them; new ones work",
    ),
    Rule(
        "AMP166",
        "attention",
        "an optimizer beside the wrapped one steps on gradients of the scaled loss",
        "FP16_Optimizer unscales the gradients of its own optimizer only; any other one stepped on gradients times the "
        "loss scale",
        "expect smaller updates in mixed precision: those of the program without it",
    ),
    Rule(
        "AMP167",
        "note",
        "a setting of the dynamic loss scale has no native form",
        "a GradScaler halves its scale at every overflow, and has no smallest one",
        "nothing in most cases; to start lower or to grow later, set init_scale and growth_interval of the GradScaler",
    ),
    Rule(
        "AMP301",
        "note",
        "a use of torch.cuda.amp is left as it is",
        "torch.amp takes the device first, and what is handed on as a value is called where nothing would give it one",
        'write functools.partial(torch.amp.autocast, "cuda") in its place, or leave it: the old name warns, and works',
        cases={
            "star": Case(
                "the names come by a star import",
                "torch.amp takes the device first, and which calls a star import serves is not followed",
                'import the names that are used from torch.amp, and give their calls the device: autocast("cuda")',
            ),
            "several": Case(
                "a variable may be this class or something else",
                "torch.amp takes the device first, and the other thing that the variable may be takes none",
                'call each in an arm of its own, or bind functools.partial(torch.amp.autocast, "cuda") here',
            ),
            "module": Case(
                "the module is the value",
                "torch.amp takes the device first, and which calls go through the module is not followed",
                "hand on the class that is needed in place of the module, or leave it: the old names warn, and work",
            ),
            "arguments": Case(
                "the arguments of a call cannot be read",
                "torch.amp takes the device first, and what is given here in which place is not known",
                'write the arguments out, with "cuda" as the first',
            ),
        },
    ),
    Rule(
        "AMP302",
        "note",
        "a class derived from torch.cuda.amp is left as it is",
        "the first argument of the new base class is the device, and its own calls of super() would have to change",
        "derive it from torch.amp's class, and give the device in its `__init__`",
    ),
    Rule(
        "AMP303",
        "note",
        "a name of torch.cuda.amp is left as it is, for the script supports several versions of torch",
        "the test of the version is there for a torch that does not have the new name",
        "drop the test and the old branch once you support torch 2.4 and newer only",
        cases={
            "several": Case(
                "the name is bound in several places",
                "one of the places is mostly the fall-back for a torch that does not have the new name",
                "keep one of them, the import from torch.amp, once you support torch 2.4 and newer only",
            ),
        },
    ),
    Rule(
        "AMP304",
        "note",
        "a name of torch.cuda.amp that other files take from here is left as it is",
        "with torch.amp the calls in those files would have to give the device",
        "import it from torch.amp in each file that uses it, and give the calls the device there",
    ),
    Rule(
        "AMP305",
        "note",
        "what is private to torch.cuda.amp is left as it is",
        "it has no documented place in torch.amp, and moved between versions of torch",
        "use what is public in its place, such as GradScaler and its methods; or leave it, as long as the torch in use "
        "has it",
    ),
    Rule(
        "AMP306",
        "note",
        "custom_fwd and custom_bwd are left as they are",
        "torch.amp has them from torch 2.4 on, and the project supports older ones",
        "declare torch 2.4 or newer in the project's requirements, then run again; until then the old names work",
    ),
    Rule(
        "AMP311",
        "attention",
        "the first argument of torch.amp.GradScaler is the device",
        "a number given there is taken for the device, and the scale starts with its default",
        'write GradScaler("cuda", init_scale=...)',
    ),
    Rule(
        "AMP312",
        "attention",
        "the second argument of torch.amp.autocast is the dtype",
        "a bool given there is taken for the dtype; whether autocast is on does not depend on it",
        'write autocast("cuda", enabled=...)',
    ),
    Rule(
        "AMP313",
        "attention",
        "torch.amp.autocast is not given a device",
        "the call raises: the first argument is the type of the device",
        'write autocast("cuda", ...)',
    ),
    Rule(
        "AMP314",
        "attention",
        "a bool is given to GradScaler as its initial scale",
        "a bool given there means a scale of 1 or 0, and the scaler is on in any case",
        "write GradScaler(enabled=...)",
    ),
    Rule(
        "AMP401",
        "attention",
        "gradients are clipped before they are unscaled",
        "they are still multiplied by the loss scale, 65536 at the start, so that the threshold is in effect divided "
        "by it: nearly every step is clipped, to almost nothing",
        "call scaler.unscale_(optimizer) directly before the clip",
    ),
    Rule(
        "AMP402",
        "attention",
        "gradients are unscaled twice before the next step",
        "GradScaler raises RuntimeError for it",
        "unscale once for each step: with accumulation only in the round that steps, under its condition",
    ),
    Rule(
        "AMP403",
        "attention",
        "gradients are unscaled after the step",
        "GradScaler raises RuntimeError for it, and the step has unscaled them already",
        "call scaler.unscale_(optimizer) before scaler.step(optimizer)",
    ),
    Rule(
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
    ),
    Rule(
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
    ),
    Rule(
        "AMP406",
        "attention",
        "a scaler unscales or steps gradients of a loss that it did not scale",
        "it divides them by the loss scale all the same, or raises where nothing has been scaled yet",
        "write scaler.scale(loss).backward(), or step with optimizer.step()",
    ),
    Rule(
        "AMP407",
        "attention",
        "a scaler is updated where nothing has stepped",
        "GradScaler raises AssertionError for it: no inf checks were recorded prior to update",
        "call scaler.update() under the same condition as scaler.step",
    ),
    Rule(
        "AMP408",
        "attention",
        "a backward adds scaled gradients to unscaled ones",
        "such a sum has no meaning; and where a further unscale_ comes before update(), GradScaler raises RuntimeError",
        "with accumulation, unscale, clip and step only in the round that steps, under one condition",
    ),
    Rule(
        "AMP409",
        "attention",
        "scaler.update() is missing, or does not run after every step",
        "the next unscale_ or step of this optimizer raises RuntimeError",
        "call scaler.update() once after the last scaler.step of each round, under the same condition",
    ),
    Rule(
        "AMP410",
        "attention",
        "a backward runs under autocast",
        "torch advises against it: a backward takes the dtypes of its forward by itself",
        "end the `with autocast` block before the backward",
    ),
    Rule(
        "AMP411",
        "note",
        "a loss is computed outside of autocast on what came out of it",
        "under autocast torch computes losses in float32; outside of it a half input makes it compute them in half",
        "move the loss into the region, or give it its input with .float()",
    ),
    Rule(
        "AMP412",
        "attention",
        "a scaler is made anew in a loop, and its optimizer is not",
        "the loss scale that was found is lost each time, and the steps until it is found again are skipped",
        "make the scaler once, before the loop",
    ),
    Rule(
        "AMP413",
        "note",
        "the state of a scaler is not saved",
        "a run that is resumed starts with the default loss scale, and skips steps until it has found a good one",
        "save scaler.state_dict() beside the state of the optimizer; load it where that is loaded, if the checkpoint "
        "has its key",
    ),
    Rule(
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
    ),
    Rule(
        "AMP415",
        "attention",
        "a scaler is updated between the steps of two optimizers",
        "the second one divides its gradients by the new scale, although they were multiplied by the old one",
        "call scaler.update() once, after the last scaler.step of the round",
    ),
    Rule(
        "AMP416",
        "attention",
        "a loss is scaled twice",
        "its gradients are multiplied by the scale twice, and divided once",
        "scale each loss once, at its backward: scaler.scale(loss).backward()",
    ),
    Rule(
        "AMP420",
        "breach",
        "not the same program",
        "mixed precision changes nothing about a program but its precision: without it both sides have to be the same "
        "statements",
        "do here what the original does; a change that is meant belongs into a commit of its own",
    ),
    Rule(
        "AMP421",
        "breach",
        "mixed precision is switched in another way",
        "autocast and the scaler are to be on exactly where the original's mixed precision is on; else an option, or a "
        "run without a GPU, trains in another precision than before",
        "give both the condition of the original, such as autocast(enabled=args.fp16) and "
        "GradScaler(enabled=args.fp16)",
    ),
    Rule(
        "AMP422",
        "breach",
        "a function is gone that was not about precision",
        "what it did is not done any more, or its callers do not find it",
        "put it back; where nobody needs it, delete it in a commit of its own",
    ),
    Rule(
        "AMP423",
        "breach",
        "what was removed, renamed or given other parameters is still used",
        "where it is reached it raises NameError, AttributeError, ImportError or TypeError, maybe in a test or a "
        "notebook only",
        "change this use as well, or keep the old name with its parameters",
    ),
    Rule(
        "AMP424",
        "breach",
        "the program stops where Apex is not installed",
        "Apex's amp was deleted in 2025, and native AMP does not need it: without Apex this ends the program that was "
        "migrated",
        "remove the import, the assertion or the check",
    ),
    Rule(
        "AMP425",
        "breach",
        "weights are in half precision beside a GradScaler",
        "scaler.step raises `Attempting to unscale FP16 gradients`; under autocast weights stay in float32, and each "
        "operation casts what it needs",
        "remove the cast of the model",
    ),
    Rule(
        "AMP426",
        "breach",
        "gradients are read or changed while they are still scaled",
        "they are multiplied by the loss scale, 65536 at the start, until scaler.unscale_ or scaler.step",
        "call scaler.unscale_(optimizer) before this, or divide by scaler.get_scale()",
    ),
    Rule(
        "AMP427",
        "breach",
        "torch has no such name",
        "this raises AttributeError or ImportError: torch's AMP has autocast, GradScaler, custom_fwd and custom_bwd, "
        "and for the rest of Apex torch has other names or nothing",
        "write GradScaler and autocast for initialize, scaler.scale(loss).backward() for scale_loss, "
        "SyncBatchNorm.convert_sync_batchnorm for convert_syncbn_model, and torch.optim.AdamW for FusedAdam",
    ),
    Rule(
        "AMP428",
        "breach",
        "torch's DistributedDataParallel waits for gradients that do not come",
        "Apex's left out what had no gradient; torch's waits for each parameter that required one when it was wrapped, "
        "and stops with `Expected to have finished reduction`",
        "give find_unused_parameters=True; where parameters are frozen, do it before the model is wrapped",
    ),
    Rule(
        "AMP429",
        "note",
        "the program prints something else, or takes one more option",
        "what is printed and logged, the help of an option or the message of an assertion differs, or there is a new "
        "option; the rest is the same",
        "nothing, unless a program reads the output",
    ),
    Rule(
        "AMP430",
        "attention",
        "this could not be compared",
        "whether it is the same program here is not known; nothing is said against it",
        "read this place on both sides; if both run, compare them with `amp-migrate verify --before A --after B`",
    ),
    Rule(
        "AMP140",
        "attention",
        "apex's DistributedDataParallel becomes torch's",
        "torch's raises where a parameter gets no gradient, apex's left such parameters out; apex's never broadcast "
        "buffers, and with broadcast_buffers=False torch's does not either",
        "nothing, unless training stops with `Expected to have finished reduction`: find_unused_parameters=True then",
    ),
    Rule(
        "AMP141",
        "note",
        "DistributedDataParallel is given no device_ids",
        "torch needs none for a model on one device; with them it would also move the inputs there",
        "add device_ids=[local_rank] if the inputs of the model are not on its device yet",
    ),
    Rule(
        "AMP142",
        "note",
        "the arm with torch's own class serves both",
        "one arm used a class of apex and the other one torch's, for the same",
        "nothing",
        cases={
            "buffers": Case(
                "the class is DistributedDataParallel",
                "one arm used apex's DistributedDataParallel and the other one torch's, which also broadcasts buffers "
                "from the first process, unless it is told not to",
                "nothing; add broadcast_buffers=False if the buffers of each process are to stay its own",
            ),
        },
    ),
    Rule(
        "AMP143",
        "note",
        "synchronised batch norm is torch's",
        "with torch before 1.13 it raises where no process group is initialised; apex's was a plain batch norm there",
        "nothing with torch 1.13 or newer, or where it is used in distributed training only",
    ),
    Rule(
        "AMP144",
        "attention",
        "a fused optimizer becomes torch's",
        "the updates are the same up to rounding; but torch counts the steps of each parameter, and apex did not: a "
        "state that apex saved does not go on (KeyError: 'step')",
        "convert old checkpoints of FusedAdam with `amp-migrate checkpoint FILE --write`; with torch before 2.0, "
        "zero_grad(set_to_none=True) does what apex's did",
        cases={
            "sums": Case(
                "the optimizer is FusedAdagrad",
                "the updates are the same up to rounding; but torch counts the steps of each parameter, and apex did "
                "not: a state that apex saved does not go on (KeyError: 'step')",
                "resume old runs from the weights alone, or put the number of steps into the saved state of each "
                "parameter, as 'step': torch.tensor(...); with torch before 2.0, zero_grad(set_to_none=True) does what "
                "apex's did",
            ),
        },
    ),
    Rule(
        "AMP145",
        "note",
        "a fused normalization becomes torch's",
        "the same numbers and names of weights; under autocast torch's returns float32, apex's float16",
        "nothing; expect a little more memory under autocast",
    ),
    Rule(
        "AMP146",
        "note",
        "an argument of apex goes",
        "torch's class has no such argument: it steered how apex uses memory, not what is computed",
        "nothing",
        cases={
            "communication": Case(
                "the class is DistributedDataParallel",
                "torch has no such argument: it steered how apex communicates, not what is computed",
                "nothing, unless training stops with `Expected to have finished reduction`: "
                "find_unused_parameters=True then",
            ),
        },
    ),
    Rule(
        "AMP147",
        "note",
        "scripts are started by an old launcher",
        "torch.distributed.launch is deprecated, and apex.parallel.multiproc was deleted; torchrun sets LOCAL_RANK, "
        "RANK and WORLD_SIZE in the environment, and gives the script no --local_rank",
        "write it as the message says; where the script has an option --local_rank, let it default to "
        'int(os.environ["LOCAL_RANK"])',
    ),
    Rule(
        "AMP148",
        "note",
        "the substitute for a part of apex goes",
        "torch's class does what apex's did and is always there; the substitute may have had another default (eps)",
        "if you trained without apex, check the calls that rely on a default",
    ),
    Rule(
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
                "mixed precision is set up in one place and used in another",
                "the scaler is made where mixed precision is set up, and has to reach each backward, step and "
                "checkpoint",
                "give the files that hold the other part, or the whole folder; if they were given, let the script "
                "import them by name, so that the two parts can be joined",
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
    ),
    Rule(
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
    ),
    Rule(
        "AMP903",
        "refusal",
        "the apex.amp module goes where it cannot be followed",
        "who receives it would have to receive a GradScaler instead",
        "give the file that receives it, too; or hand on what it needs of the module, such as its state_dict or a "
        "flag, then run again",
    ),
    Rule(
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
    ),
    Rule(
        "AMP905",
        "refusal",
        "two guards cannot be shown to agree",
        "one scaler has one `enabled`: with guards that differ, some backward or step would be scaled and another one "
        "not",
        "test the same variable in both places, then run again",
    ),
    Rule(
        "AMP906",
        "refusal",
        "apex is given an argument that it rejects",
        "apex raises at this line, so that what is meant cannot be known",
        "correct the argument, then run again",
    ),
    Rule(
        "AMP907",
        "refusal",
        "the optimization level is not a level",
        "apex raises at this line, so that which level is meant cannot be known",
        "write O0, O1, O2 or O3, with the letter O",
    ),
    Rule(
        "AMP908",
        "refusal",
        "the forward of a loss was not found",
        "the loss comes from another file or from code that cannot be followed, and its forward has to run under "
        "autocast",
        "give the files that make this loss, too; or put the forward and the loss into autocast by hand",
        cases={
            "unbound": Case(
                "a name is bound nowhere",
                "the script stops there with NameError: an import is missing, and what was meant by it is not known",
                "restore the import (`from apex import amp`, say), then run again",
            ),
        },
    ),
    Rule(
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
    ),
    Rule(
        "AMP910",
        "refusal",
        "a use of apex's old handle is not understood",
        "which optimizer the handle wraps has to be known, to step it by the scaler",
        "write `handle = amp.init(enabled=...)` and `optimizer = handle.wrap_optimizer(optimizer)` as statements of "
        "their own, with arguments that are written out; then run again",
    ),
    Rule(
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
    ),
    Rule(
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
    ),
    Rule(
        "AMP913",
        "refusal",
        "an optimizer is given a closure",
        "a closure runs the backward again inside of the step, which GradScaler.step does not support",
        "use an optimizer that needs no closure, and call backward before its step; or train this part in float32",
    ),
    Rule(
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
    ),
    Rule(
        "AMP915",
        "refusal",
        "a function cannot be given the scaler",
        "the function has to get the scaler as a parameter, and not all of its calls can be given one",
        "call it by its name, with arguments that are written out (no *args, no getattr, no decorator in between), "
        "then run again",
    ),
    Rule(
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
    ),
    Rule(
        "AMP917",
        "refusal",
        "a name comes from apex through a star import",
        "the import goes, and would leave the name undefined",
        "import each name that is used from where it is defined, then run again",
    ),
    Rule(
        "AMP918",
        "refusal",
        "a name that is bound by the import of apex is used for something else",
        "the import goes, and the name with it: it says whether apex is installed, or has a value only where it is not",
        "write the value that is meant in its place, or bind the name somewhere else, then run again",
    ),
    Rule(
        "AMP919",
        "refusal",
        "native AMP is used beside apex",
        "the code supports both, or is migrated already: a second scaler would unscale the gradients twice",
        "remove the apex branch by hand where the native one is complete",
    ),
    Rule(
        "AMP920",
        "refusal",
        "inputs are cast to half by hand",
        "outside of autocast half inputs do not fit a float32 model",
        "remove the cast, since autocast casts inputs by itself; for a model that stays in half, cast at its own call; "
        "then run again",
    ),
    Rule(
        "AMP921",
        "refusal",
        "an optimizer may step without gradients",
        "GradScaler.step raises AssertionError where none of the optimizer's parameters has a gradient; without a "
        "scaler such a step just does nothing, or repeats the last one",
        "step once after each backward, in the same branch, then run again",
    ),
    Rule(
        "AMP922",
        "refusal",
        "one statement holds what must run under autocast and what must not",
        "a forward belongs into an autocast region; a backward, a gradient penalty or a BCELoss does not",
        "give each a line of its own, with a name for what the forward returns, then run again",
    ),
    Rule(
        "AMP923",
        "refusal",
        "the optimizer steps on scaled gradients",
        "apex unscales when `with amp.scale_loss` ends, so a step inside it used gradients 65536 times too large",
        "move the step out of the `with`, check the learning rate, and run again",
    ),
    Rule(
        "AMP924",
        "refusal",
        "a model runs in a thread of the script",
        "autocast is on only in the thread that enters it, and this forward runs in another one",
        'write `with torch.autocast("cuda")` around the forward in the function that the thread runs; migrate the rest '
        "by hand, too",
    ),
    Rule(
        "AMP925",
        "refusal",
        "a half value is used where float32 is needed",
        "outside of autocast a float32 model or matrix product raises for half inputs",
        "cast the value with .float() where it is used, or use it in the function of the forward; then run again",
    ),
    Rule(
        "AMP926",
        "refusal",
        "the weights are cast to half in yet another way than around the steps",
        "the casts around the steps go; one that stays would leave half weights, whose gradients a GradScaler refuses",
        "remove this cast, since autocast takes float32 weights; then run again",
    ),
    Rule(
        "AMP927",
        "refusal",
        "nothing clears the gradients of a loop",
        "each step takes the gradients of all rounds before it as well; a scaler would divide those again, so that "
        "next to nothing is left of them",
        "if that is not meant, call optimizer.zero_grad() in each round, then run again; if it is, migrate by hand",
    ),
    Rule(
        "AMP950",
        "refusal",
        "a test trains here",
        "a test says what is to be computed, and in which type; it is told by its folder, its name or its class",
        "nothing; if it trains for use, give the file another name or folder, then run again",
    ),
    Rule(
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
        },
    ),
    Rule(
        "AMP952",
        "refusal",
        "the optimizer is not known",
        "a GradScaler steps torch's optimizers, once for each backward and without a closure; whether this is such a "
        "one, and what it holds, has to be seen",
        "make it in these files as in torch.optim.SGD(model.parameters(), lr=...), or give the file that makes it, "
        "then run again",
    ),
    Rule(
        "AMP953",
        "refusal",
        "an optimizer takes the loss more than once for a step",
        "GradScaler.step supports neither closures nor several backwards for one step",
        "use an optimizer that needs neither; or keep this part in float32",
    ),
    Rule(
        "AMP954",
        "refusal",
        "the training is in float64",
        "who asks for double precision needs more digits than half has",
        "nothing; if double precision is not needed, take it out, then run again",
    ),
    Rule(
        "AMP955",
        "refusal",
        "gradients are differentiated again",
        "second-order statistics, and gradients of gradients, lose their meaning when they are scaled and half",
        "keep it in float32; or, with torch.autograd.grad, scale the loss and divide the gradients by hand before they "
        "are used",
    ),
    Rule(
        "AMP956",
        "refusal",
        "several processes train the same weights",
        "each would need a loss scale of its own, and half weights of one would miss the updates of the others",
        "nothing; use DistributedDataParallel for training on GPUs",
    ),
    Rule(
        "AMP957",
        "refusal",
        "no optimizer steps after this backward",
        "gradients that are looked at, or that other code applies, would come out scaled",
        "nothing, where the gradients themselves are wanted (saliency, attacks); else give the file that steps, too",
    ),
    Rule(
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
    ),
    Rule(
        "AMP959",
        "refusal",
        "parameters are updated by hand",
        "a GradScaler skips the step of an optimizer where gradients overflow, and knows of no other update",
        "use an optimizer of torch.optim (SGD computes p -= lr * p.grad), then run again",
    ),
    Rule(
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
    ),
    Rule(
        "AMP961",
        "refusal",
        "the code cannot run with a torch that has native AMP",
        "native AMP needs torch 1.6 and Python 3, and there this line fails",
        "bring the line up to date, as in loss.item() for loss.data[0] and range for xrange; then run again",
    ),
    Rule(
        "AMP962",
        "refusal",
        "a version in mixed precision lies beside this file",
        "this one was probably kept in float32 to compare",
        "use the other file; or remove it, then run again",
    ),
    Rule(
        "AMP963",
        "silence",
        "no GPU is in sight",
        "nothing shows that this training runs on a GPU, and autocast would not help it on a CPU",
        "nothing",
    ),
    Rule(
        "AMP964",
        "refusal",
        "a backward of several losses at once",
        "each loss would have to be scaled, and gradients that are given along would not be",
        "write one loss.backward() for each loss, or one for their sum; then run again",
    ),
    Rule(
        "AMP966",
        "refusal",
        "it is not known when the training is on a GPU",
        "autocast and GradScaler are for the GPU, and have to be switched off on the CPU",
        'decide about the device once, as in device = torch.device("cuda" if torch.cuda.is_available() else "cpu"), '
        "then run again",
    ),
    Rule(
        "AMP967",
        "refusal",
        "a binary cross entropy takes probabilities that may have been half",
        "CUDA autocast raises for it, and a sigmoid in half is exactly 1 from logit 8.5 on, which makes the gradient "
        "NaN",
        "use BCEWithLogitsLoss on what the sigmoid is given, then run again",
    ),
    Rule(
        "AMP968",
        "refusal",
        "a gradient penalty shares its graph with a loss, or its code was not found",
        "the gradients of its gradients belong in float32, and the forward of the loss does not",
        "give the penalty a forward of its own on .float() inputs, outside of what the loss uses, then run again",
        cases={
            "unread": Case(
                "the code of the penalty was not found",
                "the gradients of its gradients belong in float32: its code has to be read for the forward that it "
                "uses",
                "give the file that defines it, too; or keep this training in float32",
            ),
        },
    ),
    Rule(
        "AMP970",
        "refusal",
        "code that would run under autocast is in a file that was not read",
        "it may break in half precision, and nobody has run this training in it yet",
        "give the whole folder; where the file cannot be read, or there are too many, add autocast and a GradScaler by "
        "hand",
    ),
    Rule(
        "AMP971",
        "refusal",
        "a precision is chosen by hand where this trains",
        "whoever casts to half or bfloat16 has decided about precision, and the training may depend on it",
        "if the cast is for inference only, move it to a file that does not train, then run again; else migrate by "
        "hand",
        cases={
            "like another": Case(
                "weights are trained in the type of another model",
                "if that model is half, these weights are, and a GradScaler refuses their gradients",
                "make the weights float32, as in .to(device) without a dtype, then run again",
            ),
        },
    ),
    Rule(
        "AMP972",
        "refusal",
        "two optimizers step the same parameters",
        "each optimizer that a GradScaler steps has its gradients unscaled: those of both would be divided twice",
        "give each parameter to one optimizer, then run again; or unscale by hand with one optimizer that has them all",
    ),
    Rule(
        "AMP973",
        "refusal",
        "a file of settings names what trains here",
        "hydra makes it when the script runs, and no code shows whether it is on a GPU",
        "make the object in code, then run again; or add autocast and a GradScaler by hand",
    ),
    Rule(
        "AMP980",
        "refusal",
        "a half tensor is filled with a number beyond 65504",
        "torch raises for it; the tensor is changed in place, and other code may hold it, so that it cannot be cast "
        "here",
        "use the form that makes a new tensor (masked_fill in place of masked_fill_), or fill with -inf; then run "
        "again",
    ),
    Rule(
        "AMP981",
        "refusal",
        "linear algebra or a transform cannot be kept in float32",
        "half has no kernels for it, and the line does more than this one operation",
        "give the operation a line of its own, with a name for what it takes, or cast its input with .float(); then "
        "run again",
    ),
    Rule(
        "AMP982",
        "refusal",
        "an autograd function cannot take custom_fwd and custom_bwd",
        "under autocast it meets half and float32 side by side, in what it saves for its backward as well",
        "give it a static forward(ctx, ...) and backward(ctx, ...) of its own, then run again",
    ),
    Rule(
        "AMP983",
        "refusal",
        "the forward calls a compiled extension",
        "autocast casts for torch's own operations only; most extensions take float32 and raise for half, or read it "
        "wrongly",
        "call it in an autograd function with custom_fwd(cast_inputs=torch.float32), then run again",
    ),
    Rule(
        "AMP984",
        "refusal",
        "the model has complex parameters",
        "GradScaler raises for their gradients, since torch cannot unscale complex numbers",
        "keep them as pairs of real numbers and read them by torch.view_as_complex, or train with --dtype bfloat16",
    ),
    Rule(
        "AMP935",
        "refusal",
        "code depends on half precision in a way that is not understood",
        "with float32 weights under autocast, code that asks for half, casts to it or has a half() of its own may do "
        "something else, or raise",
        "take the casts out by hand, and the tests of the dtype with them, then run again",
    ),
    Rule(
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
    ),
    Rule(
        "AMP937",
        "refusal",
        "a loss scale of the script's own, with what belongs to it, is not understood",
        "the scale, the check for overflow and the master copies go together or not at all, wherever they are used",
        "migrate the class or loop by hand: scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update(), "
        "the forwards under autocast, and the trained model in float32; an arm without half shows what has to be left",
    ),
    Rule(
        "AMP938",
        "refusal",
        "a class trains in half by hand, and who uses it is not known",
        "its backward, the optimizer and the forwards under autocast are in different files, and change together",
        "give the whole folder; else give the class a GradScaler, and put the forwards of its users under autocast",
    ),
    Rule(
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
    ),
    Rule(
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
    ),
    Rule(
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
    ),
    Rule(
        "AMP969",
        "refusal",
        "the loss is computed on the CPU",
        "half values leave the GPU there: most operations of the CPU take none, and GradScaler takes a loss on the GPU",
        "compute the loss on the GPU, and move it afterwards, then run again",
    ),
    Rule(
        "AMP940",
        "refusal",
        "a part of apex has no native form",
        "torch has nothing that does the same with the same arguments; the import stays, and Apex is still needed here",
        "replace it by hand as the message says; where it names nothing, keep Apex for this part",
    ),
    Rule(
        "AMP941",
        "refusal",
        "an argument of apex has no native form",
        "torch would compute something else without the argument; the import stays as it is",
        "drop the argument if it may go, then run again; or write by hand what it does, such as a communication hook "
        "or a layer of its own",
    ),
    Rule(
        "AMP942",
        "refusal",
        "a use of a part of apex is not understood",
        "with torch's class in its place this might fail or mean something else; the import stays as it is",
        "call the class by its name, with arguments that are written out and that apex takes, then run again; or "
        "replace it by hand as the message says",
    ),
    Rule(
        "AMP943",
        "refusal",
        "an old FusedAdam",
        "before September 2019 FusedAdam scaled its weight decay by the bias correction, too, and clipped by itself; "
        "that is neither Adam nor AdamW",
        "use torch.optim.AdamW, clip with torch.nn.utils.clip_grad_norm_, and check the learning rate",
    ),
    Rule(
        "AMP944",
        "refusal",
        "torch may be too old",
        "torch's class came with a later version than the project declares, or than is installed here",
        "declare a newer torch in the project's requirements, then run again",
    ),
    Rule(
        "AMP945",
        "refusal",
        "a part of apex is shared with another file",
        "names and instances that two files share have to be of one class; the import stays as it is",
        "where the other file keeps its part of apex, see its findings; where it only takes the name from here, let it "
        "import the class itself; then run again",
    ),
    Rule(
        "AMP946",
        "refusal",
        "mixed precision that stays is in the same file",
        "what is wrapped and stepped changes with mixed precision, so that both are migrated together",
        "migrate the mixed precision of this file by hand, then run again",
    ),
    Rule(
        "AMP947",
        "refusal",
        "an internal error in what is beside mixed precision",
        "this is a mistake of amp-migrate, not of the script; the parts of apex beside amp stay as they were, and what "
        "is said of the rest of the file holds",
        f"report it at {_ISSUES}, with the message and, if you may, the file",
    ),
    Rule(
        "AMP985",
        "refusal",
        "code under autocast takes nothing but float32",
        "it raises for a half tensor, and autocast may have made one of its input",
        "give it the value with .float(), then run again",
    ),
    Rule(
        "AMP986",
        "refusal",
        "a step of the training spans several cells",
        "autocast would have to be one block around statements of several cells of a notebook",
        "put the forward and the loss into one cell, then run again",
    ),
    Rule(
        "AMP990",
        "error",
        "the file cannot be decoded",
        "its bytes do not fit the encoding that it declares (UTF-8 where it declares none), so Python would not read "
        "it either",
        "convert the file to UTF-8, or declare its encoding in the first line; then run again",
    ),
    Rule(
        "AMP991",
        "error",
        "the file does not parse",
        "only Python 3 that parses can be migrated",
        "correct the line, then run again",
        cases={
            "parser": Case(
                "Python reads the file, and LibCST does not",
                "LibCST is the parser that amp-migrate uses: the syntax is newer than the installed one, or tabs and "
                "spaces are mixed as only Python reads them",
                "indent the block with spaces alone; where the syntax is new, update LibCST with "
                "`python -m pip install -U libcst`; then run again",
            ),
            "depth": Case(
                "the code goes too deep",
                "Python's recursion limit is reached before such code is analysed",
                "leave the file as it is; or divide the expression, the blocks or the functions, then run again",
            ),
        },
    ),
    Rule(
        "AMP992",
        "error",
        "the file cannot be reproduced exactly",
        "parsed and written back, its bytes would differ outside of what is migrated",
        "end each line with a line feed, or with a carriage return and a line feed; then run again",
        cases={
            "parser": Case(
                "the parser changes it",
                "parsed by LibCST and written back, this line would change, although nothing in it is migrated",
                f"report it at {_ISSUES}, with the line; until then the file stays as it is",
            ),
        },
    ),
    Rule(
        "AMP993",
        "error",
        "the file cannot be read or written",
        "the operating system refused",
        "check that the file exists, and its permissions and those of its folder; then run again",
    ),
    Rule(
        "AMP994",
        "error",
        "a notebook cannot be read",
        "it is not JSON in UTF-8 of the notebook format 4",
        "open it in Jupyter and save it again; `jupyter nbconvert --to notebook --inplace` converts older formats",
    ),
    Rule(
        "AMP995",
        "error",
        "the file changed while it was worked on",
        "an editor or another program wrote it after it was read; what would be written now would lose that",
        "run again",
    ),
    Rule(
        "AMP998",
        "refusal",
        "the result was not the same program, and is not written",
        "what would have been written does something else than the original, besides its precision; this is a mistake "
        "of amp-migrate, not of the script, and nothing of the unit is changed",
        f"report it at {_ISSUES}, with both lines and the function around them; migrate the place by hand, or leave it",
    ),
    Rule(
        "AMP999",
        "error",
        "an internal error",
        "what was written did not pass its own checks, or the analysis failed; this is a mistake of amp-migrate, not "
        "of the script, and nothing of the unit is changed",
        f"report it at {_ISSUES}, with the message and, if you may, the files; "
        "the other files are processed all the same",
    ),
)

RULES = {rule.code: rule for rule in _RULES}
