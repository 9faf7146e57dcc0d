"""Models and losses of which the code does not show what makes them.

    make = lambda: Net()                    model = make()
    setattr(holder, name, Net())            model = holder.net
    model = globals()["Net"]()
    model = REGISTRY[name]()                where a decorator puts the classes
    model = nn.Module.__subclasses__()[0]()
    model = torch.load(path)                whatever was saved
    model = sys.modules[name].Net()         of Python's own library, which makes no model but of what it is given
    model = waiting.get()                   out of a queue that another thread fills

Somebody has to say the name of the class, though: then every module counts that the files of the unit define or import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.queues import are_queues, taken_from
from amp_migrate.facts.tree import Class, called_name, walk
from amp_migrate.facts.values import PARSING
from amp_migrate.plan.safety.namespaces import meant_by, table_of
from amp_migrate.plan.safety.registries import REGISTRY
from amp_migrate.plan.safety.run_time_names import is_by_name, possibly_meant

_NAMED = ("instance", "definition", "import")
_LOADERS = frozenset("torch.load torch.hub.load torch.jit.load dill.load joblib.load".split())
_CLASSES_OF_DATA = frozenset(("collections.namedtuple", "dataclasses.make_dataclass"))
_NAMES = (cst.Name, cst.Attribute, cst.Subscript)
_DEEPEST = 4  # calls of what calls return


def is_open(facts: Facts, model: cst.BaseExpression) -> bool:
    """True where some object that a model may be is not known by its maker."""
    objects = facts.objects.objects(model)
    return not objects or any(_is_open(facts, one) for one in objects)


def taken_from_outside(facts: Facts, model: cst.BaseExpression) -> cst.Call | None:
    """What makes an open model out of a file, or by Python's own library: it may be one that no file in sight names.
    The command line has none: code puts them into `args.model`.
    """
    for one in facts.objects.objects(model):
        maker = one.source.origin
        if (
            isinstance(maker, cst.Call)
            and called_name(maker) not in PARSING
            and not _is_taken(facts, maker)
            and not _is_shown(facts, maker, 0)
        ):
            names = (part for part in walk(maker.func) if isinstance(part, (cst.Name, cst.Attribute)))
            paths = {path for name in names for path in facts.objects.paths_behind(name)}
            if any(path in _LOADERS or _is_of_python(path) for path in paths):
                return maker
    return None


def calls_open(facts: Facts, call: cst.Call, *, is_of_data: bool) -> bool:
    """The same for what a call runs: `criterion(scores, labels)`. Of what is called as a method, `self.encoder` and
    `holder.criterion` count: tensors have methods, too, by whose names something that is kept in an attribute may go.
    """
    func = call.func
    if not isinstance(func, (*_NAMES, cst.Call)) or (
        isinstance(func, cst.Name) and facts.names.variable_at(func) is None
    ):
        return False  # a builtin, or what a star import brings along
    if any(_is_array(arg.value) for arg in call.args):
        return False  # no network takes arrays of NumPy
    objects = facts.objects.objects(func)
    if isinstance(func, cst.Attribute):
        kept = any(one.kind == "call" and _is_open(facts, one) for one in objects)
        return kept or (not is_of_data and any(_is_open_field(facts, one) for one in objects))
    makes = (one for one in objects if isinstance(one.source.origin, (Class, cst.ClassDef, cst.Call)))
    return not objects or any(_is_open(facts, one) for one in makes)


def _is_array(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "numpy"


def is_instantiated(facts: Facts, call: cst.Call) -> bool:
    """True for `hydra.utils.instantiate(config.model)`: the class is named in a file of settings."""
    return (facts.names.dotted(call.func) or "") in ("hydra.utils.instantiate", "hydra.utils.call")


def modules_defined(facts: Facts) -> list[Class]:
    """The classes of the unit that have a forward, their own or one that they inherit."""
    return [
        owner for owner in facts.tree.classes if any("forward" in one.methods for one in facts.objects.ancestors(owner))
    ]


def modules_imported(facts: Facts) -> Iterator[str]:
    """The full names that the files of the unit import from others which define modules."""
    bindings = (binding for variable in facts.names.all_variables() for binding in variable.bindings)
    stars = (path for paths in facts.names.star_imports.values() for path in paths)
    for path in dict.fromkeys([*(one.path for one in bindings if one.path is not None), *stars]):
        is_here = facts.names.variable_behind(path) or facts.names.module_named(path)
        if not is_here and facts.elsewhere.is_there(path) and facts.elsewhere.may_make_modules(path):
            yield path


def _is_open(facts: Facts, one: Object) -> bool:
    source = one.source
    if isinstance(source.origin, (Class, cst.ClassDef)):
        return _is_open_field(facts, one)
    if isinstance(source.origin, cst.Call):
        return not _is_shown(facts, source.origin, 0)
    if isinstance(source.origin, cst.CSTNode):
        return not _shows(facts, source.origin, 0)
    return source.kind not in (*_NAMED, "parameter")  # of a parameter that nobody gives, others know


def _is_open_field(facts: Facts, one: Object) -> bool:
    """True for an attribute that nothing in the unit sets, of a class or an instance that is no module itself: what a
    module has of its own is read with it.
    """
    origin = one.source.origin
    if isinstance(origin, cst.ClassDef):
        origin = facts.objects.root_class(facts.tree.class_at[origin])
    return one.holder is not None and isinstance(origin, Class) and not _is_module(facts, origin)


def _is_module(facts: Facts, root: Class) -> bool:
    family = (owner for owner in facts.tree.classes if facts.objects.root_class(owner) is root)
    return any("forward" in owner.methods for owner in family)


def _is_shown(facts: Facts, call: cst.Call, depth: int) -> bool:
    """True for a call of what the code shows, in the unit or in another file, and of a builtin that is given that."""
    func = call.func
    if _is_taken(facts, call):
        return False
    is_looked_up = called_name(call) == "__subclasses__" or REGISTRY.search(called_name(call))
    if is_looked_up or facts.names.dotted(func) in _LOADERS:
        return False
    if isinstance(func, _NAMES) and any(_is_open_field(facts, one) for one in facts.objects.objects(func)):
        return False
    if facts.objects.candidates(call) or facts.names.dotted(func) in _CLASSES_OF_DATA or _shows(facts, func, depth):
        return True
    if is_by_name(call):
        return _is_named(facts, call)
    if called_name(call) == "getattr":
        return bool(call.args) and any(_is_named_import(one) for one in facts.objects.objects(call.args[0].value))
    is_builtin = isinstance(func, cst.Name) and facts.names.variable_at(func) is None
    is_of_python = is_builtin or _is_of_python(facts.names.dotted(func) or "")
    return is_of_python and any(_shows(facts, arg.value, depth) for arg in call.args)


def _is_taken(facts: Facts, call: cst.Call) -> bool:
    """True for what comes out of a queue that another thread fills."""
    queue = taken_from(call)
    return queue is not None and are_queues(facts.objects.origins(queue))


def _is_named(facts: Facts, call: cst.Call) -> bool:
    """False where a text that is put together means nothing in sight."""
    own = facts.tree.function_of(call)
    names = possibly_meant(facts, call)
    meant = [meant_by(facts, name) for name in names or ()]
    made_by = [node for one in meant for node in one.definitions]
    functions = [facts.tree.function_at.get(node) for node in made_by]
    is_other = any(function is None or not function.encloses(own) for function in functions)
    return names is None or is_other or any(one.unread for one in meant)


def _shows(facts: Facts, node: cst.CSTNode, depth: int) -> bool:
    """True for an expression that has a known part. Keys of lookups are none: `REGISTRY[args.name]` is anything of the
    registry.
    """
    if isinstance(node, cst.Call):  # `Norm = partial(BatchNorm, affine=False)`
        if facts.objects.candidates(node):  # `find(name)` of `find(name)()`, of which nobody has found what it returns
            returned = facts.objects.objects(node)
            return bool(returned) and all(map(_is_named_import, returned))
        return depth < _DEEPEST and _is_shown(facts, node, depth + 1)
    if isinstance(node, _NAMES):
        if facts.tree.is_label(node):
            return False
        objects = facts.objects.objects(node)
        if any(_is_of_known(facts, one, depth) for one in objects):
            return True
        if isinstance(node, cst.Attribute):  # `getattr(models, name).Net` belongs to a module in a package
            held = [one.origin for one in facts.objects.objects(node.value)]
            if any(isinstance(one, cst.BaseExpression) and table_of(one) is not None for one in (node.value, *held)):
                return False
        # What `self.params["loss"]` is decides, where that is seen, and not that self is an object of the unit.
        return not isinstance(node, cst.Name) and not objects and _shows(facts, node.value, depth)
    return any(_shows(facts, part, depth) for part in node.children)


def _is_of_known(facts: Facts, one: Object, depth: int) -> bool:
    """True for what has a name, or comes out of a call of what has one."""
    if isinstance(one.source.origin, cst.Call):
        is_of_module = one.kind == "field" and table_of(one.source.origin) is not None
        return not is_of_module and depth < _DEEPEST and _is_shown(facts, one.source.origin, depth + 1)
    if one.source.kind == "import":
        return _is_named_import(one)
    return one.source.kind in _NAMED and not _is_open_field(facts, one)


def _is_named_import(one: Object) -> bool:
    return one.source.kind == "import" and not _is_of_python(str(one.source.origin))


def _is_of_python(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names
