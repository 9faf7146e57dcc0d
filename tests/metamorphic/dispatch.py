"""The same method found in another way: by its class, by `getattr`, behind a property, as `forward` or by a call."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import FUNCTIONS
from tests.metamorphic.walk import fresh

_TOUCHING = ("vars", "setattr", "delattr", "hasattr", "__dict__", "__slots__")  # an object's attributes by other ways
_PLAIN_BASES = ("object", "nn.Module", "torch.nn.Module", "Module")


def methods_by_class(program: Program, random: Random) -> bool:
    """`Trainer.step(self, x)` for `self.step(x)`"""
    done = False
    for cls, method in _own_methods(program):
        for call in _calls_on_self(cls, method.name):
            call.func = ast.Attribute(ast.Name(cls.name, ast.Load()), method.name, ast.Load())
            call.args.insert(0, ast.Name("self", ast.Load()))
            done = True
    return done


def methods_by_getattr(program: Program, random: Random) -> bool:
    """`getattr(self, "step")(x)` for `self.step(x)`"""
    done = False
    for cls, method in _own_methods(program):
        for call in _calls_on_self(cls, method.name):
            call.func = _getattr(call.func.value, method.name)  # type: ignore[attr-defined]
            done = True
    return done


def layers_by_getattr(program: Program, random: Random) -> bool:
    """`getattr(self, "encoder")(x)` for `self.encoder(x)`, in `forward`"""
    done = False
    for forward in _forwards(program):
        for call in [one for one in ast.walk(forward) if isinstance(one, ast.Call)]:
            if isinstance(call.func, ast.Attribute) and _is_self(call.func.value):
                call.func = _getattr(call.func.value, call.func.attr)
                done = True
    return done


def steps_by_getattr(program: Program, random: Random) -> bool:
    """`getattr(optimizer, "step")()` for `optimizer.step()`"""
    done = False
    for call in [one for one in program.nodes() if isinstance(one, ast.Call)]:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("step", "zero_grad", "backward"):
            call.func = _getattr(call.func.value, call.func.attr)
            done = True
    return done


def forward_by_class(program: Program, random: Random) -> bool:
    """`Encoder.forward(self.encoder, x)` for `self.encoder(x)`, where nothing hangs on the call of the module"""
    done = False
    for call, module, owner in _calls_of_modules(program):
        call.args.insert(0, module)
        call.func = ast.Attribute(ast.Name(owner, ast.Load()), "forward", ast.Load())
        done = True
    return done


def forward_by_name(program: Program, random: Random) -> bool:
    """`self.encoder.forward(x)` for `self.encoder(x)`, where nothing hangs on the call of the module"""
    done = False
    for call, module, _ in _calls_of_modules(program):
        call.func = ast.Attribute(module, "forward", ast.Load())
        done = True
    return done


def _calls_of_modules(program: Program) -> Iterator[tuple[ast.Call, ast.Attribute, str]]:
    """The calls of modules in forwards, what each calls, and its class; none where something hangs on such calls."""
    owners = {} if _has_hooks(program) else _held_by_modules(program)
    for forward in _forwards(program):
        for call in [one for one in ast.walk(forward) if isinstance(one, ast.Call)]:
            if isinstance(call.func, ast.Attribute) and _is_self(call.func.value) and call.func.attr in owners:
                yield call, call.func, owners[call.func.attr]


def properties(program: Program, random: Random) -> bool:
    """`self._model = model` and a property `model`, in classes that are no modules"""
    done = False
    for cls, name in _attributes_of_plain_classes(program):
        hidden = fresh(program, f"_{name}")
        for node in program.nodes():
            if isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load):
                node.attr = hidden
        (getter,) = ast.parse(f"@property\ndef {name}(self):\n    return self.{hidden}").body
        cls.body.append(getter)
        done = True
    return done


def _attributes_of_plain_classes(program: Program) -> list[tuple[ast.ClassDef, str]]:
    nodes = program.nodes()
    if any(isinstance(node, ast.Name) and node.id in _TOUCHING for node in nodes):
        return []
    if any(isinstance(node, ast.Attribute) and node.attr in _TOUCHING for node in nodes):
        return []
    written = [node for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)]
    every, found = Counter(node.attr for node in written), []
    defined = {node.name for node in nodes if isinstance(node, FUNCTIONS)}
    bases = {ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
    for cls in [
        node for node in nodes if isinstance(node, ast.ClassDef) and not node.bases and not node.decorator_list
    ]:
        inside = {id(node) for node in ast.walk(cls)}
        own = Counter(node.attr for node in written if id(node) in inside and _is_self(node.value))
        in_body = {
            one.id
            for part in cls.body
            if not isinstance(part, FUNCTIONS)
            for one in ast.walk(part)
            if isinstance(one, ast.Name)
        }
        names = [
            one for one in own if own[one] == every[one] and one not in defined | in_body and not one.startswith("_")
        ]
        found += [(cls, name) for name in names if cls.name not in bases]
    return found


def _own_methods(program: Program) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """The methods that no other class and no attribute has under the same name, in classes at the top of a module."""
    nodes = program.nodes()
    every = Counter(
        one.name for node in nodes if isinstance(node, ast.ClassDef) for one in node.body if isinstance(one, FUNCTIONS)
    )
    written = {node.attr for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)}
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    for tree in program.files.values():
        for cls in [node for node in tree.body if isinstance(node, ast.ClassDef) and names[node.name] == 1]:
            for method in [one for one in cls.body if isinstance(one, ast.FunctionDef) and not one.decorator_list]:
                is_alone = every[method.name] == 1 and method.name not in written
                if is_alone and not method.name.startswith("__") and method.name != "forward":
                    yield cls, method


def _calls_on_self(cls: ast.ClassDef, name: str) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(cls)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and _is_self(call.func.value)
    ]


def _forwards(program: Program) -> list[ast.FunctionDef]:
    nodes = program.nodes()
    return [
        node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "forward" and _takes_self(node)
    ]


def _held_by_modules(program: Program) -> dict[str, str]:
    """The classes of attributes that are bound once, to a new object of a module class of the same file."""
    found: dict[str, str] = {}
    written = Counter(
        node.attr for node in program.nodes() if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    )
    for tree in program.files.values():
        modules = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and _is_plain_module(node)}
        for node in [one for one in ast.walk(tree) if isinstance(one, ast.Assign)]:
            target, value = node.targets[0], node.value
            is_made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in modules
            if is_made and isinstance(target, ast.Attribute) and written[target.attr] == 1:
                found[target.attr] = value.func.id  # type: ignore[attr-defined]
    return found


def _is_plain_module(node: ast.ClassDef) -> bool:
    has_forward = any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body)
    return has_forward and not node.decorator_list and all(ast.unparse(base) in _PLAIN_BASES for base in node.bases)


def _has_hooks(program: Program) -> bool:
    """Hooks, and Apex's own ways to exchange what a module does when it is called."""
    words = ("hook", "half", "network_to_half", "float_function", "__call__", "checkpoint", "compile")
    texts = [source.decode() for source in program.sources.values()]
    return any(word in text for word in words for text in texts)


def _getattr(value: ast.expr, name: str) -> ast.expr:
    return ast.Call(ast.Name("getattr", ast.Load()), [value, ast.Constant(name)], [])


def _takes_self(function: ast.FunctionDef) -> bool:
    return [arg.arg for arg in function.args.args][:1] == ["self"]


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


REWRITES = {
    "methods by the class": methods_by_class,
    "methods by getattr": methods_by_getattr,
    "layers by getattr": layers_by_getattr,
    "steps by getattr": steps_by_getattr,
    "forward by the class": forward_by_class,
    "forward by its name": forward_by_name,
    "properties": properties,
}
