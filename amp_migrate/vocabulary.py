"""Names of torch's interface, and of Python's, that more than one reader asks for."""

from __future__ import annotations

import re

from amp_migrate.models.traits import named

# torch.nn.utils, the deprecated forms without an underscore included.
GRADIENT_CLIPS = frozenset("clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grad_value".split())

# What imports a module by its name at run time.
IMPORTERS = frozenset(("import_module", "__import__"))

# The types of half precision, by their full names.
HALF_TYPES = frozenset("torch.half torch.float16 torch.HalfTensor torch.cuda.HalfTensor".split())
SAYS_HALF = re.compile(r"[Hh]alf|float16")  # one of them stands in every cast, and in every choice of a precision


def is_forward_again(called: set[str]) -> bool:
    """True for the names of what a backward calls that runs a forward once more, as checkpoints and reversible layers
    do: gradients are switched on, and taken.
    """
    return bool(called & {"enable_grad", "set_grad_enabled"}) and bool(called & {"grad", "backward"})


# Methods of a model that run no forward, beside those that return it.
_NOT_FORWARD = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children zero_grad "
    "state_dict load_state_dict register_forward_hook register_backward_hook no_sync save_pretrained from_pretrained "
    "resize_token_embeddings require_backward_grad_sync get_parameters items keys values append "
    "parameters_to_vector".split()
)


def is_no_forward(method: str) -> bool:
    """True for the name of a method of a model that runs no forward."""
    return method in _NOT_FORWARD or method in named("module")
