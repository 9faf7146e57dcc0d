"""Names of torch's interface, and of Python's, that more than one reader asks for."""

from __future__ import annotations

# torch.nn.utils, the deprecated forms without an underscore included.
GRADIENT_CLIPS = frozenset("clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_grad_value".split())

# CUDA autocast refuses to run them, whatever the dtype of their inputs.
BINARY_CROSS_ENTROPIES = frozenset(("binary_cross_entropy", "BCELoss"))

# What imports a module by its name at run time.
IMPORTERS = frozenset(("import_module", "__import__"))

# The types of half precision, by their full names.
HALF_TYPES = frozenset("torch.half torch.float16 torch.HalfTensor torch.cuda.HalfTensor".split())

# Operations of one tensor that autocast leaves alone, with the modules that call them by their name in torch
# ([T2.13:nn/modules/activation.py]).
UNARY_MODULES = {"sigmoid": "torch.nn.Sigmoid", "tanh": "torch.nn.Tanh", "sqrt": "", "erf": "", "sin": "", "cos": ""}
