"""Every finding: its code, what it is about, why it matters, and what to do by hand.

Codes are stable and never reused: AMP1xx go with a unit that is migrated, AMP9xx with one that is left alone,
AMP99x with a file that could not be processed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Kind = Literal["note", "attention", "refusal", "error"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One kind of finding.

    A `note` is for information, an `attention` wants a look before merging, a `refusal` says why a unit is
    left alone, an `error` that a file could not be read, parsed or written.
    """

    code: str
    kind: Kind
    title: str
    why: str
    what_to_do: str


_RULES = (
    Rule(
        "AMP101",
        "note",
        "O2 becomes autocast",
        "native AMP keeps the weights in float32; there is no native O2 (more memory than with half weights)",
        "cast outputs with .float() before arithmetic of your own on them: O2 handed them out in float32; checkpoints "
        "load unchanged",
    ),
    Rule(
        "AMP102",
        "note",
        "O3 becomes autocast with a scaler",
        "training in pure float16 has no native form: GradScaler refuses half gradients",
        "nothing; expect float32 memory for the weights and better numerics",
    ),
    Rule(
        "AMP103",
        "note",
        "an option or parameter has no effect any more",
        "only apex read it; it stays, so that old command lines and calls still work",
        "remove it when nobody passes it any more",
    ),
    Rule(
        "AMP104",
        "attention",
        "gradients are clipped before they are unscaled",
        "inside `with amp.scale_loss` gradients are still scaled, so the threshold was 65536 times too small; "
        "this is kept, for the same training",
        "run again with --repair-clip to unscale first, and expect larger updates",
    ),
    Rule(
        "AMP105",
        "note",
        "one scaler serves all losses",
        "apex kept a loss scale for each loss; natively one scaler serves a training",
        "nothing; the training is the same until apex's own scales part after an overflow",
    ),
    Rule(
        "AMP106",
        "note",
        "a forward stays in float32",
        "neither the guard nor the scaler is in scope there, or what it returns cannot be shown to be a tensor; "
        "float32 is always correct",
        "wrap it in autocast by hand if evaluation is slow, and cast its results with .float()",
    ),
    Rule(
        "AMP107",
        "attention",
        "a checkpoint is loaded without a test of its format",
        "apex saved {'loss_scaler0': ...}; GradScaler.load_state_dict raises KeyError for it",
        'guard the load with `if "scale" in ...`, or resume old checkpoints without the state of amp; new ones work',
    ),
    Rule(
        "AMP108",
        "attention",
        "gradients are clipped after they are unscaled now",
        "inside `with amp.scale_loss` the threshold was 65536 times too small; without a loss scale, or with "
        "--repair-clip, it is what it says",
        "expect larger updates, and check the learning rate",
    ),
    Rule(
        "AMP109",
        "attention",
        "binary cross entropy is computed in float32, outside of autocast",
        "CUDA autocast refuses it; the sigmoid before it is not in sight, and in half it saturates from logit 8.5 on",
        "use BCEWithLogitsLoss on the logits, or make the last sigmoid run on float32",
    ),
    Rule(
        "AMP111",
        "attention",
        "the default of a level option is not a level",
        "apex raises for it: levels are written with the letter O",
        "give the option the default that was meant, such as O1",
    ),
    Rule(
        "AMP112",
        "attention",
        "bfloat16 does not reach the replicas of DataParallel",
        "DataParallel hands on to its threads whether autocast is on, but not its dtype: with several GPUs they run "
        "in float16, and nothing scales the loss",
        "use DistributedDataParallel, or put the autocast into the model's forward",
    ),
    Rule(
        "AMP114",
        "attention",
        "keep_batchnorm_fp32 is given under O1",
        "apex raises RuntimeError for it, so the script cannot have run as it stands",
        "nothing natively: autocast keeps BatchNorm's weights in float32",
    ),
    Rule(
        "AMP116",
        "attention",
        "an argument of amp.initialize has no native form",
        "autocast keeps weights in float32 and decides casts by operation",
        "check that nothing relies on the dtype of weights or outputs",
    ),
    Rule(
        "AMP117",
        "attention",
        "the third argument of amp.initialize is `enabled`",
        "the level given there is only tested for truth, and the level is the default, O1",
        "nothing; O1 is what was run",
    ),
    Rule(
        "AMP118",
        "note",
        "the level is known at run time only",
        "O1, O2 and O3 all become autocast with float32 weights, O0 switches it off",
        "nothing; the option still works",
    ),
    Rule(
        "AMP119",
        "attention",
        "a file that stays computes a binary cross entropy under autocast",
        "CUDA autocast raises for binary_cross_entropy and nn.BCELoss, float32 inputs included",
        "there, use the form with logits, or compute it on .float() inputs inside `with autocast(enabled=False)`",
    ),
    Rule(
        "AMP120",
        "note",
        "options decide whether there is a loss at all",
        "GradScaler.step raises for an optimizer without gradients, apex's step did nothing",
        "nothing, as long as one of the losses is switched on",
    ),
    Rule(
        "AMP121",
        "attention",
        "a copy of the model is cast to half by hand",
        "apex's O1 casts inputs wherever they met it; native autocast does so inside its regions only",
        "drop the cast, or give the model half inputs there",
    ),
    Rule(
        "AMP122",
        "note",
        "mixed precision does not depend on apex being installed",
        "without apex the script trained in float32",
        "nothing, or give the script a switch of its own",
    ),
    Rule(
        "AMP123",
        "note",
        "Apex was for an older torch",
        "every torch from 1.6 on has native AMP, and the script used it there already",
        "nothing, unless you train with an older torch",
    ),
    Rule(
        "AMP130",
        "attention",
        "the apex of PyPI is asked for",
        "the package of that name on PyPI is a toolkit for the web framework Pyramid, not NVIDIA's Apex, which is not "
        "there; `apex==0.1` is the version of a build from source, and PyPI has none like it",
        "remove it; if something still imports apex, install NVIDIA's from https://github.com/NVIDIA/apex instead",
    ),
    Rule(
        "AMP131",
        "note",
        "NVIDIA's Apex is installed here",
        "native AMP is a part of torch; what is left of apex in other code (FusedLayerNorm, its DDP) still needs it",
        "remove it once nothing imports apex any more",
    ),
    Rule(
        "AMP132",
        "note",
        "Apex is spoken of",
        "readers would install what the migrated scripts do not need",
        "say that mixed precision needs nothing but torch; keep what is about other parts of apex",
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
        "the arms did the same with a class of apex and with torch's; torch's DistributedDataParallel also broadcasts "
        "buffers from the first process, unless it is told not to",
        "nothing; add broadcast_buffers=False if the buffers of each process are to stay its own",
    ),
    Rule(
        "AMP143",
        "note",
        "synchronised batch norm is torch's",
        "with torch before 1.13 it raises where no process group is initialised; apex's was a plain batch norm there",
        "nothing with a newer torch, or where it is used in distributed training only",
    ),
    Rule(
        "AMP144",
        "attention",
        "a fused optimizer becomes torch's",
        "the updates are the same up to rounding; but apex kept the number of steps in the group, torch keeps it for "
        "each parameter, so that a state which apex saved does not go on (KeyError: 'step')",
        "resume old checkpoints without the state of the optimizer; with torch before 2.0, "
        "zero_grad(set_to_none=True) does what apex's did",
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
        "torch has nothing to be told there: it steered how apex communicates or keeps memory, not what is computed",
        "nothing",
    ),
    Rule(
        "AMP147",
        "note",
        "scripts are started by an old launcher",
        "torch.distributed.launch is deprecated, and apex.parallel.multiproc was deleted; torchrun sets LOCAL_RANK, "
        "RANK and WORLD_SIZE in the environment, and gives the script no --local_rank",
        'use torchrun; where the script has an option --local_rank, let it default to int(os.environ["LOCAL_RANK"])',
    ),
    Rule(
        "AMP148",
        "note",
        "the substitute for a part of apex goes",
        "torch's class does what apex's did and is always there; the substitute may have had another default (eps)",
        "check the calls that rely on a default, if you trained without apex",
    ),
    Rule(
        "AMP901",
        "refusal",
        "the files of a unit are migrated together or not at all",
        "the scaler, the steps and the checkpoints that need it must change at the same time",
        "see the finding in the other file; give all files of the unit, or their folder",
    ),
    Rule(
        "AMP902",
        "refusal",
        "a use of apex.amp is not understood",
        "one use left behind would keep the whole script from running",
        "rewrite this use in one of the documented forms, or migrate it by hand",
    ),
    Rule(
        "AMP903",
        "refusal",
        "the apex.amp module leaves the files at hand",
        "who receives it would have to receive a GradScaler instead",
        "pass on what is needed of it (its state_dict, a flag) rather than the module",
    ),
    Rule(
        "AMP904",
        "refusal",
        "gradients are used where they cannot be unscaled",
        "natively gradients stay scaled until the step, and can be unscaled only once before it",
        "move the use to the branch that steps, or migrate it by hand",
    ),
    Rule(
        "AMP905",
        "refusal",
        "two guards cannot be shown to agree",
        "one scaler has one `enabled`; with guards that differ, steps and backwards would not match",
        "test the same condition in both places",
    ),
    Rule(
        "AMP906",
        "refusal",
        "apex is given an argument that it rejects",
        "apex raises at this line, so what is meant cannot be known",
        "correct the argument and run again",
    ),
    Rule(
        "AMP907",
        "refusal",
        "the optimization level is not a level",
        "apex raises at this line, so which level is meant cannot be known",
        "write O0, O1, O2 or O3, with the letter O",
    ),
    Rule(
        "AMP908",
        "refusal",
        "the forward is in none of the files at hand",
        "the loss comes in from elsewhere, and its forward has to run under autocast",
        "give the files that call this function too, or put the forward into autocast by hand",
    ),
    Rule(
        "AMP909",
        "refusal",
        "a function's casts are changed",
        "native AMP has no list of functions that can be edited",
        "cast inside the function (`x.float()`), or run it in autocast(enabled=False), and remove the registration",
    ),
    Rule(
        "AMP910",
        "refusal",
        "the old handle interface of apex",
        "amp.init() has other semantics than amp.initialize",
        "migrate by hand; this form comes with a later version",
    ),
    Rule(
        "AMP911",
        "refusal",
        "backward and step are not joined",
        "unscale_, step and update have to be placed around both",
        "call the step from a function that the backward can be followed to, or migrate by hand",
    ),
    Rule(
        "AMP912",
        "refusal",
        "the update has no certain place",
        "scaler.update() must run exactly once after the steps of each group",
        "make the steps of the group run under one condition",
    ),
    Rule(
        "AMP913",
        "refusal",
        "an optimizer is given a closure",
        "GradScaler.step does not support closures",
        "use an optimizer without closures, or train this part in float32",
    ),
    Rule(
        "AMP914",
        "refusal",
        "the scaler or its condition cannot be seen where it is needed",
        "it has to be created once, before everything that uses it",
        "bring setup, training and checkpoints under one function, or pass the condition on",
    ),
    Rule(
        "AMP915",
        "refusal",
        "a function cannot be given the scaler",
        "not all of its calls can be changed along with its signature",
        "call it directly with plain arguments, or keep the scaler where it can see it",
    ),
    Rule(
        "AMP916",
        "refusal",
        "two loss scales for one scaler",
        "one scaler serves all optimizers of a training",
        "ask for the same loss scale in all calls of amp.initialize",
    ),
    Rule(
        "AMP917",
        "refusal",
        "a name comes from apex through a star import",
        "removing the import would leave the name undefined",
        "import the name itself, or replace it",
    ),
    Rule(
        "AMP918",
        "refusal",
        "an availability flag is used as a value",
        "the flag says whether apex is installed, which does not matter any more",
        "replace this use by what it stands for",
    ),
    Rule(
        "AMP919",
        "refusal",
        "native AMP is used beside apex",
        "the code supports both back ends, or is migrated already",
        "remove the apex branch by hand where the native one is complete",
    ),
    Rule(
        "AMP920",
        "refusal",
        "inputs are cast to half by hand",
        "half inputs do not fit a float32 model outside of autocast",
        "remove the cast, or pass the condition to where the model runs",
    ),
    Rule(
        "AMP921",
        "refusal",
        "an optimizer may step without gradients",
        "GradScaler.step raises AssertionError where none of the optimizer's parameters has a gradient; apex just "
        "stepped",
        "put the step into the same branch as its backward, then run again",
    ),
    Rule(
        "AMP922",
        "refusal",
        "one statement holds what must run under autocast and what must not",
        "a forward belongs into an autocast region; a backward, a gradient penalty or a BCELoss does not",
        "give each a line of its own, with a name for what the forward returns",
    ),
    Rule(
        "AMP923",
        "refusal",
        "the optimizer steps on scaled gradients",
        "apex unscales when `with amp.scale_loss` ends, so a step inside it used gradients 65536 times too large",
        "move the step out of the `with`, and check the learning rate",
    ),
    Rule(
        "AMP924",
        "refusal",
        "a model runs in a thread of the script",
        "autocast is on for one thread only, while apex had changed torch for all of them",
        "put the forward of the thread's function into autocast by hand",
    ),
    Rule(
        "AMP925",
        "refusal",
        "a half value is used where float32 is needed",
        "apex had patched torch to cast it; natively a float32 model or matrix product raises for half inputs",
        "cast it with .float() where it is used, or compute it under autocast",
    ),
    Rule(
        "AMP926",
        "refusal",
        "modules of the model are cast to half one by one",
        "under apex the values that reached them were half; natively float32 inputs do not fit them outside of "
        "autocast, and GradScaler refuses half gradients",
        "remove the cast: autocast takes float32 weights",
    ),
    Rule(
        "AMP940",
        "refusal",
        "a part of apex has no native form",
        "apex.parallel, apex.amp, apex.RNN and others were deleted from Apex in 2025; the import stays as it is",
        "replace it as the message says, or keep an Apex that has it",
    ),
    Rule(
        "AMP941",
        "refusal",
        "an argument of apex has no native form",
        "torch computes something else without it; the import stays as it is",
        "write what the argument does by hand (a communication hook, a layer of its own), or drop it if it may go",
    ),
    Rule(
        "AMP942",
        "refusal",
        "a use of a part of apex is not understood",
        "with torch's class in its place it might fail or mean something else; the import stays as it is",
        "call the class by its name with plain arguments, or replace it by hand",
    ),
    Rule(
        "AMP943",
        "refusal",
        "an old FusedAdam",
        "before September 2019 FusedAdam scaled its weight decay by the bias correction, too, and clipped by itself; "
        "that is neither Adam nor AdamW",
        "use torch.optim.AdamW, clip with clip_grad_norm_, and check the learning rate",
    ),
    Rule(
        "AMP944",
        "refusal",
        "torch may be too old",
        "torch's class came with a later version than the project declares, or than is installed here",
        "declare a newer torch in the project's requirements, and run again",
    ),
    Rule(
        "AMP945",
        "refusal",
        "another file keeps a part of apex",
        "names and instances that two files share have to be of one class; the import stays as it is",
        "see the findings in the other file; give all files of the project, or replace it by hand in both",
    ),
    Rule(
        "AMP946",
        "refusal",
        "mixed precision by hand is in the same file",
        "what is wrapped and stepped changes with it, so that both are migrated together",
        "migrate the mixed precision of this file, then run again",
    ),
    Rule(
        "AMP947",
        "refusal",
        "internal error in what is beside mixed precision",
        "what was written did not pass its own checks, or the analysis failed; these parts of apex stay as they were",
        "please report it with the file, or the part of it that is concerned",
    ),
    Rule(
        "AMP990",
        "error",
        "the file cannot be decoded",
        "its bytes do not fit the encoding that it declares (UTF-8 where it declares none)",
        "convert the file, or declare its encoding in the first line",
    ),
    Rule(
        "AMP991",
        "error",
        "the file does not parse",
        "only Python 3 that parses can be migrated",
        "correct the line, then run again",
    ),
    Rule(
        "AMP992",
        "error",
        "the file cannot be reproduced exactly",
        "parsed and written back, its bytes would differ outside of what is migrated",
        "normalise its line ends, then run again",
    ),
    Rule(
        "AMP993",
        "error",
        "the file cannot be read or written",
        "the operating system refused",
        "check that it exists and its permissions",
    ),
    Rule(
        "AMP999",
        "error",
        "internal error",
        "what was written did not pass its own checks, or the analysis failed; the unit is untouched",
        "please report it with the files, or the parts of them that are concerned",
    ),
)

RULES = {rule.code: rule for rule in _RULES}
