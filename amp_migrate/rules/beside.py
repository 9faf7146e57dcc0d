"""What files beside the Python code ask for: requirements, instructions, documents."""

from __future__ import annotations

from amp_migrate.rules.rule import Rule

APEX_FROM_PYPI = Rule(
    "AMP130",
    "attention",
    "the apex of PyPI is asked for",
    "the package of that name on PyPI is a toolkit for the web framework Pyramid, not NVIDIA's Apex, which is not "
    "there; `apex==0.1` is the version of a build from source, and PyPI has none like it",
    "remove the line; if something still imports apex, install NVIDIA's from https://github.com/NVIDIA/apex instead",
    about="project",
)
APEX_FROM_SOURCE = Rule(
    "AMP131",
    "note",
    "NVIDIA's Apex is installed here",
    "native AMP is a part of torch: only what still imports apex needs it",
    "remove the line once nothing imports apex; the message says whether something does",
    about="project",
)
SPEAKS_OF_APEX = Rule(
    "AMP132",
    "note",
    "a document speaks of Apex",
    "readers may install Apex for mixed precision, which needs nothing but torch once the scripts are migrated",
    "say that mixed precision needs torch only; keep what is about parts of apex that are still imported",
    about="project",
)
OLD_TORCH_ALLOWED = Rule(
    "AMP133",
    "attention",
    "the project asks for a torch without native AMP, or allows one",
    "native AMP came with torch 1.6; with an older one, migrated code fails at its import",
    "ask for torch 1.6 or newer, and for the torchvision and torchaudio that go with it",
    about="project",
)
OLD_LAUNCHER = Rule(
    "AMP147",
    "note",
    "scripts are started by an old launcher",
    "torch.distributed.launch is deprecated, and apex.parallel.multiproc was deleted; torchrun sets LOCAL_RANK, "
    "RANK and WORLD_SIZE in the environment, and gives the script no --local_rank",
    "write it as the message says; where the script has an option --local_rank, let it default to "
    'int(os.environ["LOCAL_RANK"])',
    about="project",
)
