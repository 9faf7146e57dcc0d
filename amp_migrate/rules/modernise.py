"""The spelling of native AMP: torch.cuda.amp and torch.amp."""

from __future__ import annotations

from amp_migrate.rules.rule import Case, Rule

OLD_NAME_AS_VALUE = Rule(
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
)
DERIVED_CLASS = Rule(
    "AMP302",
    "note",
    "a class derived from torch.cuda.amp is left as it is",
    "the first argument of the new base class is the device, and its own calls of super() would have to change",
    "derive it from torch.amp's class, and give the device in its `__init__`",
)
SEVERAL_VERSIONS = Rule(
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
)
TAKEN_BY_OTHERS = Rule(
    "AMP304",
    "note",
    "a name of torch.cuda.amp that other files take from here is left as it is",
    "with torch.amp the calls in those files would have to give the device",
    "import it from torch.amp in each file that uses it, and give the calls the device there",
)
PRIVATE_NAME = Rule(
    "AMP305",
    "note",
    "what is private to torch.cuda.amp is left as it is",
    "it has no documented place in torch.amp, and moved between versions of torch",
    "use what is public in its place, such as GradScaler and its methods; or leave it, as long as the torch in use "
    "has it",
)
CUSTOM_FUNCTIONS = Rule(
    "AMP306",
    "note",
    "custom_fwd and custom_bwd are left as they are",
    "torch.amp has them from torch 2.4 on, and the project supports older ones",
    "declare torch 2.4 or newer in the project's requirements, then run again; until then the old names work",
)
VALUE_AS_DEVICE = Rule(
    "AMP311",
    "attention",
    "the first argument of torch.amp.GradScaler is the device",
    "a number given there is taken for the device, and the scale starts with its default",
    'write GradScaler("cuda", init_scale=...)',
)
VALUE_AS_DTYPE = Rule(
    "AMP312",
    "attention",
    "the second argument of torch.amp.autocast is the dtype",
    "a bool given there is taken for the dtype; whether autocast is on does not depend on it",
    'write autocast("cuda", enabled=...)',
)
DEVICE_MISSING = Rule(
    "AMP313",
    "attention",
    "torch.amp.autocast is not given a device",
    "the call raises: the first argument is the type of the device",
    'write autocast("cuda", ...)',
)
BOOL_AS_SCALE = Rule(
    "AMP314",
    "attention",
    "a bool is given to GradScaler as its initial scale",
    "a bool given there means a scale of 1 or 0, and the scaler is on in any case",
    "write GradScaler(enabled=...)",
)
