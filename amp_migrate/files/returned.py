"""What the parts of a returned tuple are made of, and which parts callers take.

def forward(self, x):                               sequence, _ = self.bert(x)          the first part
    x = self.encoder(x)                             sequence = self.bert(x)[0]
    pooled = self.pooler(x[:, 0])                   outputs = self.bert(x)
    return x, pooled                                sequence = outputs[0]

A part is made of all that its names are ever assigned in the function. What is stored, or given to a call whose result
nobody names, counts as returned.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.files.definitions import definitions
from amp_migrate.files.syntax import names_in

Parts = frozenset[int]
_MOST_PARTS = 20
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match, ast.Yield, ast.YieldFrom)


def made_of(function: ast.FunctionDef, parts: Parts | None) -> set[str] | None:
    """The attributes of the object that some parts of what a method returns may be made of (all without `parts`); None
    where that is not followed.
    """
    flows = list(_flows(function))
    waiting = [one for node in own_nodes(function) for one in _kept(node, parts, flows)]
    attributes, names = set[str](), set[str]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            attributes.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in ("self", "super"):
            return None
        elif isinstance(node, ast.Name) and node.id not in names:
            names.add(node.id)
            waiting += [value for targets, value in flows if node.id in targets]
        else:
            waiting += ast.iter_child_nodes(node)
    return attributes


def _flows(function: ast.FunctionDef) -> Iterator[tuple[set[str], ast.expr]]:
    """What is assigned, with the names that it is assigned to."""
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and all(map(_is_named, node.targets)):
            yield {name for target in node.targets for name in names_in(target)}, node.value
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield names_in(node.target), node.value
        elif isinstance(node, ast.For):
            yield names_in(node.target), node.iter


def _kept(node: ast.AST, parts: Parts | None, flows: list[tuple[set[str], ast.expr]]) -> Iterable[ast.AST]:
    """What of a statement leaves the function."""
    if isinstance(node, ast.Return):
        return _parts_of(node.value, parts, flows) if node.value is not None else ()
    if isinstance(node, ast.With):
        return [item.context_expr for item in node.items]
    if isinstance(node, ast.Assign) and not all(map(_is_named, node.targets)):
        return (node,)
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)) and not _is_named(node.target):
        return (node,)
    return (node,) if isinstance(node, (ast.Expr, *_NESTED)) else ()


def _parts_of(
    value: ast.expr, parts: Parts | None, flows: list[tuple[set[str], ast.expr]], seen: frozenset[str] = frozenset()
) -> list[ast.expr]:
    if parts is None:
        return [value]
    if isinstance(value, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in value.elts):
        return [one for number, one in enumerate(value.elts) if number in parts]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and isinstance(value.left, ast.Tuple):
        is_more = max(parts, default=0) >= len(value.left.elts)
        return [*_parts_of(value.left, parts, flows), *([value.right] if is_more else ())]
    if isinstance(value, ast.Name) and value.id not in seen:
        given = [one for targets, one in flows if value.id in targets]
        if given and all(isinstance(one, (ast.Tuple, ast.BinOp)) for one in given):
            return [part for one in given for part in _parts_of(one, parts, flows, seen | {value.id})]
    return [value]


def parts_taken(function: ast.FunctionDef, attribute: str) -> tuple[Parts, set[str]] | None:
    """The parts that a method takes of what it calls as `self.attribute(...)`, and what else it reads of that; None
    where it may take all.
    """
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    taken, read = set[int](), set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == attribute and names_in(node.value) == {"self"}:
            around = parents[node]
            if isinstance(around, ast.Attribute):
                read.add(around.attr)
                continue
            found = _taken(function, around, parents) if isinstance(around, ast.Call) and around.func is node else None
            if found is None:
                return None
            taken |= found
    return frozenset(taken), read


def _taken(function: ast.FunctionDef, value: ast.expr, parents: dict[ast.AST, ast.AST]) -> Parts | None:
    """The parts that are taken of a value where it stands."""
    around = parents[value]
    if isinstance(around, ast.Subscript) and around.value is value:
        return _indices(around.slice)
    if not isinstance(around, ast.Assign) or len(around.targets) != 1:
        return None
    target = around.targets[0]
    if isinstance(target, ast.Tuple) and all(isinstance(one, ast.Name) for one in target.elts):
        read = {one.id for one in _loads(function.body)}
        return frozenset(number for number, one in enumerate(target.elts) if names_in(one) & read)
    if not isinstance(target, ast.Name):
        return None
    found = [
        _taken(function, load, parents)
        for load in _loads(_until_rebound(function, around, target.id))
        if load.id == target.id
    ]
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def _until_rebound(function: ast.FunctionDef, assignment: ast.Assign, name: str) -> list[ast.stmt]:
    """The statements that may read what a name is assigned: of the function itself up to the next such assignment."""
    if assignment in function.body:
        below = function.body[function.body.index(assignment) + 1 :]
        for number, one in enumerate(below):
            if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets):
                return below[: number + 1]
    return function.body


def _indices(node: ast.expr) -> Parts | None:
    """0 for `[0]`, the numbers of `[:2]`; None for what is not written out, or counted from the end."""
    bounds = (node.lower, node.upper, node.step) if isinstance(node, ast.Slice) else (node,)
    numbers = [one.value if isinstance(one, ast.Constant) else None for one in bounds if one is not None]
    if not all(isinstance(one, int) and one >= 0 for one in numbers):
        return None
    if not isinstance(node, ast.Slice):
        return frozenset(one for one in numbers if isinstance(one, int))
    return frozenset(range(_MOST_PARTS)[slice(*(ast.literal_eval(one) if one is not None else None for one in bounds))])


def _loads(statements: Iterable[ast.AST]) -> list[ast.Name]:
    parts = (part for one in statements for part in ast.walk(one))
    return [part for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]


def _is_named(target: ast.AST) -> bool:
    """False for what is stored in something."""
    return not any(isinstance(part, (ast.Attribute, ast.Subscript)) for part in ast.walk(target))


# Functions that hand back the model that they are given, with the parameters it had: `model = synchronised(model)`.

_GROWING = frozenset("nn Parameter Module add_module register_module register_parameter setattr".split())
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def hands_back(resolved: str) -> bool:
    """True where a function is found, and always returns its first argument without new layers."""
    found = [definition for _, definition in definitions(resolved)]
    return bool(found) and all(map(_hands_back_its_first, found))


def _hands_back_its_first(definition: ast.AST) -> bool:
    """True for a function that ends in returning its first parameter, returns nothing else, and makes no layers."""
    if not isinstance(definition, ast.FunctionDef) or not definition.args.args or definition.decorator_list:
        return False
    name = definition.args.args[0].arg
    if name in ("self", "cls"):
        return False  # it is not given
    returned = [node.value for node in own_nodes(definition) if isinstance(node, ast.Return)]
    generates = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(definition))
    rebound = any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(definition)
    )
    words = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(definition)}
    is_it = all(isinstance(value, ast.Name) and value.id == name for value in returned)
    stays = not rebound and not generates and words.isdisjoint(_GROWING)
    return isinstance(definition.body[-1], ast.Return) and is_it and stays


def own_nodes(definition: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions and classes in it."""
    for node in ast.iter_child_nodes(definition):
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(node)
