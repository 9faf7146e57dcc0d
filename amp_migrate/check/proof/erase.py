"""Mixed precision taken away: what is left of a function in one world.

Mixed precision adds nothing to a program but precision. So regions become their bodies, `scaler.scale(x)` is `x`,
`scaler.step(o)` is `o.step()`, Apex's calls are what they return, wrappers what they wrap, and casts to half go.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from amp_migrate import models
from amp_migrate.check.proof.by_hand import copied_from, moves_copies, scale_key, unscales
from amp_migrate.check.proof.kinds import DECORATORS, MODEL_WRAPPERS, SCALES
from amp_migrate.check.proof.nodes import Node, at, call, changed, handler, is_none, method, name, walk
from amp_migrate.check.proof.normal import normal
from amp_migrate.check.proof.program import Def, Scope, imports_of
from amp_migrate.check.proof.side import AUTOCASTS, SCALERS, Side, apex_name, is_behind_cast
from amp_migrate.check.proof.worlds import World, literals
from amp_migrate.models.queries import casts

HALF_TYPES = {
    "torch.float16": "torch.float32",
    "torch.half": "torch.float32",
    "torch.HalfTensor": "torch.FloatTensor",
    "torch.cuda.HalfTensor": "torch.cuda.FloatTensor",
}
_FLOAT_TYPES = {*HALF_TYPES.values(), "torch.float"}
_NOTHING_LEFT = frozenset(
    "init model_grads_to_master_grads master_params_to_model_params register_half_function register_float_function "
    "register_promote_function _clear_cache update_master_grads inspect_master_grad_data".split()
)
_WHAT_IS_GIVEN = (
    *MODEL_WRAPPERS,
    *DECORATORS,
    *"wrap_optimizer FP16_Optimizer tofp16 half_function float_function promote_function".split(),
)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SCALE = name("<loss scale>")
_NO_SCALE = ast.Constant(1.0)  # where mixed precision is off
AMP_STATE = name("<amp state>")
_METHODS = ("backward", "step")  # what a migration calls anew


Around = tuple[tuple[Scope, ast.expr, bool], ...]  # the tests around a place, each with its answer there


class Found:
    """What erasure came across."""

    def __init__(self) -> None:
        # The tests around each place about mixed precision: whether it sets it up, and their answers where it is on.
        self.tests: list[tuple[bool, list[tuple[Scope, ast.expr, bool]]]] = []
        self.levels: list[tuple[Scope, ast.expr]] = []
        self.asks_for_handle = False  # whether it is None
        self.erased: dict[Scope, int] = {}  # how many places in each function; 0 for casts to float32 alone
        self.casts: list[tuple[Scope, ast.expr, Around]] = []  # to half, and of what
        self.switches: list[tuple[Scope, ast.Call]] = []  # what sets mixed precision up, makes a scaler or a region
        self.uses: list[tuple[Scope, ast.Call]] = []  # of a scaler
        self.around: dict[ast.Call, Around] = {}

    def add(self, other: Found) -> None:
        """Take over what another one came across."""
        self.tests += other.tests
        self.levels += other.levels
        self.asks_for_handle |= other.asks_for_handle
        self.casts += other.casts
        self.switches += other.switches
        self.uses += other.uses
        self.around |= other.around
        for scope, count in other.erased.items():
            self.erased[scope] = self.erased.get(scope, 0) + count


def anyhow(side: Side, scope: Scope) -> tuple[list[ast.stmt], Found]:
    """A function erased in no world in particular, and what erasure came across in it."""
    if scope not in side.erased:
        found = Found()
        world = World(side.keys, {}, side.carried, None)
        side.erased[scope] = Eraser(side, world, scope, found).body(), found
    body, found = side.erased[scope]
    return body, found


class Eraser:
    """One function of one side in one world, without mixed precision; new nodes where something changes."""

    def __init__(self, side: Side, world: World, scope: Scope, found: Found) -> None:
        self.side = side
        self.world = world
        self.scope = scope
        self.file = scope.file
        self.found = found
        self.around: list[tuple[Scope, ast.expr, bool]] = []
        self.renamed: dict[str, str] = {}

    def body(self) -> list[ast.stmt]:
        """The statements of the function, its decorators as the first of them."""
        node = self.scope.node
        marks = [at(node, ast.Expr(call(name("<decorator>"), one))) for one in self.decorators(node)]
        return [*marks, *self.block(self.scope.body)]

    # -- statements -------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        before = len(self.around)
        for one in statements:
            done += self.stmt(one)
            if isinstance(one, ast.If) and not one.orelse and isinstance(one.body[-1], (ast.Return, ast.Continue)):
                self.around.append((self.scope, one.test, False))
            if done and isinstance(done[-1], _LEAVES):
                break
        del self.around[before:]
        return done

    def stmt(self, node: ast.stmt) -> list[ast.stmt]:
        if self.side.scales and unscales(self.side.keys, self.scope, node, self.side.scales):
            self._fire(node.value if isinstance(node, ast.Expr) else node, sets_up=False)
            return []
        known = handler(Eraser, type(node))
        return known(self, node) if known is not None else [self.generic(node)]

    def _arm(self, test: ast.expr, holds: bool, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        self.around.append((self.scope, test, holds))
        done = self.block(body)
        self.around.pop()
        return done

    def _If(self, node: ast.If) -> list[ast.stmt]:
        answer = self.world.truth(self.scope, node.test)
        if answer is not None:
            return self._arm(node.test, answer, node.body if answer else node.orelse)
        body, orelse = self._arm(node.test, True, node.body), self._arm(node.test, False, node.orelse)
        return [changed(node, test=self.expr(node.test), body=body, orelse=orelse)]

    def _For(self, node: ast.For) -> list[ast.stmt]:
        if self.side.is_half and moves_copies(node):
            self._fire()
            return []
        return [self.generic(node)]

    def _Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return [] if self.world.truth(self.scope, node.test) else [self.generic(node)]

    def _With(self, node: ast.With) -> list[ast.stmt]:
        items: list[ast.withitem] = []
        before: list[ast.stmt] = []
        outer = self.renamed
        for item in node.items:
            loss = self._scaled(item.context_expr)
            if loss is not None:
                self._fire(sets_up=False)
                if item.optional_vars is not None:
                    scaled = self._marked("<scaled>", self.expr(loss))
                    self.renamed = {**self.renamed, **self._own_names(node, item.optional_vars)}
                    before.append(at(node, ast.Assign([self.expr(item.optional_vars)], scaled)))
            elif not self._is_region(item.context_expr):
                items.append(self.generic(item))
        body = self.block(node.body)
        self.renamed = outer
        return [*before, *([changed(node, items=items, body=body)] if items else body)]

    def _own_names(self, node: ast.With, target: ast.expr) -> dict[str, str]:
        """A name for the scaled loss that is nobody else's, where its own is read in this block alone."""
        if not isinstance(target, ast.Name):
            return {}
        everywhere, here = (self._reads(one, target.id) for one in (self.scope.body, node.body))
        is_own = everywhere == here and {scope for _, scope in here} <= {self.scope}
        return {target.id: f"<scaled {target.id}>"} if is_own else {}

    def _reads(self, statements: Sequence[ast.stmt], read: str) -> set[tuple[ast.AST, Scope | None]]:
        """Where some statements read a name, each with the scope that reads it."""
        names = (part for one in statements for part in walk(one) if isinstance(part, ast.Name) and part.id == read)
        return {(one, self.file.scope_of.get(one)) for one in names if isinstance(one.ctx, ast.Load)}

    _AsyncWith = _With

    def _Try(self, node: ast.Try) -> list[ast.stmt]:
        """Where an import is tried, it succeeds: Apex is there in the worlds that are compared, and torch has AMP.
        Other imports may fail.
        """
        kinds = [part for one in node.handlers for part in (walk(one.type) if one.type is not None else ())]
        caught = {part.id for part in kinds if isinstance(part, ast.Name)}
        caught |= {"" for one in node.handlers if one.type is None}
        tries = any(imports_of(one, "apex", "torch") for one in node.body)
        if tries and caught & {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", ""}:
            body = [one for one in self.block(node.body) if not ast.unparse(one).startswith("sys.path.")]
            return [*body, *self.block(node.orelse), *self.block(node.finalbody)]
        imports = [one for one in node.body if isinstance(one, (ast.Import, ast.ImportFrom))]
        done = self.generic(node)
        return [changed(done, body=[*imports, *done.body])] if imports else [done]

    def _FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        return []  # compared on its own

    _AsyncFunctionDef = _Import = _ImportFrom = _Global = _Nonlocal = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef) -> list[ast.stmt]:
        outer, self.scope = self.scope, self.file.scope_of[node]
        body = self.block(node.body)
        self.scope = outer
        return [changed(node, body=body, decorator_list=self.decorators(node), bases=self._all(node.bases))]

    def decorators(self, node: ast.AST) -> list[ast.expr]:
        """The decorators of a class or function that are not about precision."""
        return [self.expr(one) for one in getattr(node, "decorator_list", ()) if not self._is_cast_decorator(one)]

    def _Return(self, node: ast.Return) -> list[ast.stmt]:
        return [changed(node, value=self._settled(node.value))] if node.value is not None else [node]

    def _Expr(self, node: ast.Expr) -> list[ast.stmt]:
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
            if value.func.attr in ("half", "float"):  # of a module: a tensor would stay as it is
                self._note_cast(value)
                return self._Expr(changed(node, value=value.func.value))
        left = self.expr_or_none(value)
        return [] if left is None else [changed(node, value=left)]

    def _Assign(self, node: ast.Assign) -> list[ast.stmt]:
        target = node.targets[0]
        if isinstance(target, ast.Name) and len(node.targets) == 1 and isinstance(node.value, ast.Attribute):
            if self._method_named(target) is node.value:
                return []  # it is called by its own name
        if self._carries(node.value) or all(self._carries(one) for one in node.targets):
            self.expr_or_none(node.value)
            return []
        if self._is_scale(node.targets[0]):
            self._fire()
            return []
        world, self.world = self.world, self._world_before(target, node.value)
        value = self._settled(node.value)
        self.world = world
        targets = [self.expr(one) for one in node.targets]
        return [] if value is None or targets[0] is SCALE else [changed(node, targets=targets, value=value)]

    def _world_before(self, target: ast.expr, value: ast.expr) -> World:
        """The world without a condition that is made of what it was, `args.fp16 = args.fp16 or args.amp`: the answers
        are those that tests get later.
        """
        text = ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else ""
        if not text or all(text != ast.unparse(one) for one in ast.walk(value) if type(one) is type(target)):
            return self.world
        return self.world.without(self.world.keys.key(self.scope, target))

    def _AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        if self._is_scale(node.target):
            self._fire()
            return []
        return [self.generic(node)]

    def _AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        return self._Assign(at(node, ast.Assign([node.target], node.value))) if node.value is not None else []

    def _settled(self, node: ast.expr) -> ast.expr | None:
        """A value; a condition that has one answer in this world as that answer."""
        if isinstance(node, (ast.Name, ast.Attribute, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call)):
            value = self.world.value(self.scope, node)
            if value is True or value is False:
                return at(node, ast.Constant(value))
        return self.expr_or_none(node)

    # -- expressions ------------------------------------------------------------------------------------

    def generic(self, node: Node) -> Node:
        """The node with all its parts erased."""
        changes: dict[str, Any] = {}
        for field in node._fields:
            old = getattr(node, field, None)
            if isinstance(old, ast.expr):
                new: Any = self.expr(old)
            elif isinstance(old, list) and old:
                new = self.block(old) if isinstance(old[0], ast.stmt) else self._all(old)
            elif isinstance(old, ast.AST) and old._fields:
                new = self.generic(old)
            else:
                continue
            if new is not old:
                changes[field] = new
        return changed(node, **changes) if changes else node

    def _all(self, nodes: list[Any]) -> list[Any]:
        done = [
            self.expr(one) if isinstance(one, ast.expr) else self.generic(one) if isinstance(one, ast.AST) else one
            for one in nodes
        ]
        return nodes if all(new is old for new, old in zip(done, nodes, strict=True)) else done

    def expr(self, node: ast.expr) -> ast.expr:
        value = self.expr_or_none(node)
        return ast.Constant(None) if value is None else value

    def expr_or_none(self, node: ast.expr) -> ast.expr | None:
        """An expression; None where nothing is left of it."""
        known = handler(Eraser, type(node))
        return known(self, node) if known is not None else self.generic(node)

    def _Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.renamed:
            return at(node, ast.Name(self.renamed[node.id], node.ctx))
        if isinstance(node.ctx, ast.Load) and self._carries(node):
            return ast.Constant(None)
        return self._dtype(node)

    def _Constant(self, node: ast.Constant) -> ast.expr:
        known = HALF_TYPES.get(node.value) if isinstance(node.value, str) else None
        return at(node, ast.Constant(known)) if known is not None else node

    def _Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr == "optimizer" and self._is_wrapped(node.value):
            return self.expr(node.value)
        if node.attr in ("module", "network") and self.side.models.holds(self.scope, node.value):
            return self.expr(node.value)
        if node.attr == "overflow" and self._is_wrapped(node.value):
            return name("<skipped>") if self.world.is_on else ast.Constant(False)
        if self._is_scale(node) or (node.attr in SCALES and self._is_amp(node.value)):
            return self._scale()
        return self._dtype(node)

    def _Subscript(self, node: ast.Subscript) -> ast.expr:
        if (
            isinstance(node.slice, ast.Constant)
            and node.slice.value == 1
            and self.side.sequences.holds(self.scope, node.value)
        ):
            return self.expr(node.value)  # behind the cast of the inputs
        return self.generic(node)

    def _dtype(self, node: ast.expr) -> ast.expr:
        full = self.file.dotted(node)
        if full in HALF_TYPES:
            self._fire()
            if self.around:  # else it is one of a table of types
                self.found.casts.append((self.scope, node, tuple(self.around)))
            base, _, last = HALF_TYPES[full].rpartition(".")
            return at(node, ast.Attribute(name(base), last, ast.Load()))
        return self.generic(node)

    def _IfExp(self, node: ast.IfExp) -> ast.expr:
        answer = self.world.truth(self.scope, node.test)
        arms = []
        for holds, arm in ((True, node.body), (False, node.orelse)):
            if answer in (None, holds):
                self.around.append((self.scope, node.test, holds))
                arms.append(self.expr(arm))
                self.around.pop()
        return arms[0] if len(arms) == 1 else changed(node, test=self.expr(node.test), body=arms[0], orelse=arms[1])

    def _BoolOp(self, node: ast.BoolOp) -> ast.expr:
        absorbing = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for one in node.values:
            answer = self.world.truth(self.scope, one)
            if answer is None:
                kept.append(self.expr(one))
            elif answer == absorbing:
                kept.append(ast.Constant(absorbing))
                break
        if len(kept) < 2:
            return kept[0] if kept else ast.Constant(not absorbing)
        return changed(node, values=kept)

    def _Compare(self, node: ast.Compare) -> ast.expr:
        done = self.generic(node)
        if isinstance(node.comparators[0], ast.Tuple) and not isinstance(done.comparators[0], ast.Tuple):
            return changed(done, ops=[ast.Eq()])  # one of several types, which are one now
        return done

    def _ListComp(self, node: ast.ListComp) -> ast.expr:
        copied = copied_from(node) if self.side.is_half else None
        if copied is None:
            return self.generic(node)
        self._fire()
        return at(node, call(name("list"), self.expr(copied)))

    def _BinOp(self, node: ast.BinOp) -> ast.expr:
        is_product, is_quotient = isinstance(node.op, ast.Mult), isinstance(node.op, ast.Div)
        for part, rest in ((node.right, node.left), (node.left, node.right)) if self.side.scales else ():
            if is_product or (is_quotient and part is node.right):
                if scale_key(self.side.keys, self.scope, part) in self.side.scales:
                    self._fire()
                    return self.expr(rest)
        left, right = self.expr(node.left), self.expr(node.right)
        if right in (SCALE, _NO_SCALE) and (is_product or is_quotient):
            return left
        return right if left in (SCALE, _NO_SCALE) and is_product else changed(node, left=left, right=right)

    def _Tuple(self, node: ast.Tuple) -> ast.expr:
        kept = [one for one in node.elts if not self._carries(one)]
        done = [self.expr(one) for one in kept]
        if any(new is not old for new, old in zip(done, kept, strict=True)):  # types that are one now
            texts = [ast.unparse(one) for one in done]
            types = [isinstance(one, ast.Constant) or self._is_of_torch(one) for one in kept]
            done = [one for index, one in enumerate(done) if not types[index] or texts.index(texts[index]) == index]
        return (
            done[0]
            if len(done) == 1 and len(node.elts) > 1 and isinstance(node, ast.Tuple)
            else changed(node, elts=done)
        )

    def _is_of_torch(self, node: ast.expr) -> bool:
        return (self.file.dotted(node) or "").startswith("torch.")

    def _Call(self, node: ast.Call) -> ast.expr | None:
        self.found.around[node] = tuple(self.around)
        func = node.func
        if isinstance(func, ast.Name) and (named := self._method_named(func)) is not None:
            func, node = named, changed(node, func=named)
        if self.file.called(func) == "torch.autograd.backward" and (loss := _only_loss(node)) is not None:
            func = ast.Attribute(loss, "backward", ast.Load())
            return self.expr(changed(node, func=func, args=node.args[1:]))
        if self.file.called(func) in (*AUTOCASTS, *SCALERS):
            self.found.switches.append((self.scope, node))
            return name("<native amp>")
        if isinstance(func, (ast.Name, ast.Attribute)) and self.side.helpers.holds(self.scope, func):
            return node  # it may make a whole step
        known = apex_name(self.file, func)
        if is_behind_cast(self.file, node):
            return self.expr(node.args[1])
        if not known and self.side.optimizers.is_source(self.file, node):
            known = "wrap_optimizer"
        if isinstance(func, ast.Attribute):
            if self.side.scalers.holds(self.scope, func.value):
                return self._of_scaler(node, func.attr)
            if func.attr in ("state_dict", "load_state_dict") and self.side.helpers.holds(self.scope, func.value):
                return self._state(node, func.attr)
            if self.side.handles.holds(self.scope, func.value):
                known = func.attr
            elif self._is_wrapped(func.value):
                known = func.attr
                if known == "backward" and node.args:
                    self._fire(sets_up=False)
                    return at(node, method(self.expr(node.args[0]), "backward"))
                if known in ("clip_master_grads", "clip_fp32_grads"):
                    clip = name("torch.nn.utils.clip_grad_norm_")
                    given = [*node.args, *(one.value for one in node.keywords)]
                    return at(node, call(clip, self._params(func.value), *map(self.expr, given)))
                if known == "zero_grad":
                    known, node = "", changed(node, keywords=[changed(one, arg="set_to_none") for one in node.keywords])
            elif func.attr in SCALES and self._is_amp(func.value):
                return self._scale()
            elif func.attr == "step" and self.side.prepared.holds(self.scope, func.value):
                node = changed(node, func=changed(func, value=self._marked("<by the scaler>", func.value)))
            elif func.attr in models.names(casts) and self._casts(node):
                return self._uncast(node, func)
        return self._of_apex(node, known) if known else self._other_call(node)

    def _method_named(self, node: ast.Name) -> ast.Attribute | None:
        """`optimizer.step` for `step` after `step = optimizer.step` in the same function, where it is called only, and
        what it is of has not changed.
        """
        home, named = self.scope.sole(node) or (self.scope, None)
        if not isinstance(named, ast.Attribute) or named.attr not in _METHODS:
            return None
        nodes = list(ast.walk(home.function.node))
        callees = {one.func for one in nodes if isinstance(one, ast.Call)}
        loads = [one for one in nodes if isinstance(one, ast.Name) and one.id == node.id]
        loads = [one for one in loads if isinstance(one.ctx, ast.Load)]
        read = [one.id for one in ast.walk(named) if isinstance(one, ast.Name)]
        homes = [self.scope.binding(one) for one in read]
        earlier = [value for one, at in zip(read, homes, strict=True) if at is not None for value in at.bound[one]]
        is_same = all(getattr(one, "lineno", 0) < named.lineno for one in earlier)
        return named if is_same and home.function is self.scope.function and callees.issuperset(loads) else None

    def _of_scaler(self, node: ast.Call, attr: str) -> ast.expr | None:
        """What a method of a GradScaler comes to; nothing for unscale_, update and the setting of a scale."""
        self.found.uses.append((self.scope, node))
        if attr == "scale" and node.args:
            return self._marked("<scaled>", self.expr(node.args[0]))
        if attr == "step" and node.args:
            stepped = ast.Attribute(self._marked("<by the scaler>", node.args[0]), "step", ast.Load())
            return self._other_call(changed(node, func=stepped, args=node.args[1:]))
        if attr == "get_scale":
            return self._scale()
        if attr == "is_enabled":
            return ast.Constant(self.world.is_on)
        return self._state(node, attr)

    def _state(self, node: ast.Call, attr: str) -> ast.expr | None:
        if attr == "state_dict":
            return AMP_STATE
        return (
            at(node, call(name("<load amp state>"), *map(self.expr, node.args))) if attr == "load_state_dict" else None
        )

    def _of_apex(self, node: ast.Call, known: str) -> ast.expr | None:
        """What a call of Apex comes to; the call itself where it is not about mixed precision."""
        given = {one.arg: one.value for one in node.keywords}
        first = node.args[0] if node.args else next(iter(given.values()), None)
        if known in ("state_dict", "load_state_dict") and not self._is_wrapped(node.func.value):  # type: ignore[attr-defined]
            return self._state(node, known)
        if known == "master_params" and first is not None:
            return self._params(first)
        if known == "to_python_float" and first is not None:
            return at(node, method(self.expr(first), "item"))
        if known == "clip_grad_norm":
            return self._other_call(changed(node, func=name("torch.nn.utils.clip_grad_norm_")))
        if known == "prep_param_lists" and first is not None:
            self._fire()
            parts: list[ast.expr] = [at(node, method(self.expr(first), "parameters"))] * 2
            return at(node, ast.Tuple(parts, ast.Load()))
        if known == "initialize":
            self._note_setup(node, given)
            optimizers = given.get("optimizers", node.args[1] if len(node.args) > 1 else None)
            returned = [given.get("models", first), *([] if is_none(optimizers) else [optimizers])]
            parts = [self.expr(one) for one in returned if one is not None]
            return parts[0] if len(parts) == 1 else at(node, ast.Tuple(parts, ast.Load()))
        if known in _NOTHING_LEFT:
            self._fire(sets_up=known == "init")
            return None
        if known in _WHAT_IS_GIVEN and first is not None:
            self._fire()
            if known in MODEL_WRAPPERS:
                self.found.casts.append((self.scope, first, tuple(self.around)))
            return self.expr(first)
        return self._other_call(node)

    def _other_call(self, node: ast.Call) -> ast.expr | None:
        callees = self.side.flow.certain(self.scope, node)
        comes_to = self._comes_to(callees[0]) if len(callees) == 1 else None
        if comes_to is not None:
            self.found.erased.setdefault(self.scope, 0)
            given = self.side.flow.given(self.scope, node, callees[0]).get(comes_to)
            if not comes_to or given is not None:
                return self.expr(given) if given is not None else None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "apply" and len(node.args) == 1:
            applied = self.side.flow.meant(self.scope, node.args[0])
            if len(applied) == 1 and self._comes_to(applied[0]) == "":
                self.found.erased.setdefault(self.scope, 0)
                return self.expr(node.func.value)
        goes = self._dropped(node, callees or self.side.flow.of_object(self.scope, node)) if self.side.dropped else ()
        args = [self.expr(one) for one in node.args if one not in goes and not self._carries(one)]
        keywords = [
            changed(one, value=self.expr(one.value))
            for one in node.keywords
            if one.value not in goes and not self._carries(one.value)
        ]
        return changed(node, func=self.expr(node.func), args=args, keywords=keywords)

    def _dropped(self, node: ast.Call, callees: Sequence[Scope]) -> set[ast.expr]:
        """The arguments for parameters that only this side has."""
        return {
            arg
            for callee in callees
            if callee in self.side.dropped
            for parameter, arg in self.side.flow.given(self.scope, node, callee).items()
            if parameter in self.side.dropped[callee]
        }

    def _comes_to(self, scope: Scope) -> str | None:
        """What a function about precision is without it: "" for one that does nothing any more, the name of the
        parameter that it returns; None for all others.
        """
        known = self.side.come_to
        if scope not in known and isinstance(scope.node, Def) and scope in self.side.about:
            known[scope] = None  # for one that calls itself
            erased, found = anyhow(self.side, scope)
            is_about = scope in found.erased or (scope.file.path, scope.name) in self.side.were_about
            body = normal(erased, ()) if is_about else erased
            only = body[0] if len(body) == 1 and is_about else None
            if not body:
                known[scope] = "" if is_about else None
            elif isinstance(only, ast.Return) and isinstance(only.value, ast.Name):
                known[scope] = only.value.id if only.value.id in scope.bound else None
        return known.get(scope)

    # -- what is what -----------------------------------------------------------------------------------

    def _carries(self, node: ast.expr) -> bool:
        """True for what holds a scaler or Apex's handle: it goes, and whatever hands it on."""
        scope = self.file.scope_of.get(node, self.scope) if isinstance(node, ast.Name) else self.scope
        return any(one.holds(scope, node) for one in self.side.go)

    def _is_scale(self, node: ast.expr) -> bool:
        """True for a loss scale that the script keeps itself."""
        return bool(self.side.scale_names) and ast.unparse(node) in self.side.scale_names

    def _is_wrapped(self, node: ast.expr) -> bool:
        return self.side.optimizers.holds(self.scope, node)

    def _is_amp(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Subscript, ast.Attribute)) and not self.file.dotted(node):
            node = node.value
        is_apex = (self.file.dotted(node) or "").startswith("apex.")
        return is_apex or self._is_wrapped(node) or self.side.handles.holds(self.scope, node)

    def _is_region(self, node: ast.expr) -> bool:
        """True for autocast, on or off, and for what stands in its place where there is none."""
        if isinstance(node, ast.Call):
            self.expr_or_none(node)  # it is a switch
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("disable_casts", "_disable_casts"):
                return True
            if self.side.region_makers.holds(self.scope, node.func):
                return True
        return self.side.regions.holds(self.scope, node)

    def _scaled(self, node: ast.expr) -> ast.expr | None:
        """The loss of `amp.scale_loss(loss, optimizer)` and its forms; None for other contexts."""
        if not isinstance(node, ast.Call) or not (node.args or node.keywords):
            return None
        func = node.func
        if apex_name(self.file, func) != "scale_loss":
            if not isinstance(func, ast.Attribute) or func.attr != "scale_loss":
                return None
            if not (self.side.handles.holds(self.scope, func.value) or self._is_wrapped(func.value)):
                return None
        return next((one.value for one in node.keywords if one.arg == "loss"), None) or node.args[0]

    def _casts(self, node: ast.Call) -> bool:
        """True for a cast to half; where weights are half, for those to float32 as well."""
        given = [*node.args, *(one.value for one in node.keywords)]
        attr = node.func.attr  # type: ignore[attr-defined]
        if not given:
            return attr == "half" or (attr == "float" and self.side.is_half)
        full = self.file.dotted(given[0]) if len(given) == 1 else None
        return full in HALF_TYPES or (self.side.is_half and full in _FLOAT_TYPES)

    def _uncast(self, node: ast.Call, func: ast.Attribute) -> ast.expr:
        """What a cast is without the precision; a type of the GPU is a move as well."""
        self._note_cast(node)
        value = self.expr(func.value)
        is_move = bool(node.args) and ".cuda." in (self.file.dotted(node.args[0]) or "")
        return at(node, method(value, "cuda")) if is_move else value

    def _note_cast(self, node: ast.Call) -> None:
        if node.func.attr == "half" or any(self.file.dotted(one) in HALF_TYPES for one in node.args):  # type: ignore[attr-defined]
            self.found.casts.append((self.scope, node.func.value, tuple(self.around)))  # type: ignore[attr-defined]
            self._fire(node.func)
        elif self.side.is_half:
            self.found.erased.setdefault(self.scope, 0)

    def _is_cast_decorator(self, node: ast.expr) -> bool:
        func = node.func if isinstance(node, ast.Call) else node
        full = self.file.dotted(func) or ""
        return full.rpartition(".")[2] in DECORATORS or full in AUTOCASTS or full.startswith("apex.amp.")

    def _params(self, optimizer: ast.expr) -> ast.expr:
        return call(name("<parameters of>"), self.expr(optimizer))

    def _marked(self, mark: str, node: ast.expr) -> ast.expr:
        """What a scaler has done to a value: nothing to its meaning, but both sides have to agree on it."""
        return at(node, call(name(mark), node)) if self.world.marks else node

    def _scale(self) -> ast.expr:
        return _NO_SCALE if self.world.is_on is False else SCALE

    # -- what is found ----------------------------------------------------------------------------------

    def _note_setup(self, node: ast.Call, given: dict[str | None, ast.expr]) -> None:
        self._fire()
        self.found.switches.append((self.scope, node))
        enabled = given.get("enabled", node.args[2] if len(node.args) > 2 else None)
        if enabled is not None:
            self.note([(self.scope, enabled, True)])
        level = given.get("opt_level", node.args[3] if len(node.args) > 3 else None)
        if level is not None and not isinstance(level, ast.Constant):
            self.found.levels.append((self.scope, level))

    def _fire(self, cast: ast.AST | None = None, *, sets_up: bool = True) -> None:
        """Something is taken away here, which may be a part of the setup: the tests around it are about mixed
        precision, but for those of what is `cast`.
        """
        self.found.erased[self.scope] = self.found.erased.get(self.scope, 0) + 1
        subject = _subject(cast) if cast is not None else None
        self.note(
            [one for one in self.around if subject is None or subject not in map(_subject, walk(one[1]))],
            sets_up=sets_up,
        )

    def note(self, around: Sequence[tuple[Scope, ast.expr, bool]], *, sets_up: bool = True) -> None:
        """The tests around a place are about mixed precision."""
        found: list[tuple[Scope, ast.expr, bool]] = []
        for scope, test, holds in around:
            for one, answer in literals(test, holds, partial(self.world.truth, scope)):
                if self.side.carried(scope, one.left if isinstance(one, ast.Compare) else one):
                    self.found.asks_for_handle = True
                elif "__name__" not in ast.unparse(one):
                    found.append((scope, one, answer))
        self.found.tests.append((sets_up, found))


def _only_loss(node: ast.Call) -> ast.expr | None:
    """The loss of `torch.autograd.backward([loss])`: it is what `loss.backward()` is."""
    given = node.args[0] if node.args else None
    if isinstance(given, (ast.List, ast.Tuple)):
        given = given.elts[0] if len(given.elts) == 1 else None
    return given if not isinstance(given, ast.Starred) else None


def _subject(node: ast.AST) -> str:
    """The variable or the attribute of `self` that an expression is about; empty for none."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return f"self.{node.attr}"
        targets = getattr(node, "targets", None)
        inner = (
            targets[0]
            if targets
            else next((getattr(node, one) for one in ("value", "func", "target") if hasattr(node, one)), None)
        )
        if inner is None:
            return ""
        node = inner
    return node.id
