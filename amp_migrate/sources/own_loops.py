"""Frameworks that own the loop of scripts which have no backward of their own, each with its switch (rule H6).

    trainer = pl.Trainer(accelerator="gpu", max_epochs=5)
    args = TrainingArguments(output_dir="out")
    learn = cnn_learner(data, resnet34)

Who makes what trains, and says nothing of a precision, is told where it could be said. Files that hold another source
form are told by that; the others are looked at by bytes and then by Python's own parser. Nothing is migrated.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

from amp_migrate.files.syntax import tree_of
from amp_migrate.sources.screen import may_hold_native_amp


@dataclasses.dataclass(frozen=True)
class OwnLoop:
    """A framework, and the calls that make what trains, by their last names.

    They are told of the `switch` where they are given none of the keywords in `decided`, in a file that holds what it
    `needs` and no word that it `knows` of a precision. What a keyword in `shown` is given has to be in sight.
    """

    name: str
    switch: str
    packages: tuple[str, ...]
    makers: frozenset[str]
    decided: frozenset[str] = frozenset()
    shown: str | None = None
    needs: re.Pattern[bytes] = re.compile(rb"")
    knows: re.Pattern[bytes] | None = None


LIGHTNING = OwnLoop(
    "Lightning",
    'Trainer(precision="16-mixed"), or precision=16 before 2.0',
    ("pytorch_lightning", "lightning"),
    frozenset(("Trainer",)),
    decided=frozenset(("precision", "plugins")),
    needs=re.compile(rb"^[ \t]*(?:import|from)[ \t]+torch\b|\bLightningModule\b", re.MULTILINE),
)
TRANSFORMERS = OwnLoop(
    "the Trainer of transformers",
    "TrainingArguments(fp16=True)",
    ("transformers",),
    frozenset(("TrainingArguments", "Seq2SeqTrainingArguments")),
    decided=frozenset(("deepspeed",)),
    needs=re.compile(rb"\.train\("),
    knows=re.compile(rb"fp16|bf16"),
)
FASTAI = OwnLoop(
    "fastai",
    "learner.to_fp16()",
    ("fastai", "fastai2"),
    frozenset(
        "Learner cnn_learner vision_learner unet_learner create_cnn tabular_learner collab_learner "
        "text_classifier_learner language_model_learner".split()
    ),
    needs=re.compile(rb"\.(?:fit\w*|fine_tune)\("),
    knows=re.compile(rb"[fF][pP]16|MixedPrecision|bf16"),
)
IGNITE = OwnLoop(
    "ignite",
    'create_supervised_trainer(amp_mode="amp", scaler=True)',
    ("ignite",),
    frozenset(("create_supervised_trainer",)),
    knows=re.compile(rb"amp_mode"),
)
OPENMMLAB = OwnLoop(
    "OpenMMLab's runner",
    "Fp16OptimizerHook, or AmpOptimWrapper",
    ("mmengine",),
    frozenset(("Runner",)),
    shown="optim_wrapper",
    needs=re.compile(rb"\.train\("),
    knows=re.compile(rb"AmpOptimWrapper"),
)
ACCELERATE = OwnLoop(
    "Accelerate",
    'Accelerator(mixed_precision="fp16")',
    ("accelerate",),
    frozenset(("Accelerator",)),
    decided=frozenset(("deepspeed_plugin", "fsdp_plugin")),
    needs=re.compile(rb"\.backward\("),
    knows=re.compile(rb"mixed_precision|fp16|bf16"),
)
_OWN_LOOPS = (LIGHTNING, TRANSFORMERS, FASTAI, IGNITE, OPENMMLAB, ACCELERATE)

_NAMES = b"|".join(package.encode() for one in _OWN_LOOPS for package in one.packages)
# What follows a line's end is found faster than what begins a line: most files hold none of it.
_IMPORTS = re.compile(rb"\n(?:import|from)[ \t]+(?:%s)\b" % _NAMES)
_IMPORTS_FIRST = re.compile(rb"(?:import|from)[ \t]+(?:%s)\b" % _NAMES)


def run_by(framework: str, switch: str) -> str:
    """What is said of a training that a framework runs."""
    return f"{framework} runs this training; mixed precision there is {switch}"


def own_loop_in_float32(source: bytes) -> tuple[int, str] | None:
    """The line (from 1) of the first call that makes what trains and is given no precision, with what is said of it;
    None without one, for files with native AMP, and where any such call is given a precision, or is told to stay on the
    CPU.
    """
    if not _may_import(source) or may_hold_native_amp(source):
        return None
    loops = [one for one in _OWN_LOOPS if _is_used(one, source)]
    tree = tree_of(source) if loops else ast.Module([], [])
    for loop in loops:
        calls = list(_made(loop, tree))
        if calls and not any(_is_decided(loop, call) for call in calls):
            return min(call.lineno for call in calls), run_by(loop.name, loop.switch)
    return None


def _may_import(source: bytes) -> bool:
    """False for files that import no such framework at the top; of Lightning, in a function as well."""
    return _IMPORTS.search(source) is not None or _IMPORTS_FIRST.match(source) is not None or b"lightning" in source


def _is_used(loop: OwnLoop, source: bytes) -> bool:
    if not any(f"{maker}(".encode() in source for maker in loop.makers) or loop.needs.search(source) is None:
        return False
    return loop.knows is None or loop.knows.search(source) is None


def _made(loop: OwnLoop, tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of the framework's own makers."""
    bound = dict(_imported(loop, tree))
    if any(isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name in loop.makers for node in tree.body):
        bound.pop("*", None)  # a class of the script's own
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, _, rest = ast.unparse(node.func).partition(".")
            last = rest.rpartition(".")[2] if rest else bound.get(name, name).rpartition(".")[2]
            if last in loop.makers and (name in bound or (not rest and "*" in bound)):
                yield node


def _imported(loop: OwnLoop, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that are bound to something of the framework, with its path; `*` for all of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = _root(alias.name)
                if root in loop.packages:
                    yield (alias.asname, alias.name) if alias.asname else (root, root)
        elif isinstance(node, ast.ImportFrom) and not node.level and _root(node.module or "") in loop.packages:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _root(path: str) -> str:
    return path.partition(".")[0]


def _is_decided(loop: OwnLoop, call: ast.Call) -> bool:
    """True for a call that is given a precision, or may be (`**settings`), and for one on the CPU."""
    given = {one.arg: one.value for one in call.keywords}
    if None in given or not loop.decided.isdisjoint(given) or any(map(_is_cpu, call.keywords)):
        return True
    return loop.shown is not None and not _is_shown(given.get(loop.shown))


def _is_cpu(keyword: ast.keyword) -> bool:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    if keyword.arg in ("accelerator", "device"):
        return value == "cpu"
    return keyword.arg in ("use_cpu", "no_cuda", "cpu") and value is True


def _is_shown(node: ast.expr | None) -> bool:
    """True for a dict that stands there."""
    return isinstance(node, ast.Dict) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "dict")
