"""Which calls of a program run in its autocast regions: a reading by names alone, the same for every program.

It is coarse and does not know which object a name means. That is enough to compare two programs of the same meaning, and
it shares no mistake with the analysis that is under test.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.metamorphic.scopes import FUNCTIONS

_ON_THE_SAME_MODULE = set("to cuda cpu half float double bfloat16 train eval apply requires_grad_ type".split())
_WRAPPING = set(
    "initialize deepcopy compile network_to_half convert_syncbn_model convert_network BN_convert_float".split()
)


class Reach:
    """The functions and the modules of torch that names of a program can hold, wherever they stand."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef) and node.name not in ("forward", "__init__", "__call__"):
                self.functions[node.name].append(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and _last(node.targets[0]):
                name = str(_last(node.targets[0]))
                self.functions[name].append(ast.FunctionDef(name, node.value.args, [ast.Return(node.value.body)], []))
        self.layers, self.functional = _torch_names(self.nodes)
        self.layers |= _module_classes(self.nodes)
        self.modules: set[str] = set()
        self.aliases: dict[str, set[str]] = defaultdict(set)
        self.makers: set[str] = set()  # functions that return a module
        while self._learned():
            pass

    def reached(self, regions: Iterable[ast.AST]) -> tuple[int, int]:
        """How many calls of modules and how many of `nn.functional` run in these pieces of code, calls entered."""
        seen: dict[int, ast.Call] = {}
        pending: list[ast.AST] = [*regions]
        while pending:
            for call in [one for one in ast.walk(pending.pop()) if isinstance(one, ast.Call) and id(one) not in seen]:
                seen[id(call)] = call
                pending += self._called(call.func)
        calls = seen.values()
        return sum(map(self._is_module, calls)), sum(_dotted(one.func) in self.functional for one in calls)

    def _called(self, function: ast.expr) -> Iterator[ast.AST]:
        for name in self._functions_in(function):
            for one in self.functions[name]:
                yield from one.body

    def _is_module(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "forward":
            return not ast.unparse(call.func).startswith("super(")
        return self._holds(call.func)

    def _learned(self) -> bool:
        before = self._size()
        for node in self.nodes:
            for target, value in _bindings(node):
                self._bind(target, value)
            if isinstance(node, ast.Call):
                self._pass_on(node)
        self.makers |= {name for name, every in self.functions.items() if any(map(self._gives, every))}
        self.modules |= {name for name in self.makers if any(map(_is_property, self.functions[name]))}
        return before != self._size()

    def _size(self) -> tuple[int, ...]:
        return len(self.modules), len(self.makers), sum(map(len, self.aliases.values()))

    def _gives(self, function: ast.FunctionDef) -> bool:
        returned = [
            node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None
        ]
        return any(map(self._holds, returned))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            is_pairwise = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            values = value.elts if is_pairwise else [value] * len(target.elts)  # type: ignore[attr-defined]
            for one, other in zip(target.elts, values, strict=True):
                self._bind(one, other)
        elif name := _last(target):
            self._hold(name, value)

    def _hold(self, name: str, value: ast.expr) -> None:
        if self._holds(value):
            self.modules.add(name)
        self.aliases[name] |= self._functions_in(value)

    def _pass_on(self, call: ast.Call) -> None:
        function, arguments = call.func, call.args
        if _last(function) == "partial" and arguments:
            function, *arguments = arguments
        for name in self._functions_in(function):
            for callee in self.functions[name]:
                names = [arg.arg for arg in (*callee.args.posonlyargs, *callee.args.args)]
                is_bound = names[:1] in (["self"], ["cls"]) and not _last(function) == callee.name == names[0]
                for parameter, value in zip(names[is_bound:], arguments, strict=False):
                    self._hold(parameter, value)
                for keyword in [one for one in call.keywords if one.arg in names]:
                    self._hold(str(keyword.arg), keyword.value)

    def _functions_in(self, value: ast.expr) -> set[str]:
        if isinstance(value, ast.Call) and _last(value.func) == "partial" and value.args:
            return self._functions_in(value.args[0])
        name = _last(value)
        if name is None or isinstance(value, ast.Subscript):
            return set()
        return {*self.aliases.get(name, ()), *([name] if name in self.functions else [])}

    def _holds(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            return self._makes(value)
        if isinstance(value, ast.Subscript):
            return self._holds(value.value)
        if isinstance(value, (ast.IfExp, ast.Tuple, ast.List, ast.BoolOp, ast.NamedExpr, ast.Dict, ast.ListComp)):
            parts = [one for one in ast.iter_child_nodes(value) if isinstance(one, ast.expr)]
            return any(self._holds(one) for one in parts)
        return _last(value) in self.modules

    def _makes(self, call: ast.Call) -> bool:
        name = _last(call.func) or ""
        if _dotted(call.func) in self.layers or name in self.layers:
            return True
        if name in _ON_THE_SAME_MODULE and isinstance(call.func, ast.Attribute):
            return self._holds(call.func.value)
        if name == "getattr":
            return _last(call) in self.modules
        if name in _WRAPPING or name[:1].isupper():
            return any(self._holds(one) for one in call.args)
        return bool(self._functions_in(call.func) & self.makers)


def _is_property(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "property" for one in function.decorator_list)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is bound to which value: also the elements of what is iterated over."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter


def _module_classes(nodes: list[ast.AST]) -> set[str]:
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    for _ in classes:
        for node in classes:
            has_forward = any(isinstance(one, FUNCTIONS) and one.name == "forward" for one in node.body)
            bases = {_last(base) for base in node.bases}
            if has_forward or bases & {"Module", "Sequential"} or bases & found:
                found.add(node.name)
    return found


def _torch_names(nodes: list[ast.AST]) -> tuple[set[str], set[str]]:
    """The layers of torch and the functions of `nn.functional` that a program uses, as it writes them."""
    paths = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            paths |= {one.asname or one.name.partition(".")[0]: one.name if one.asname else "" for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            paths |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    layers, functional = set(), set()
    for text in {_dotted(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))}:
        first, dot, rest = text.partition(".")
        path = f"{paths.get(first) or first}{dot}{rest}"
        if path.startswith("torch.nn.functional."):
            functional.add(text)
        elif path.startswith("torch.nn.") and path.rpartition(".")[2][:1].isupper():
            layers.add(text)
    return layers, functional


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _last(node: ast.expr) -> str | None:
    """`model` of `self.model`, of `models["model"]` what holds it, of `getattr(self, "model")` the text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    is_getattr = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
    if is_getattr and isinstance(node.args[1], ast.Constant):  # type: ignore[attr-defined]
        return str(node.args[1].value)  # type: ignore[attr-defined]
    return None
