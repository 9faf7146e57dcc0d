"""Changes that keep a computation in float32 where half would break it; with autocast off they change nothing."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.tree import Function, Statement
from amp_migrate.findings import Finding


@dataclasses.dataclass(frozen=True)
class Cast:
    """`source.to(destination.dtype)`: what is stored takes the dtype of where it goes."""

    source: cst.BaseExpression
    destination: cst.BaseExpression


@dataclasses.dataclass(frozen=True)
class TypeTest:
    """`node`, a call of `isinstance` or a comparison, asks whether `tensor` is of the type that `kind` names."""

    tensor: cst.BaseExpression
    kind: cst.BaseExpression
    node: cst.Call | cst.Comparison


@dataclasses.dataclass
class Safety:
    """What the scan decided.

    `floats` are expressions that get `.float()`, `islands` statements that run in `autocast(enabled=False)`, `rebound`
    names that are cast before a statement that changes them in place, `guarded` the forward and backward of autograd
    functions that get `custom_fwd` and `custom_bwd` to run in float32, `recomputing` those that get them to run under
    autocast again, `split` the calls of containers whose last module runs on float32, and `type_tests` the tests for
    float32 that half tensors are to pass as well. `unread` are the local modules that the forward reaches and that are
    not among the files at hand, by their resolved names, with the call that reaches them.
    """

    floats: list[cst.BaseExpression] = dataclasses.field(default_factory=list)
    casts: list[Cast] = dataclasses.field(default_factory=list)
    islands: list[Statement] = dataclasses.field(default_factory=list)
    rebound: list[tuple[Statement, str]] = dataclasses.field(default_factory=list)
    guarded: list[tuple[Function, Function]] = dataclasses.field(default_factory=list)
    recomputing: list[tuple[Function, Function]] = dataclasses.field(default_factory=list)
    split: list[cst.Call] = dataclasses.field(default_factory=list)
    type_tests: list[TypeTest] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    unread: dict[str, cst.CSTNode] = dataclasses.field(default_factory=dict)

    def keep_float32(self, node: cst.BaseExpression) -> None:
        if node not in self.floats:
            self.floats.append(node)

    def isolate(self, statement: Statement) -> None:
        if statement not in self.islands:
            self.islands.append(statement)
