"""Names of torch's interface, and of Python's, that more than one reader asks for."""

from __future__ import annotations

# torch.nn.utils, the deprecated forms without an underscore included.
GRADIENT_CLIPS = frozenset("clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grad_value".split())

# What imports a module by its name at run time.
IMPORTERS = frozenset(("import_module", "__import__"))

# The types of half precision, by their full names.
HALF_TYPES = frozenset("torch.half torch.float16 torch.HalfTensor torch.cuda.HalfTensor".split())


def is_forward_again(called: set[str]) -> bool:
    """True for the names of what a backward calls that runs a forward once more, as checkpoints and reversible layers
    do: gradients are switched on, and taken.
    """
    return bool(called & {"enable_grad", "set_grad_enabled"}) and bool(called & {"grad", "backward"})


# Methods of a model that run no forward.
NOT_FORWARD = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children train eval "
    "to cuda cpu half float double zero_grad state_dict load_state_dict apply requires_grad_ register_forward_hook "
    "register_backward_hook no_sync save_pretrained from_pretrained resize_token_embeddings share_memory "
    "require_backward_grad_sync named_modules get_parameters items keys values append parameters_to_vector".split()
)
