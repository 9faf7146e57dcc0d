"""Models and losses of which the code does not show what makes them.

    make = lambda: Net()                    model = make()
    setattr(holder, name, Net())            model = holder.net
    model = globals()["Net"]()
    model = REGISTRY[name]()                where a decorator puts the classes
    model = torch.load(path)                whatever was saved
    model = waiting.get()                   out of a queue that another thread fills

Somebody has to say the name of the class, though: then every module counts that the files of the unit define or import.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.queues import are_queues, taken_from
from amp_migrate.facts.tree import Class, called_name, walk
from amp_migrate.plan.safety.registries import REGISTRY
from amp_migrate.plan.safety.run_time_names import is_by_name

_HAS_FORWARD = b"def forward"
_NAMED = ("instance", "definition", "import")
_LOADERS = frozenset("torch.load pickle.load pickle.loads dill.load joblib.load".split())
_NAMES = (cst.Name, cst.Attribute, cst.Subscript)
_DEEPEST = 4  # calls of what calls return


def is_open(facts: Facts, model: cst.BaseExpression) -> bool:
    """True where some object that a model may be is not known by its maker."""
    objects = facts.objects.objects(model)
    return not objects or any(_is_open(facts, one) for one in objects)


def calls_open(facts: Facts, call: cst.Call) -> bool:
    """The same for what a call runs: `criterion(scores, labels)`. Of what is called as a method, `holder.criterion`
    counts: tensors have methods, too.
    """
    func = call.func
    if not isinstance(func, _NAMES) or (isinstance(func, cst.Name) and facts.names.variable_at(func) is None):
        return False  # a builtin, or what a star import brings along
    if any(_is_array(arg.value) for arg in call.args):
        return False  # no network takes arrays of NumPy
    objects = facts.objects.objects(func)
    if isinstance(func, cst.Attribute):
        return any(_is_open_field(facts, one) for one in objects)
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
        if not is_here and facts.elsewhere.is_there(path):
            source = facts.elsewhere.source_of(path)
            if source is None or _HAS_FORWARD in source:  # a module as a whole has no source of its own
                yield path


def _is_open(facts: Facts, one: Object) -> bool:
    source = one.source
    if isinstance(source.origin, (Class, cst.ClassDef)):
        return _is_open_field(facts, one)
    if isinstance(source.origin, cst.Call):
        return not _is_shown(facts, source.origin, 0)
    if isinstance(source.origin, cst.CSTNode):
        return not any(_is_known(facts, part, 0) for part in _parts(source.origin))
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
    func, queue = call.func, taken_from(call)
    if queue is not None and are_queues(facts.objects.origins(queue)):
        return False
    if facts.names.dotted(func) in _LOADERS or REGISTRY.search(called_name(call)):
        return False
    if isinstance(func, _NAMES) and any(_is_open_field(facts, one) for one in facts.objects.objects(func)):
        return False
    if facts.objects.candidates(call) or any(isinstance(part, cst.Call) and is_by_name(part) for part in walk(call)):
        return True
    if any(_is_known(facts, part, depth) for part in _parts(func)):
        return True
    is_builtin = isinstance(func, cst.Name) and facts.names.variable_at(func) is None
    if not is_builtin or called_name(call) == "getattr":
        return False
    return any(_is_known(facts, part, depth) for arg in call.args for part in _parts(arg.value))


def _parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of an expression without the keys of its lookups: `REGISTRY[args.name]` is anything of the registry."""
    yield node
    for part in [node.value] if isinstance(node, cst.Subscript) else node.children:
        yield from _parts(part)


def _is_known(facts: Facts, part: cst.CSTNode, depth: int) -> bool:
    if not isinstance(part, _NAMES) or facts.tree.is_label(part):
        return False
    return any(_is_of_known(facts, one, depth) for one in facts.objects.objects(part))


def _is_of_known(facts: Facts, one: Object, depth: int) -> bool:
    """True for what has a name, or comes out of a call of what has one: `Norm = partial(BatchNorm, affine=False)`."""
    if isinstance(one.source.origin, cst.Call):
        return depth < _DEEPEST and _is_shown(facts, one.source.origin, depth + 1)
    return one.source.kind in _NAMED and not _is_open_field(facts, one)
