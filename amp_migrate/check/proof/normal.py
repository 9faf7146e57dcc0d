"""The normal form of a function's statements: one program written in two ways becomes the same."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from amp_migrate.check.proof.nodes import at, changed, name, same, walk

_JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_BLOCKS = ("body", "orelse", "finalbody")
_PURE = frozenset(
    "bool int float str len isinstance hasattr getattr list tuple dict zip range enumerate min max type iter id".split()
) | {"<scaled>"}
_PURE_METHODS = frozenset(
    "parameters named_parameters modules children named_modules get items keys values float is_available format".split()
)
_INVERSE = {
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.NotIn: ast.In,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}


def normal(statements: Sequence[ast.stmt], read: Collection[str], unread: Collection[str] = ()) -> list[ast.stmt]:
    """The normal form; `read` are names that something outside of these statements reads, `unread` the attributes that
    nothing reads.
    """
    current = list(statements)
    while True:
        following = _Block(read, _loads(current), unread).block(current)
        if _same(following, current):
            return following
        current = following


def _named_first(node: ast.expr) -> tuple[ast.NamedExpr | None, ast.expr]:
    """What an expression names before it does anything else, and the expression with that name: of
    `(loss := f(x)).backward()` that is `loss.backward()`.
    """
    if isinstance(node, ast.NamedExpr):
        return node, changed(node.target, ctx=ast.Load())
    field = {ast.Attribute: "value", ast.Subscript: "value", ast.BinOp: "left", ast.Call: "func"}.get(type(node))
    if field is None:
        return None, node
    named, rest = _named_first(getattr(node, field))
    if named is not None:
        return named, changed(node, **{field: rest})
    root = _root(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and node.args and root is not None:
        named, rest = _named_first(node.args[0])
        if named is not None and named.target.id != root.id:  # what is called was read before
            return named, changed(node, args=[rest, *node.args[1:]])
    return None, node


def _root(node: ast.expr) -> ast.Name | None:
    """`optimizer` of `optimizer.base.step`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _loads(nodes: Sequence[ast.AST]) -> Counter[str]:
    """How often each name is read in some statements."""
    return Counter([part.id for node in nodes for part in walk(node) if isinstance(part, ast.Name) and _is_load(part)])


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class _Block:
    def __init__(self, outside: Collection[str], loads: Counter[str], unread: Collection[str]) -> None:
        self.outside = outside
        self.loads = loads
        self.unread = unread

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for index, one in enumerate(statements):
            made = self.stmt(one)
            done += made
            last = made[-1] if made else None
            if isinstance(last, _JUMPS):
                break
            if isinstance(last, ast.If) and isinstance(last.body[-1], _JUMPS) and last.orelse:
                done[-1] = changed(last, orelse=[])  # what stands behind an arm that leaves is its else
                done += self.block([*last.orelse, *statements[index + 1 :]])
                break
        return list(statements) if _same(done, statements) else done

    def stmt(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.Expr, ast.Assign, ast.Return)) and node.value is not None:
            named, rest = _named_first(node.value)
            if named is not None:
                target = changed(named.target, ctx=ast.Store())
                return [at(node, ast.Assign([target], named.value)), changed(node, value=rest)]
        if isinstance(node, ast.Pass):
            return []
        if isinstance(node, ast.Expr):
            return [] if is_pure(node.value) else [node]
        if isinstance(node, ast.Assign):
            return self._assign(node)
        if isinstance(node, ast.Return) and node.value is not None:
            return [_with(node, value=simple(node.value))]
        blocks: dict[str, Any] = {
            field: self.block(getattr(node, field)) for field in _BLOCKS if getattr(node, field, None)
        }
        if isinstance(node, ast.If):
            return self._if(node, blocks.get("body", []), blocks.get("orelse", []))
        if isinstance(node, ast.For) and not any(blocks.values()) and is_pure(node.iter):
            return []
        if isinstance(node, ast.With) and not blocks.get("body") and ast.unparse(node.items[0]) == "torch.no_grad()":
            return []
        if isinstance(node, ast.Try):
            if not blocks.get("body"):
                return [*blocks.get("orelse", []), *blocks.get("finalbody", [])]
            handlers = [_with(one, body=self.block(one.body)) for one in node.handlers]
            blocks["handlers"] = node.handlers if _same(handlers, node.handlers) else handlers
        return [_with(node, **blocks)]

    def _assign(self, node: ast.Assign) -> list[ast.stmt]:
        first, *more = node.targets
        if more:
            return [
                at(node, ast.Assign([first], node.value)),
                *(at(node, ast.Assign([one], changed(first, ctx=ast.Load()))) for one in more),
            ]
        value = simple(node.value)
        if _is_itself(first, value):
            return []
        if isinstance(first, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            if len(first.elts) == len(value.elts):
                pairs = [one for one in zip(first.elts, value.elts, strict=True) if not _is_itself(*one)]
                if len(pairs) < len(first.elts) or _are_independent(pairs):
                    return [at(node, ast.Assign([target], its)) for target, its in pairs]
        unread = isinstance(first, ast.Name) and first.id not in self.outside and not self.loads[first.id]
        if (unread or (isinstance(first, ast.Attribute) and first.attr in self.unread)) and is_pure(value):
            return []
        return [_with(node, value=value)]

    def _if(self, node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[ast.stmt]:
        test = simple(node.test, is_truth=True)
        if isinstance(test, ast.Constant):
            return body if test.value else orelse
        body, orelse = self._without_own_names(body), self._without_own_names(orelse)
        if len(body) == len(orelse) and all(same(a, b) for a, b in zip(body, orelse, strict=True)):
            return [*([] if is_pure(test) else [at(node, ast.Expr(test))]), *body]
        if body and orelse and same(body[0], orelse[0]) and _is_backward(body[0]) and _spares(test):
            return [body[0], *self._if(node, body[1:], orelse[1:])]
        if not body and not orelse and is_pure(test):
            return []
        if not body or (orelse and _is_negative(test)):
            test, body, orelse = negated(test), orelse, body
        if not orelse and len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
            test, body = ast.BoolOp(ast.And(), [*_conjuncts(test), *_conjuncts(body[0].test)]), body[0].body
        return [_with(node, test=test, body=body, orelse=orelse)]

    def _without_own_names(self, arm: list[ast.stmt]) -> list[ast.stmt]:
        """An arm with the values in place of the names that are read in it alone: what these are called, and whether
        there is one, makes no difference.
        """
        pairs = [
            (one.targets[0].id, one.value)
            for one in arm
            if isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and self.loads[one.targets[0].id]
            and one.targets[0].id not in self.outside
            and is_pure(one.value)
        ]
        if not pairs:
            return arm
        inside, is_set = _loads(arm), Counter(_names_set(arm))
        own = {
            name
            for name, value in pairs
            if is_set[name] == 1 and inside[name] == self.loads[name] and not is_set.keys() & _names_read(value)
        }
        return inlined(arm, own) if own else arm


def _names_set(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names and attributes that some statements give a value."""
    for part in (part for node in nodes for part in walk(node)):
        if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            yield part.id if isinstance(part, ast.Name) else part.attr


def _names_read(node: ast.expr) -> set[str]:
    parts = [part for part in walk(node) if isinstance(part, (ast.Name, ast.Attribute))]
    return {part.id if isinstance(part, ast.Name) else part.attr for part in parts}


def _is_itself(target: ast.expr, value: ast.expr) -> bool:
    """True for `a = a`, and for `(a, b), c = [a, b], c`."""
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        return len(target.elts) == len(value.elts) and all(map(_is_itself, target.elts, value.elts))
    return same(target, value)


def _is_backward(node: ast.stmt) -> bool:
    """True for `loss.backward()`, which changes nothing but gradients."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"


def _spares(test: ast.expr) -> bool:
    """True for a test that reads no gradients: a backward does not change what it finds."""
    return is_pure(test) and not any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in ast.walk(test))


def _are_independent(pairs: Sequence[tuple[ast.expr, ast.expr]]) -> bool:
    """True where no value reads what another pair sets."""
    sets = {part.id for target, _ in pairs for part in walk(target) if isinstance(part, ast.Name)}
    return not any(_is_load(part) and part.id in sets for _, value in pairs for part in walk(value))  # type: ignore[attr-defined]


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in _conjuncts(value)]
    return [test]


def simple(node: ast.expr, *, is_truth: bool = False) -> ast.expr:
    """An expression without what does not matter for its value; with `is_truth`, for the truth of its value."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "bool"
        and is_truth
        and node.args
    ):
        return simple(node.args[0], is_truth=True)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found = negated(simple(node.operand, is_truth=True))
        return node if same(found, node) else found
    if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Constant):
        return simple(node.body if node.test.value else node.orelse, is_truth=is_truth)
    if isinstance(node, ast.BoolOp):
        return _simple_bool(node, is_truth)
    if isinstance(node, ast.Compare) and _is_scale(node.left) and _is_scale(node.comparators[0]):
        holds = isinstance(node.ops[0], (ast.LtE, ast.GtE, ast.Eq))  # of a scale that has not changed
        skipped = name("<skipped>") if isinstance(node.left, ast.Name) else ast.Constant(False)
        return negated(skipped) if holds else skipped
    if isinstance(node, ast.Subscript) and isinstance(node.value, (ast.List, ast.Tuple)):
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return node.value.elts[index] if isinstance(index, int) and index < len(node.value.elts) else node
    return node


def _simple_bool(node: ast.BoolOp, is_truth: bool) -> ast.expr:
    values = [simple(one, is_truth=is_truth) for one in node.values]
    absorbing = isinstance(node.op, ast.Or)
    kept: list[ast.expr] = []
    for one in values:
        if not isinstance(one, ast.Constant):
            kept.append(one)
        elif bool(one.value) == absorbing:
            kept.append(one)
            break
    if len(kept) < 2:
        return kept[0] if kept else ast.Constant(not absorbing)
    if is_truth and isinstance(kept[-1], ast.Constant):
        return ast.Constant(absorbing)
    return node if _same(kept, node.values) else changed(node, values=kept)


def _is_scale(node: ast.expr) -> bool:
    """True for the loss scale, which is 1.0 where mixed precision is off."""
    return (isinstance(node, ast.Name) and node.id == "<loss scale>") or (
        isinstance(node, ast.Constant) and node.value == 1.0
    )


def _is_negative(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a test."""
    if isinstance(test, ast.Constant):
        return ast.Constant(not test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _INVERSE:
        return changed(test, ops=[_INVERSE[type(test.ops[0])]()])
    return ast.UnaryOp(ast.Not(), test)


def is_pure(node: ast.AST) -> bool:
    """True for an expression that does nothing but have a value."""
    for part in walk(node):
        if isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
        if isinstance(part, ast.Call):
            last = ast.unparse(part.func).rpartition(".")
            if last[2] not in (_PURE_METHODS if last[0] else _PURE):
                return False
    return True


def _with(node: Any, **fields: Any) -> Any:
    """The node itself where the fields are what it has."""
    kept = all(
        value is getattr(node, field) or (isinstance(value, list) and _same(value, getattr(node, field)))
        for field, value in fields.items()
    )
    return node if kept else changed(node, **fields)


# -- names that only one side has -----------------------------------------------------------------------


def stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that some statements give a value."""
    return {
        part.id
        for node in nodes
        for part in walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def inlined(statements: Sequence[ast.stmt], names: Collection[str]) -> list[ast.stmt]:
    """The statements without assignments to some names: their values stand where the names are read."""
    read = {part.id for node in statements for part in walk(node) if _is_load(part)}  # type: ignore[attr-defined]
    return _inlined(statements, read & set(names), {})


def _inlined(statements: Sequence[ast.stmt], names: Collection[str], known: dict[str, ast.expr]) -> list[ast.stmt]:
    done: list[ast.stmt] = []
    for one in statements:
        target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        if isinstance(one, ast.Assign) and isinstance(target, ast.Name) and target.id in names:
            known[target.id] = _put(one.value, known, names)
            continue
        done.append(put := _put(one, known, names))
        if isinstance(put, ast.Assign) and all(same(target, simple(put.value)) for target in put.targets):
            continue  # what it has already
        new = set(_names_set([one]))  # a value that was read before is another one now
        acts = _acts(put) and _acts(one)  # and two calls keep their order
        loads = _loads([one]) if acts else {}
        for name_ in [
            known_as
            for known_as, value in known.items()
            if new & {known_as, *_names_read(value)} or (acts and not is_pure(value) and known_as not in loads)
        ]:
            del known[name_]
    return done


def _acts(node: ast.stmt) -> bool:
    """True for a statement that may do more than to name a value."""
    value = getattr(node, "value", None)
    return not (isinstance(node, (ast.Assign, ast.Expr)) and isinstance(value, ast.expr) and is_pure(value))


def _put(node: Any, known: dict[str, ast.expr], names: Collection[str]) -> Any:
    """A node with the values that are known in place of their names."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node) if isinstance(node.ctx, ast.Load) else node
    fields: dict[str, Any] = {}
    for field, old in ast.iter_fields(node):
        if isinstance(old, list) and old and isinstance(old[0], ast.stmt):
            fields[field] = _inlined(old, names, dict(known))
        elif isinstance(old, list):
            fields[field] = [_put(one, known, names) if isinstance(one, ast.AST) else one for one in old]
        elif isinstance(old, ast.AST):
            fields[field] = _put(old, known, names)
    return _with(node, **fields) if "keywords" not in fields else _spread(_with(node, **fields))


def _spread(node: Any) -> Any:
    """`f(a=b)` of `f(**dict(a=b))`."""
    if not any(one.arg is None and _is_dict_call(one.value) for one in node.keywords):
        return node
    parts = [one.value.keywords if one.arg is None and _is_dict_call(one.value) else [one] for one in node.keywords]
    return changed(node, keywords=[one for part in parts for one in part])


def _is_dict_call(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return is_call and not node.args and all(one.arg is not None for one in node.keywords)  # type: ignore[attr-defined]
