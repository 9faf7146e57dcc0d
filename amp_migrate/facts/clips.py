"""Clips of gradients, by whatever name a script calls them.

nn.utils.clip_grad_norm_(params, 1.0)
from torch.nn.utils import clip_grad_norm_ as clip
clip = nn.utils.clip_grad_norm_ if NEW else nn.utils.clip_grad_norm
clip = partial(nn.utils.clip_grad_norm_, max_norm=1.0)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.vocabulary import GRADIENT_CLIPS


def is_clip(facts: Facts, call: cst.Call) -> bool:
    """True for a call of one of torch's clips, with all of its arguments in sight."""
    return called_name(call) in GRADIENT_CLIPS or _means_clip(facts, call.func)


def is_bound_clip(facts: Facts, call: cst.Call) -> bool:
    """True for a call of a clip that somebody gave arguments before."""
    bound = [made for made in facts.objects.calls_behind(call.func) if facts.objects.is_partial(made)]
    return any(_means_clip(facts, made.args[0].value) for made in bound)


def _means_clip(facts: Facts, node: cst.BaseExpression) -> bool:
    return any(path.rpartition(".")[2] in GRADIENT_CLIPS for path in facts.objects.import_paths(node))
