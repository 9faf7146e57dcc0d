"""What is known of one function, class or variable of a module, or of the module's own code."""

from __future__ import annotations

import ast
import dataclasses

from amp_migrate.files.syntax import tree_of

_KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WITHOUT_GRADIENTS = frozenset(("no_grad", "inference_mode", "set_grad_enabled", "eval"))


@dataclasses.dataclass(frozen=True)
class Definition:
    """A function, class or variable, or the code of a module.

    `references`, `bases` and `annotations` are canonical names; what stands only in annotations is no reference.
    `called` are the names of what it calls, whatever they belong to. A handle is the value that ties a unit together.
    `takes_handle`: one of its names looks like a handle, or it saves or loads whatever it is given by any name.
    `hands_on`: it passes something on that is one or looks like one. `holds_handle`: it is a variable of the module
    that is the handle, holds it, or says whether there is one. `trains`: it computes or changes gradients, steps, or
    saves states. `runs_parameter`: it is a function that calls one of its parameters. `passes_on`: whoever refers to it
    may get at what it refers to: a variable (`TRAINERS = {"gan": GanTrainer}`), or a function that looks things up.
    `casts`: it is a function that calls `half`.
    """

    references: frozenset[str]
    bases: frozenset[str]
    annotations: frozenset[str]
    called: frozenset[str]
    uses_handle: bool
    takes_handle: bool
    hands_on: bool
    holds_handle: bool
    trains: bool
    runs_parameter: bool
    passes_on: bool
    casts: bool

    @property
    def is_optimizer(self) -> bool:
        """True for a class of optimizers."""
        return any(base.endswith("Optimizer") for base in self.bases)

    @property
    def is_scheduler(self) -> bool:
        """True for a class of learning rate schedulers: they are given an optimizer, and leave its steps alone."""
        return any(base.endswith(("Scheduler", "LR")) for base in self.bases)

    @property
    def evaluates(self) -> bool:
        """True for a function that runs what it is given, and without gradients."""
        return self.runs_parameter and not self.called.isdisjoint(_WITHOUT_GRADIENTS)

    @property
    def declares_options(self) -> bool:
        """True for what declares options of the command line."""
        return "add_argument" in self.called

    @property
    def parses_options(self) -> bool:
        """True for what reads the command line."""
        return not self.called.isdisjoint(("parse_args", "parse_known_args"))

    def __or__(self, other: Definition) -> Definition:
        """Both of two definitions of one name."""
        values = ((getattr(self, field.name), getattr(other, field.name)) for field in dataclasses.fields(self))
        return Definition(*(one | two for one, two in values))


def changed_definitions(before: bytes, after: bytes, *, with_code: bool = False) -> list[str]:
    """The functions and classes of a module that are not the same in another version of it, `with_code` also "" where
    something else of it is not, but for its imports. Both parse.
    """
    then, now = _defined(before), _defined(after)
    changed = [name for name, node in then.items() if name not in now or ast.dump(now[name]) != ast.dump(node)]
    return [*changed, ""] if with_code and _code(before) != _code(after) else changed


def _code(source: bytes) -> list[str]:
    """What a module runs itself."""
    return [
        ast.dump(node) for node in tree_of(source).body if not isinstance(node, (*_KINDS, ast.Import, ast.ImportFrom))
    ]


def changed_trainings(before: bytes, after: bytes) -> list[str]:
    """Those of them that have a backward afterwards."""
    now = _defined(after)
    return [name for name in changed_definitions(before, after) if name in now and _has_backward(now[name])]


def _has_backward(definition: ast.stmt) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(definition))


def _defined(source: bytes) -> dict[str, ast.stmt]:
    return {node.name: node for node in tree_of(source).body if isinstance(node, _KINDS)}
