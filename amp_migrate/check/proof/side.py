"""One of the two programs that are compared: what holds scalers, regions, Apex's handle, and what Apex has wrapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any

from amp_migrate.check.proof.by_hand import loss_scales
from amp_migrate.check.proof.flow import Carriers, Flow, key_of
from amp_migrate.check.proof.kinds import ABOUT_AMP, COPIED
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import File, Program, Scope
from amp_migrate.check.proof.worlds import Keys

AUTOCASTS = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
)
SCALERS = (
    "torch.amp.GradScaler",
    "torch.cuda.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler",
)


class Side:
    """The files at `paths` are looked at, of all others only what these import."""

    def __init__(self, program: Program, paths: Collection[str], new_to: Program | None = None) -> None:
        self.program = program
        self._new_to = new_to
        self.flow = Flow(program, paths)
        self.keys = Keys(self.flow)
        self.scalers = Carriers(self.flow, _makes(SCALERS))
        self.helpers = Carriers(self.flow, self._makes_helper)  # the state of which is that of a scaler
        self.regions = Carriers(self.flow, _makes((*AUTOCASTS, "contextlib.nullcontext")))
        self.region_makers = Carriers(
            self.flow, self._is_region_maker, by_name=new_to is not None
        )  # `autocast if args.amp else nullcontext`
        self.handles = Carriers(self.flow, _is_handle, by_name=_may_have_apex(program))
        all_that_go = (self.scalers, self.handles, self.regions, self.region_makers, self.helpers)
        self.go = [one for one in all_that_go if not one.is_empty]  # with whatever hands it on
        self.optimizers = Carriers(self.flow, self._wraps_optimizer)
        self.models = Carriers(self.flow, lambda file, node: _is_call(file, node, ("FP16Model", "FP16_Module")))
        self.sequences = Carriers(self.flow, self._casts_before)  # models behind a cast of their inputs
        self.scales, self.scale_names = loss_scales(self.keys)  # that are made by hand
        self.prepared = Carriers(self.flow, lambda file, node: False, self._given_to_apex())
        self.come_to: dict[Scope, str | None] = {}  # what functions about precision are without it
        self.were_about: set[tuple[str, str]] = set()  # such functions of the original, by path and name
        self.erased: dict[Scope, Any] = {}  # functions in no world in particular
        self.dropped: dict[Scope, set[str]] = {}  # parameters that only this side has
        self.is_half = False  # where weights are half, casts to float32 belong to that as well

    @cached_property
    def about(self) -> set[Scope]:
        """The functions that erasure may find something in; by hand, without words of its own, it may be any."""
        is_by_hand = self.is_half or self.scales or not (self.optimizers.is_empty and self.helpers.is_empty)
        return set(self.flow.functions) if is_by_hand else about_precision(self.program, self.flow, self.words)

    @property
    def words(self) -> set[str]:
        """The names, attributes and keys of what holds a value of mixed precision."""
        known = (*self.go, self.models, self.sequences, self.prepared)
        return {word for one in known for word in one.words}

    @cached_property
    def trained(self) -> Carriers:
        """What may hold a model that an optimizer trains."""
        return trained_models(self.flow)

    def carried(self, scope: Scope, node: ast.expr) -> str:
        """`always` for what certainly holds a scaler or Apex's handle, `if on` where it may be None; else empty."""
        for carriers in (self.scalers, self.handles):
            if carriers.holds(scope, node):
                return "if on" if carriers.may_be_none(scope, node) else "always"
        return ""

    def _given_to_apex(self) -> set[object]:
        """What holds an optimizer that `amp.initialize` was given."""
        found: set[object] = set()
        for scope, one in (one for file in self.flow.files for one in file.calls):
            if apex_name(scope.file, one.func) == "initialize":
                given = [*one.args[1:2], *(each.value for each in one.keywords if each.arg == "optimizers")]
                elements = [
                    part for arg in given for part in (arg.elts if isinstance(arg, (ast.List, ast.Tuple)) else [arg])
                ]
                found |= {key_of(scope, part) for part in elements if isinstance(part, (ast.Name, ast.Attribute))}
        return found

    def _is_region_maker(self, file: File, node: ast.expr) -> bool:
        is_named = self._new_to is not None and isinstance(node, (ast.Name, ast.Attribute))
        return is_named and file.dotted(node) in AUTOCASTS

    def _makes_helper(self, file: File, node: ast.expr) -> bool:
        """True for an object of a class around a GradScaler that the original does not have."""
        full = file.dotted(node.func) if isinstance(node, ast.Call) and self._new_to is not None else None
        return full is not None and any(map(self._is_helper, self.flow.defined(full, file)))

    def _is_helper(self, scope: Scope) -> bool:
        if not isinstance(scope.node, ast.ClassDef) or not {"state_dict", "load_state_dict"} <= scope.bound.keys():
            return False
        old = self._new_to.files.get(scope.file.path) if self._new_to is not None else None
        is_new = old is None or scope.name not in {one.name for one in old.classes}
        calls = (one for one in ast.walk(scope.node) if isinstance(one, ast.Call))
        return is_new and any(scope.file.called(one.func) in SCALERS for one in calls)

    def _wraps_optimizer(self, file: File, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "wrap_optimizer":
            return True
        return apex_name(file, node.func) == "FP16_Optimizer" or self._is_own_wrapper(file, node.func)

    def _casts_before(self, file: File, node: ast.expr) -> bool:
        """True for `Sequential(tofp16(), model)`, and for Apex's `network_to_half(model)`, which is that."""
        if is_behind_cast(file, node):
            return True
        if not _is_call(file, node, ("network_to_half",)):
            return False
        full = file.dotted(node.func) or ""  # type: ignore[attr-defined]
        bodies = [ast.unparse(one.node) for one in self.flow.defined(full, file)]
        return full.startswith("apex.") or any("Sequential" in one for one in bodies)

    def _is_own_wrapper(self, file: File, func: ast.expr) -> bool:
        """True for a class that steps for an optimizer and makes the backward as well."""
        full = file.dotted(func)
        found = self.flow.defined(full, file) if full is not None else []
        methods = {name for one in found for name in one.bound} if found else set()
        return {"backward", "step"} <= methods and "forward" not in methods


def _may_have_apex(program: Program) -> bool:
    return any(b"apex" in file.source for file in program.files.values())


def apex_name(file: File, node: ast.expr) -> str:
    """The last name of what is Apex's, or a copy of it; empty for everything else."""
    full = file.dotted(node)
    last = full.rpartition(".")[2] if full is not None else ""
    return last if last in COPIED or (full or "").startswith("apex.") else ""


def is_behind_cast(file: File, node: ast.expr) -> bool:
    """True for `Sequential(tofp16(), model)`."""
    return isinstance(node, ast.Call) and len(node.args) == 2 and _is_call(file, node.args[0], ("tofp16",))


def _makes(names: tuple[str, ...]) -> Callable[[File, ast.expr], bool]:
    def makes(file: File, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        is_partial = bool(node.args) and file.dotted(node.func) == "functools.partial"
        return file.called(node.args[0] if is_partial else node.func) in names

    return makes


def _is_call(file: File, node: ast.expr, names: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and apex_name(file, node.func) in names


def _is_handle(file: File, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return file.dotted(node.func) == "apex.amp.init"
    return isinstance(node, (ast.Name, ast.Attribute)) and file.dotted(node) == "apex.amp"


# What is trained: models whose parameters an optimizer is made of.


def trained_models(flow: Flow) -> Carriers:
    """What may hold a model whose parameters an optimizer is made of."""
    found: set[object] = set()
    for scope, call in (one for file in flow.files for one in file.calls):
        if _is_optimizer(scope, call):
            given = [
                one for arg in [*call.args, *(each.value for each in call.keywords)] for one in _made_of(scope, arg)
            ]
            for part in (part for one in given for part in walk(one)):
                if isinstance(part, ast.Attribute) and part.attr.endswith("parameters"):
                    if isinstance(part.value, (ast.Name, ast.Attribute)):
                        found.add(key_of(scope, part.value))
    return Carriers(flow, lambda file, node: False, found)


def _made_of(scope: Scope, node: ast.expr) -> list[ast.expr]:
    """An expression, and the values of the names in it, and so on; each name once."""
    found, seen = [node], set[str]()
    for one in found:
        for name in dict.fromkeys(part.id for part in walk(one) if isinstance(part, ast.Name) and part.id not in seen):
            seen.add(name)
            home = scope.binding(name)
            found += [value for value in (home.bound[name] if home is not None else ()) if isinstance(value, ast.expr)]
    return found


def _is_optimizer(scope: Scope, call: ast.Call) -> bool:
    """True for an optimizer of torch or Apex, and for what is called like one: BertAdam, Ranger, LAMB."""
    full = scope.file.dotted(call.func) or ""
    last = full.rpartition(".")[2]
    return full.startswith(("torch.optim.", "apex.optimizers.")) or last.lower().endswith(
        ("adam", "adamw", "optimizer")
    )


# Which functions have anything to do with precision: erasure finds nothing in all others, and need not look there.

_PACKAGES = re.compile(r"apex\b|torch\.(.+\.)?(amp|half|float16|autocast|HalfTensor)\b|contextlib\.nullcontext$")


def about_precision(program: Program, flow: Flow, known: Collection[str]) -> set[Scope]:
    """The functions with a word of mixed precision in their text, those that are `known` to hold such values among
    them, what may call these functions, and all modules.
    """
    words = {*ABOUT_AMP, *known, *(word for file in _with_imported(program, flow) for word in _aliases(file))}
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")
    found = {one for one in flow.functions if not one.name or _is_open(one.file) or pattern.search(_text(one))}
    waiting = list(found)
    while waiting:
        new = {scope.function for scope, _ in flow.callers.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    return found


def _text(scope: Scope) -> str:
    node: ast.stmt = scope.node  # type: ignore[assignment]
    return "\n".join(scope.file.lines[node.lineno - 1 : node.end_lineno])


def _is_open(file: File) -> bool:
    """True for a file that has names of Apex, or of another file, that are not written down in it."""
    return any(one.startswith("apex") or file.program.module(one, file) is not None for one in file.stars)


def _with_imported(program: Program, flow: Flow) -> set[File]:
    """The files, and those that they import, which may have names of mixed precision for them."""
    imported = (
        program.module(path, file)
        for file in flow.files
        for scope in file.functions.values()
        for bound in scope.bound.values()
        for path in bound
        if isinstance(path, str)
    )
    return {*flow.files, *(file for file in imported if file is not None and file.tree is not None)}


def _aliases(file: File) -> Iterator[str]:
    """The names that a file has for what is of mixed precision."""
    for scope in (*file.functions.values(), *file.classes):
        for name, bound in scope.bound.items():
            if any(isinstance(one, str) and _PACKAGES.match(file.program.full_name(one, file)) for one in bound):
                yield name
    for _, target, value in file.assigned:
        if isinstance(target, (ast.Name, ast.Attribute)) and _PACKAGES.match(file.dotted(value) or ""):
            yield target.id if isinstance(target, ast.Name) else target.attr
