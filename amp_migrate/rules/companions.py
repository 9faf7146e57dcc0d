"""What is used of Apex beside amp, and what torch has in its place."""

from __future__ import annotations

from amp_migrate.home import ISSUES
from amp_migrate.rules.rule import Case, Rule

DISTRIBUTED_DATA_PARALLEL = Rule(
    "AMP140",
    "attention",
    "apex's DistributedDataParallel becomes torch's",
    "torch's raises where a parameter gets no gradient, apex's left such parameters out; torch's raises for a module "
    "without parameters to train, apex's did not; apex's never broadcast buffers, and with broadcast_buffers=False "
    "torch's does not either",
    "nothing, unless training stops with `Expected to have finished reduction`: find_unused_parameters=True then; or "
    "with `DistributedDataParallel is not needed`: leave that module unwrapped then",
)
NO_DEVICE_IDS = Rule(
    "AMP141",
    "note",
    "DistributedDataParallel is given no device_ids",
    "torch needs none for a model on one device; with them it would also move the inputs there",
    "add device_ids=[local_rank] if the inputs of the model are not on its device yet",
)
EQUAL_ARMS = Rule(
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
)
SYNCHRONISED_BATCH_NORM = Rule(
    "AMP143",
    "note",
    "synchronised batch norm is torch's",
    "with torch before 1.13 it raises where no process group is initialised; apex's was a plain batch norm there",
    "nothing with torch 1.13 or newer, or where it is used in distributed training only",
)
FUSED_OPTIMIZER = Rule(
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
)
FUSED_NORMALIZATION = Rule(
    "AMP145",
    "note",
    "a fused normalization becomes torch's",
    "the same numbers and names of weights; under autocast torch's returns float32, apex's float16",
    "nothing; expect a little more memory under autocast",
)
DROPPED_ARGUMENT = Rule(
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
)
SUBSTITUTE_GOES = Rule(
    "AMP148",
    "note",
    "the substitute for a part of apex goes",
    "torch's class does what apex's did and is always there; the substitute may have had another default (eps)",
    "if you trained without apex, check the calls that rely on a default",
)
NO_NATIVE_FORM = Rule(
    "AMP940",
    "refusal",
    "a part of apex has no native form",
    "torch has nothing that does the same with the same arguments; the import stays, and Apex is still needed here",
    "replace it by hand as the message says; where it names nothing, keep Apex for this part",
)
NO_NATIVE_ARGUMENT = Rule(
    "AMP941",
    "refusal",
    "an argument of apex has no native form",
    "torch would compute something else without the argument; the import stays as it is",
    "drop the argument if it may go, then run again; or write by hand what it does, such as a communication hook "
    "or a layer of its own",
)
UNKNOWN_APEX_USE = Rule(
    "AMP942",
    "refusal",
    "a use of a part of apex is not understood",
    "with torch's class in its place this might fail or mean something else; the import stays as it is",
    "call the class by its name, with arguments that are written out and that apex takes, then run again; or "
    "replace it by hand as the message says",
)
OLD_FUSED_ADAM = Rule(
    "AMP943",
    "refusal",
    "an old FusedAdam",
    "before September 2019 FusedAdam scaled its weight decay by the bias correction, too, and clipped by itself; "
    "that is neither Adam nor AdamW",
    "use torch.optim.AdamW, clip with torch.nn.utils.clip_grad_norm_, and check the learning rate",
)
TORCH_TOO_OLD = Rule(
    "AMP944",
    "refusal",
    "torch may be too old",
    "torch's class came with a later version than the project declares, or than is installed here",
    "declare a newer torch in the project's requirements, then run again",
)
SHARED_WITH_OTHERS = Rule(
    "AMP945",
    "refusal",
    "a part of apex is shared with another file",
    "names and instances that two files share have to be of one class; the import stays as it is",
    "where the other file keeps its part of apex, see its findings; where it only takes the name from here, let it "
    "import the class itself; then run again",
)
MIXED_PRECISION_STAYS = Rule(
    "AMP946",
    "refusal",
    "mixed precision that stays is in the same file",
    "what is wrapped and stepped changes with mixed precision, so that both are migrated together",
    "migrate the mixed precision of this file by hand, then run again",
)
COMPANIONS_FAILED = Rule(
    "AMP947",
    "refusal",
    "an internal error in what is beside mixed precision",
    "this is a mistake of amp-migrate, not of the script; the parts of apex beside amp stay as they were, and what "
    "is said of the rest of the file holds",
    f"report it at {ISSUES}, with the message and, if you may, the file",
    about="file",
)
