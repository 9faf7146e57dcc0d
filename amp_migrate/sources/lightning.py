"""Lightning owns the loop, and the script has no backward of its own: the Trainer has the switch (rule H6).

    trainer = pl.Trainer(accelerator="gpu", max_epochs=5)

It is looked for in files that hold no other source form, by bytes and then by Python's own parser; nothing is migrated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.sources.screen import may_hold_native_amp

SWITCH = 'Trainer(precision="16-mixed"), or precision=16 before 2.0'

_PACKAGES = ("pytorch_lightning", "lightning")
_IMPORTS = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:pytorch_)?lightning\b", re.MULTILINE)
_TORCH = re.compile(rb"^[ \t]*(?:import|from)[ \t]+torch\b|\bLightningModule\b", re.MULTILINE)
_DECIDE = frozenset(("precision", "plugins", None))  # None: what `**settings` hold is not known


def run_by(framework: str, switch: str) -> str:
    """What is said of a training that a framework runs."""
    return f"{framework} runs this training; mixed precision there is {switch}"


def may_be_run_by_lightning(source: bytes) -> bool:
    """False for files that certainly make no Trainer of Lightning for torch code, and for those with native AMP."""
    if b"lightning" not in source or b"Trainer(" not in source or may_hold_native_amp(source):
        return False
    return _IMPORTS.search(source) is not None and _TORCH.search(source) is not None


def trainer_in_float32(source: bytes) -> int | None:
    """The line (from 1) of the first Trainer that is made without a precision; None without one, and where any of them
    is given one, or is told to stay on the CPU.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    trainers = list(_trainers(tree))
    if any(_is_decided(call) for call in trainers):
        return None
    return min((call.lineno for call in trainers), default=None)


def _trainers(tree: ast.Module) -> Iterator[ast.Call]:
    packages = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, dot, rest = ast.unparse(node.func).partition(".")
            path = f"{packages.get(name, '')}{dot}{rest}"
            if _root(path) in _PACKAGES and path.endswith(".Trainer"):
                yield node


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that are bound to something of Lightning, with its path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = _root(alias.name)
                if root in _PACKAGES:
                    yield (alias.asname, alias.name) if alias.asname else (root, root)
        elif isinstance(node, ast.ImportFrom) and not node.level and _root(node.module or "") in _PACKAGES:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _root(path: str) -> str:
    return path.partition(".")[0]


def _is_decided(call: ast.Call) -> bool:
    """True for a Trainer that is given a precision, or may be, and for one on the CPU."""
    on_cpu = any(
        one.arg == "accelerator" and isinstance(one.value, ast.Constant) and one.value.value == "cpu"
        for one in call.keywords
    )
    return on_cpu or not _DECIDE.isdisjoint(one.arg for one in call.keywords)
