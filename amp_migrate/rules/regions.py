"""Where autocast goes: forwards and losses, and what cannot run there or beside it."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Help, Rule

FORWARD_IN_FLOAT32 = Rule(
    "AMP106",
    "note",
    "a forward stays in float32",
    "autocast is written only where its condition is known and where the code shows what becomes of the half "
    "results; without it the results are float32, as without mixed precision",
    "wrap it in autocast by hand if evaluation is slow, and cast its results with .float()",
)
BCE_IN_FLOAT32 = Rule(
    "AMP109",
    "attention",
    "binary cross entropy is computed in float32, outside of autocast",
    "CUDA autocast raises for it; the sigmoid before it was not found, and a sigmoid in half is exactly 1 from "
    "logit 8.5 on",
    "use BCEWithLogitsLoss on the logits, or give the last sigmoid a float32 input: torch.sigmoid(x.float())",
)
REPLICAS_IN_FLOAT16 = Rule(
    "AMP112",
    "attention",
    "bfloat16 does not reach the replicas of DataParallel",
    "the threads of DataParallel are told whether autocast is on, but not its dtype: with several GPUs they run in "
    "float16, and nothing scales the loss",
    "use DistributedDataParallel, or put the autocast into the model's forward",
)
REPLICAS_IN_FLOAT32 = Rule(
    "AMP113",
    "note",
    "torch 1.6 takes no autocast to the replicas of DataParallel",
    "the project allows torch 1.6, in which the threads of DataParallel are not told that autocast is on: with "
    "several GPUs the forward runs in float32 there",
    "nothing with torch 1.7 or newer; for torch 1.6 decorate the model's forward with autocast()",
)
HALF_COPY = Rule(
    "AMP121",
    "attention",
    "a copy of the model is cast to half by hand",
    "apex's O1 had patched torch, so that a half copy took float32 inputs anywhere; native autocast casts inside "
    "its regions only",
    "drop the cast, or give the copy half inputs where it runs",
)
UNCACHED_CASTS = Rule(
    "AMP125",
    "note",
    "a region keeps no casts of weights",
    "where the same weights run without gradients first, torch (until the end of 2025) reuses the casts that it made "
    "there, which have no graph: the weights would not be trained; and where modules get other weights, it reuses the "
    "casts of the first",
    "nothing; cache_enabled=False needs torch 1.10, and casts the weights at each use",
)
MODEL_RETURNS_LOGITS = Rule(
    "AMP190",
    "attention",
    "a model returns logits now",
    "its last Sigmoid saturates in half, and CUDA autocast raises for the binary cross entropy after it; "
    "BCEWithLogitsLoss computes both together, in float32",
    "nothing for the files that were given; other code that runs the model has to apply torch.sigmoid",
)
UNKNOWN_FORWARD = Rule(
    "AMP908",
    "refusal",
    "the forward of a loss was not found",
    "the loss comes from another file or from code that cannot be followed, and its forward has to run under autocast",
    "give the files that make this loss, too; or put the forward and the loss into autocast by hand",
    cases={
        "unbound": Case(
            "a name is bound nowhere",
            "the script stops there with NameError: an import is missing, and what was meant by it is not known",
            "restore the import (`from apex import amp`, say), then run again",
        ),
    },
    helped_by=frozenset({Help.CALLERS, Help.FAR_CALLERS}),
)
HALF_INPUTS = Rule(
    "AMP920",
    "refusal",
    "inputs are cast to half by hand",
    "outside of autocast half inputs do not fit a float32 model",
    "remove the cast, since autocast casts inputs by itself; for a model that stays in half, cast at its own call; "
    "then run again",
    helped_by=frozenset({Help.CALLERS}),
    stops_what_it_uses=True,
)
INSEPARABLE = Rule(
    "AMP922",
    "refusal",
    "one statement holds what must run under autocast and what must not",
    "a forward belongs into an autocast region; a backward, a gradient penalty or a BCELoss does not",
    "give each a line of its own, with a name for what the forward returns, then run again",
)
MODEL_IN_THREAD = Rule(
    "AMP924",
    "refusal",
    "a model runs in a thread of the script",
    "autocast is on only in the thread that enters it, and this forward runs in another one",
    'write `with torch.autocast("cuda")` around the forward in the function that the thread runs; migrate the rest '
    "by hand, too",
)
HALF_OUTSIDE = Rule(
    "AMP925",
    "refusal",
    "a half value is used where float32 is needed",
    "outside of autocast a float32 model or matrix product raises for half inputs",
    "cast the value with .float() where it is used, or use it in the function of the forward; then run again",
)
