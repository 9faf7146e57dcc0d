"""Names of native AMP that torch does not have, as people make them up who rename `apex.amp`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.check.proof.program import File, Program

# What `torch.amp` and `torch.cuda.amp` have had since there are any.
NATIVE = frozenset(
    "GradScaler autocast autocast_mode custom_bwd custom_fwd grad_scaler is_autocast_available common "
    "amp_definitely_not_available".split()
)
# What Apex exports and something in torch is called as well.
_NOT_APEX_ALONE = frozenset(
    "DistributedDataParallel ReduceOp SyncBatchNorm Reducer RNN amp parallel init initialize state_dict "
    "load_state_dict normalization "
    "optimizers clip_grad_norm convert_module convert_network loss_scaler LossScaler".split()
)
ONLY_APEX = frozenset(name for names in APEX_EXPORTS.values() for name in names) - _NOT_APEX_ALONE


def made_up(program: Program, path: str) -> Iterator[tuple[int, str]]:
    """The names that torch does not have in a file: where each is used first, and the name in full."""
    file = program.files.get(path)
    if file is None or file.tree is None or b"torch" not in file.source:
        return
    seen: set[str] = set()
    for line, full in sorted(_read(file, file.tree)):
        if full not in seen:
            seen.add(full)
            yield line, full


def _read(file: File, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{one.name}" for one in node.names if one.name != "*"]
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            names = [file.dotted(node) or ""]
        else:
            continue
        for full in names:
            if full.startswith("torch.") and _is_made_up(full):
                yield node.lineno, full


def _is_made_up(full: str) -> bool:
    for base in ("torch.amp.", "torch.cuda.amp."):
        if full.startswith(base):
            first = full.removeprefix(base).partition(".")[0]
            return first not in NATIVE and not first.startswith("_") and full == f"{base}{first}"
    return full.rpartition(".")[2] in ONLY_APEX
