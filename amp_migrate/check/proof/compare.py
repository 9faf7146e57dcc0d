"""Two functions in their normal form: the same, or where they first part. What may differ is a closed list of kinds,
most of them in one direction: the output may have more casts than the original, not fewer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from amp_migrate.check.proof.kinds import BCE, COMPANIONS, NEW_KEYWORDS, OLD_KEYWORDS, SAME_NAME
from amp_migrate.check.proof.nodes import call, changed, is_none, same
from amp_migrate.check.proof.normal import is_pure, negated
from amp_migrate.check.proof.program import Scope, parameters
from amp_migrate.check.proof.side import Side
from amp_migrate.check.proof.states import asks_for, loaded
from amp_migrate.models import names
from amp_migrate.models.queries import takes_dtype


class Parting(NamedTuple):
    """Where two sides part: the statement of each, None where the other one has one more. `lost` and `new` are all
    statements there, as far as these were asked for.
    """

    before: ast.AST | None
    after: ast.AST | None
    lost: tuple[ast.stmt, ...] = ()
    new: tuple[ast.stmt, ...] = ()


class Comparison:
    """One function on both sides. `loses_sigmoid` says that a model returns logits now; `spare` are statements, as
    text, that the output may have besides; `halved` is what the original casts to half, as text.

    `assumed` are the places, in the original, of what is only likely to be the same, each with what is assumed of it.
    """

    def __init__(
        self,
        original: Side,
        before: Scope,
        after: Scope,
        *,
        loses_sigmoid: bool,
        erased: Collection[Scope],
        spare: Collection[str] = (),
        halved: Collection[str] = (),
    ) -> None:
        self.original = original
        self.before = before
        self.after = after
        self.loses_sigmoid = loses_sigmoid
        self.spare = spare
        self.halved = halved
        self.erased = erased
        self.after_text = "\n".join(after.file.lines)
        self.has_scaled = False  # a loss of the output, up to here
        self.assumed: dict[int, str] = {}

    # -- statements -------------------------------------------------------------------------------------

    def block(self, before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> Parting | None:
        """The first difference between two blocks; None where they are the same program."""
        return self.advance(list(before), list(after))

    def advance(self, first: list[ast.stmt], second: list[ast.stmt]) -> Parting | None:
        """The first difference between two blocks, of which what is the same before it is taken away."""
        while first and second:
            parting = self.stmt(first[0], second[0])
            if parting is None:
                del first[0], second[0]
            elif self._may_be_new(second[0]):
                del second[0]
            elif (inner := _around(second[0])) is not None:
                second[:1] = inner
            elif self._arms_are_equal(first[0], second) or self._may_be_lost(first[0]):
                del first[0]
            else:
                return parting
        first[:] = [one for one in first if not self._may_be_lost(one)]
        second[:] = [one for one in second if not self._may_be_new(one)]
        return Parting(next(iter(first), None), next(iter(second), None)) if first or second else None

    def stmt(self, one: ast.stmt, other: ast.stmt) -> Parting | None:
        """The first difference between two statements."""
        if type(one) is not type(other):
            return Parting(one, other)
        asked = _without_format(other.test) if isinstance(other, ast.If) else None
        if isinstance(one, ast.If) and isinstance(other, ast.If) and asked and self.same(negated(one.test), asked):
            return self.block(one.orelse, other.body) or self.block(one.body, other.orelse)
        inner: Parting | None = None
        for field in one._fields:
            a, b = getattr(one, field, None), getattr(other, field, None)
            if field in ("body", "orelse", "finalbody") and isinstance(a, list) and isinstance(b, list):
                inner = inner or self.block(a, b)
            elif not self.same(a, b):
                return Parting(one, other)
        return inner

    def _arms_are_equal(self, one: ast.stmt, after: list[ast.stmt]) -> bool:
        """True for arms that are the same where Apex's part is torch's; the statements are taken from `after`."""
        if not isinstance(one, ast.If) or not is_pure(one.test) or len(one.body) != len(one.orelse):
            return False
        count = len(one.body)
        found = all(self.block(arm, after[:count]) is None for arm in (one.body, one.orelse))
        if found:
            del after[:count]
        return found

    def _may_be_new(self, node: ast.stmt, tested: Sequence[ast.expr] = ()) -> bool:
        """True for a statement of the output that saves or loads the scaler's state, casts, or names a type."""
        if self.spare and ast.unparse(node) in self.spare:
            return True
        if isinstance(node, ast.If):
            arms = ([*tested, node.test], node.body), ([*tested, negated(node.test)], node.orelse)
            return is_pure(node.test) and all(self._may_be_new(one, tests) for tests, arm in arms for one in arm)
        if isinstance(node, ast.Expr):
            state = loaded(node)
            return state is not None and any(asks_for(one, state) for one in tested)
        if not isinstance(node, ast.Assign):
            return False
        inner = self._uncast(node.value)
        if inner is not None and same(node.targets[0], inner):
            return True
        is_type = isinstance(node.value, ast.Attribute) and isinstance(node.value.value, ast.Name)
        return _is_state(node.value) or (is_type and node.value.value not in self.after.file.scope_of)  # type: ignore[attr-defined]

    def _may_be_lost(self, node: ast.stmt) -> bool:
        """True for a class about precision that is nowhere in the output's file (whether it is missed, others ask), and
        for a choice of what Apex has beside amp.
        """
        if isinstance(node, ast.If):
            return is_pure(node.test) and all(self._may_be_lost(one) for one in [*node.body, *node.orelse])
        if isinstance(node, ast.Assign) and _full(self.before, node.value) in COMPANIONS:
            self.assumed[node.lineno] = f"{ast.unparse(node.targets[0])} is torch's in any case"
            return True
        if isinstance(node, ast.Assign):  # an optimizer that only Apex was given
            made = _full(self.before, node.value.func) if isinstance(node.value, ast.Call) else ""
            name = ast.unparse(node.targets[0])
            return made.startswith("torch.optim.") and re.search(rf"\b{re.escape(name)}\b", self.after_text) is None
        classes = {one.name.rpartition(".")[2] for one in self.after.file.classes}
        return (
            isinstance(node, ast.ClassDef)
            and node.name not in classes
            and any(f"{node.name}." in one.name for one in self.erased)
        )

    # -- expressions ------------------------------------------------------------------------------------

    def same(self, a: Any, b: Any) -> bool:
        """True where two parts of statements compute the same."""
        if a is b:
            return True
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b, strict=True))
        if not isinstance(a, ast.AST) or not isinstance(b, ast.AST):
            return bool(a == b)
        a, b = _listed(a), _listed(self._whole(b))
        marks = _mark(a), _mark(b)
        if marks[1] and marks[0] != marks[1]:
            return self.same(a, b.args[0])  # more is scaled than Apex was seen to scale
        if marks[0] == "<by the scaler>" and not marks[1] and not self.has_scaled:
            return self.same(a.args[0], b)  # a step without gradients, before all backwards
        self.has_scaled |= marks[1] == "<scaled>"
        if isinstance(a, ast.IfExp) and not isinstance(b, ast.IfExp) and is_pure(a.test):
            return self.same(a.body, b) and self.same(a.orelse, b)
        if self._same_name(a, b) or self._alike(a, b):
            return True
        if isinstance(a, ast.Name) and a.id == "<loss scale>" and isinstance(b, ast.Call) and len(b.args) == 1:
            b = b.args[0]  # a scale that was kept as its logarithm
        inner = self._uncast(b) or self._uncopied(b) or self._unsigmoid(b) or _without_format(b)
        return inner is not None and self.same(a, inner)

    def _alike(self, a: ast.AST, b: ast.AST) -> bool:
        if isinstance(a, ast.Call):
            if isinstance(a.func, ast.Name) and a.func.id == "<parameters of>":
                return self._are_parameters(a.args[0], b)
            if isinstance(b, ast.Call):
                if self._same_companion(a, b) or self._loses_sigmoid(a, b) or self._steps_alone(a, b):
                    return True
                names = {one.arg for one in a.keywords}
                b = changed(b, keywords=[one for one in b.keywords if one.arg in names or not _is_state(one.value)])
        if isinstance(a, ast.Dict) and isinstance(b, ast.Dict) and len(b.keys) > len(a.keys):
            kept = [pair for pair in zip(b.keys, b.values, strict=True) if not _is_state(pair[1])]
            b = ast.Dict([key for key, _ in kept], [value for _, value in kept])
        if type(a) is not type(b):
            return False
        fields = [field for field in a._fields if field not in ("ctx", "kind", "type_comment")]
        return all(self.same(getattr(a, field, None), getattr(b, field, None)) for field in fields)

    def _same_name(self, a: ast.AST, b: ast.AST) -> bool:
        """True for two names of one thing, as both sides import it."""
        old, new = _full(self.before, a), _full(self.after, b)
        if not old or not new:
            return False
        is_same = SAME_NAME.get(old, old) == SAME_NAME.get(new, new)
        return is_same or new in COMPANIONS.get(old, ()) or BCE.get(old) == new

    def _same_companion(self, a: ast.Call, b: ast.Call) -> bool:
        """True for a class or function of Apex beside amp, and torch's in its place."""
        old_name = _full(self.before, a.func)
        if old_name not in COMPANIONS or not self._same_name(a.func, b.func):
            return False
        if "layer_norm" in old_name.rpartition(".")[2]:  # the shape comes first now
            return sorted(map(ast.dump, a.args)) == sorted(map(ast.dump, b.args))
        old = {one.arg: one.value for one in a.keywords}
        new = {one.arg: one.value for one in b.keywords}
        kept = all(self.same(old[key], new[key]) for key in old.keys() & new.keys())
        buffers = new.get("broadcast_buffers")
        if old_name == "apex.parallel.DistributedDataParallel" and not _is_false(buffers):  # as Apex leaves them
            if ast.unparse(b) not in {ast.unparse(one) for _, one in self.before.file.calls}:  # another arm's
                return False
        told = [*b.args, *(value for key, value in new.items() if key not in old.keys() | NEW_KEYWORDS)]
        given = [*a.args, *old.values()]  # some by place on one side, and by name on the other
        is_known = all(any(self.same(one, other) for one in given) for other in told)
        return kept and is_known and old.keys() - new.keys() <= OLD_KEYWORDS and self.same(a.args[:1], b.args[:1])

    def _are_parameters(self, optimizer: ast.expr, b: ast.AST) -> bool:
        """True for what may stand for the parameters of an optimizer: those of its groups, or what it was made of. Of
        others it is assumed.
        """
        if isinstance(b, ast.Call) and isinstance(b.func, ast.Name) and b.func.id in ("list", "<parameters of>"):
            return self.same(optimizer, b.args[0]) or self._are_parameters(optimizer, b.args[0])
        if isinstance(b, (ast.GeneratorExp, ast.ListComp)):
            groups = b.generators[0].iter
            is_groups = isinstance(groups, ast.Attribute) and groups.attr == "param_groups"
            return is_groups and self.same(optimizer, groups.value)  # type: ignore[attr-defined]
        made = self.original.keys.meant(self.before, optimizer)
        given = made[1].args[0] if made is not None and isinstance(made[1], ast.Call) and made[1].args else None
        if given is None or ast.unparse(given) != ast.unparse(b):
            self.assumed[optimizer.lineno] = f"{ast.unparse(optimizer)} has the parameters {ast.unparse(b)}"
        return True

    def _loses_sigmoid(self, a: ast.Call, b: ast.Call) -> bool:
        """True for a container that has no Sigmoid at its end any more."""
        if len(a.args) != len(b.args) + 1 or not self.same(a.func, b.func) or not self.same(a.args[:-1], b.args):
            return False
        last = a.args[-1]
        return isinstance(last, ast.Call) and _full(self.before, last.func) == "torch.nn.Sigmoid"

    def _unsigmoid(self, node: ast.AST) -> ast.expr | None:
        """X of `X.sigmoid()`, where a Sigmoid has gone from the model that X comes from."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not self.loses_sigmoid:
            return None
        return node.func.value if node.func.attr == "sigmoid" and not node.args else None

    def _steps_alone(self, a: ast.Call, b: ast.Call) -> bool:
        """True for `optimizer.step(None)`, or `step(closure)` where nobody gives one, and `scaler.step(optimizer)` in
        its place.
        """
        given = [*a.args, *(one.value for one in a.keywords)]
        if (
            not given
            or b.args
            or b.keywords
            or not self.same(a.func, b.func)
            or not ast.unparse(a.func).endswith(".step")
        ):
            return False
        calls = [one for at, one in self.original.flow.callers.get(self.before, ()) if at is not self.before]
        passed = any(not is_none(each) for one in calls for each in [*one.args, *(arg.value for arg in one.keywords)])
        named = {ast.unparse(one).lstrip("*") for one in given if not is_none(one)}
        return not named or (not passed and named <= {one.arg for one in parameters(self.before.node)})

    def _whole(self, node: ast.AST) -> ast.AST:
        """X(...) of `X[-1](X[:-1](...).float())`: the last module of a container on float32; `data_parallel(X, ...)` of
        `X[-1](data_parallel(X[:-1], ...).float())`.
        """
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and len(node.args) == 1):
            return node
        inner = self._uncast(node.args[0]) or node.args[0]
        if not isinstance(inner, ast.Call):
            return node
        is_parallel = bool(inner.args) and ast.unparse(inner.func).endswith("data_parallel")
        run, *given = inner.args if is_parallel else [inner.func, *inner.args]
        if isinstance(run, ast.Subscript):
            slices = ast.unparse(node.func.slice), ast.unparse(run.slice)
            if slices == ("-1", ":-1") and same(run.value, node.func.value):
                return changed(inner, args=[run.value, *given]) if is_parallel else call(run.value, *given)
        return node

    def _uncast(self, node: ast.AST) -> ast.expr | None:
        """X of `X.float()` or `X.to(other.dtype)`, of which the output may have more."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        given = [*node.args, *(one.value for one in node.keywords)]
        if not given:
            return node.func.value if node.func.attr == "float" else None
        is_dtype = isinstance(given[0], ast.Attribute) and given[0].attr == "dtype"
        is_cast = is_dtype or self.after.file.dotted(given[0]) in ("torch.float32", "torch.float")
        return node.func.value if node.func.attr in names(takes_dtype) and len(given) == 1 and is_cast else None

    def _uncopied(self, node: ast.AST) -> ast.expr | None:
        """X of `X.clone()`, where the original casts X to half: that was a copy as well."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
            return None
        is_copy = node.func.attr == "clone" and ast.unparse(node.func.value) in self.halved
        return node.func.value if is_copy else None


def _around(node: ast.stmt) -> list[ast.stmt] | None:
    """The body of `if any(p.grad is not None for ...):`, as GradScaler.step asserts what Apex let pass (rule A7), and
    of a `try:` that waits for an import to fail.
    """
    if isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test).startswith("any((p.grad is not None"):
        return node.body
    if isinstance(node, ast.Try) and not node.orelse and not node.finalbody:
        caught = {ast.unparse(one.type) if one.type is not None else "" for one in node.handlers}
        return node.body if caught == {"ImportError"} else None
    return None


def _without_format(node: ast.AST) -> ast.expr | None:
    """A test that asks as well whether a state is that of a GradScaler, without that question (rule F): X of
    `X and "scale" in state`, and of `X or "scale" not in state`. None for others.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _without_format(node.operand)
        return negated(inner) if inner is not None else None
    last = node.values[-1] if isinstance(node, ast.BoolOp) else None
    if not isinstance(node, ast.BoolOp) or not isinstance(last, ast.Compare):
        return None
    asked = ast.In if isinstance(node.op, ast.And) else ast.NotIn
    is_format = isinstance(last.left, ast.Constant) and last.left.value == "scale" and isinstance(last.ops[0], asked)
    rest = node.values[:-1]
    return (rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)) if is_format else None


def _listed(node: ast.AST) -> ast.AST:
    """X.parameters() of `list(X.parameters())`."""
    is_list = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "list"
    if isinstance(node, ast.Call) and is_list and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
        return node.args[0] if "parameters" in ast.unparse(node.args[0].func) else node
    return node


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _mark(node: ast.AST) -> str:
    """What a scaler does to a value: "<scaled>", "<by the scaler>", or nothing."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.id if isinstance(func, ast.Name) and func.id in ("<scaled>", "<by the scaler>") else ""


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "<amp state>"


def _full(scope: Scope, node: ast.AST) -> str:
    """The dotted name of what is imported, or of what erasure has put in its place; empty for everything else."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return ""
    full = scope.file.dotted(node)
    if full is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        is_new = node.value not in scope.file.scope_of and node.value.id.startswith("torch")
        return f"{node.value.id}.{node.attr}" if is_new else ""
    return full or (node.id if isinstance(node, ast.Name) and node.id.startswith("torch.") else "")
