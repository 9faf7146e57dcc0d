"""Models that are made by a name which is known when the script runs only.

eval("models." + config.MODEL.NAME + ".get_net")(config)        any get_net of a module of the package
importlib.import_module(f"models.{args.arch}")                  anything of a module of the package
find_class(args.arch, "models." + kind)                         the same, where it imports what it is given
importlib.import_module(args.model).get_model()                 any get_model of a module that a script can import
for name in ("nets.small", "nets.large"): import_module(name)   anything of these modules
eval(block)                                                     anything that has a name in this file
eval("{}_dropout".format(args.arch))                            what has such a name in it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.lookups import pattern_of, texts
from amp_migrate.facts.tree import called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Scope
from amp_migrate.plan.safety.namespaces import is_module
from amp_migrate.vocabulary import IMPORTERS

_PACKAGE = re.compile(r"\.*[A-Za-z_]\w*(?:\.\w+)*")


def is_by_name(call: cst.Call) -> bool:
    """True for `eval("...")` and `import_module("...")`; `model.eval()` is none."""
    is_eval = isinstance(call.func, cst.Name) and call.func.value == "eval" and len(call.args) == 1
    return is_eval or (called_name(call) in IMPORTERS and bool(call.args))


def possibly_meant(facts: Facts, call: cst.Call) -> list[str] | None:
    """The full names that such a call may mean, of definitions and of whole modules; None where that is open.

    What belongs to another package (`eval("nn." + name)`), and what an object holds that is made elsewhere
    (`eval("lstm.weight_ih_l" + str(layer))`), needs no name.
    """
    name = call.args[0].value
    is_import = called_name(call) in IMPORTERS
    if is_import and isinstance(name, (cst.SimpleString, cst.ConcatenatedString)):
        return []  # an import like any other
    listed = _listed(facts, name) if is_import else []
    if listed:
        return [facts.elsewhere.resolved(facts.file_of(call).path, dotted) for dotted in listed]
    followed = _values(facts, name, ()) if is_import else [name]
    found = [_meant_by(facts, call, list(texts(value)), is_import=is_import) for value in followed]
    if any(one is None for one in found):
        return None
    return list(dict.fromkeys(name for one in found for name in one or ()))


def _values(facts: Facts, name: cst.BaseExpression, seen: tuple[cst.BaseExpression, ...]) -> list[cst.BaseExpression]:
    """What a name of a module is set to, here or by who hands it on: `load("models." + args.arch)`."""
    values = facts.objects.values_of(name) if isinstance(name, cst.Name) and name not in seen else []
    return [one for value in values for one in _values(facts, value, (*seen, name))] or [name]


def _meant_by(facts: Facts, call: cst.Call, parts: list[str | None], *, is_import: bool) -> list[str] | None:
    """The same for one text, of which `parts` are known."""
    package, dot, stem = (parts[0] or "").rpartition(".")
    if not is_import and (not dot or _PACKAGE.fullmatch(package) is None):
        return _named_alike(facts, call, parts)
    if not dot:
        return _taken_of(facts, call)
    if _PACKAGE.fullmatch(package) is None:
        return None
    if not is_import and _is_of_object(facts, call, package):
        return []
    path = _resolved(facts, call, package, is_import=is_import)
    if path is None or not path.startswith("/"):
        return [] if path is not None and not is_import else None
    last = parts[-1]
    suffix = last[1:] if last is not None and last.startswith(".") and last[1:].isidentifier() else None
    modules = [module for module in facts.elsewhere.modules_in(path) if PurePath(module).name.startswith(stem)]
    if suffix is not None and modules:
        return [f"{module}.{suffix}" for module in modules]
    return modules if is_import else [path, *modules]


def _listed(facts: Facts, node: cst.BaseExpression) -> list[str]:
    """What a loop goes through, where that is written out here or by each caller: `for name in modules:`."""
    variable = facts.names.definition(node) if isinstance(node, cst.Name) else None
    names: list[str] = []
    for binding in variable.bindings if variable is not None else ():
        if binding.kind != "for" or binding.selector or binding.value is None:
            return []
        lists = facts.objects.values_of(binding.value) if isinstance(binding.value, cst.Name) else [binding.value]
        for one in lists:
            elements = [part.value for part in one.elements] if isinstance(one, (cst.List, cst.Tuple)) else [one]
            values = [literal_value(element) for element in elements]
            if not all(isinstance(value, str) for value in values):
                return []
            names += map(str, values)
    return names


def _named_alike(facts: Facts, call: cst.Call, parts: list[str | None]) -> list[str]:
    """`eval("{}_dropout".format(name))`: what has such a name in this file, and whatever it imports by a star; of a
    module, all that is in it.

    What is imported and called by its own name as well is not there for the text to find.
    """
    root = facts.tree.root_of(call)
    words = {word for part in parts if part is not None for word in re.findall(r"[A-Za-z_]\w*", part)}
    pattern = pattern_of(list(_first_name(parts)))
    begins = parts[0] or ""
    names = list(facts.names.star_imports.get(root, []))
    scope: Scope | None = facts.names.scope_of(facts.tree.function_of(call))
    while scope is not None:
        for variable in scope.variables.values():
            paths = [binding.path for binding in variable.bindings if binding.path is not None]
            modules = [path for path in paths if is_module(path)]
            is_meant = variable.name in words or pattern.fullmatch(variable.name) is not None
            if modules and (is_meant or (None in parts and variable.name.startswith(begins))):
                names += modules  # `eval("net" + name)` may be `nets.Net`
            elif is_meant and not (paths and any(map(facts.tree.call_of, variable.loads))):
                names += paths if scope.owner is not root else [f"{facts.file_of(call).name}.{variable.name}"]
        scope = scope.parent
    return names


def _first_name(parts: list[str | None]) -> Iterator[str | None]:
    """The parts of the name that a text begins with."""
    for part in parts:
        name = re.split(r"\W", part)[0] if part is not None else None
        yield name
        if name != part:
            return


def _taken_of(facts: Facts, call: cst.Call) -> list[str] | None:
    """What is taken of a module of any name, in every module that has it and lies where the script's imports start;
    None where more may be taken of it (`getattr(module, name)`).
    """
    places = [one for kind in (cst.Name, cst.Attribute) for one, _ in facts.tree.every(kind)]
    uses = [one for one in places if _means(facts, one, call)]
    users = [facts.tree.parents.get(use) for use in (call, *uses)]
    taken = [user.attr.value for user in users if isinstance(user, cst.Attribute)]
    if not all(isinstance(user, (cst.Attribute, cst.Assign, cst.AssignTarget)) for user in users):
        return None
    modules = facts.elsewhere.importable(facts.file_of(call).path)
    names = [f"{module}.{name}" for module in modules for name in dict.fromkeys(taken)]
    return [name for name in names if facts.elsewhere.is_there(name)] or None


def _means(facts: Facts, node: cst.BaseExpression, call: cst.Call) -> bool:
    return not facts.tree.is_label(node) and any(one.origin is call for one in facts.objects.objects(node))


def _is_of_object(facts: Facts, call: cst.Call, dotted: str) -> bool:
    """True for an attribute of what a function is given, itself as a method among it."""
    variable = facts.names.visible(dotted.partition(".")[0], facts.tree.function_of(call))
    return variable is not None and all(binding.kind == "param" for binding in variable.bindings)


def _resolved(facts: Facts, call: cst.Call, dotted: str, *, is_import: bool) -> str | None:
    """The full name of the package: of an import, or of what a name means where the call stands."""
    if is_import:
        return facts.elsewhere.package(facts.file_of(call).path, dotted)
    name, _, rest = dotted.partition(".")
    variable = facts.names.visible(name, facts.tree.function_of(call))
    path = facts.names.followed(variable.import_path) if variable is not None else None
    return f"{path}.{rest}" if path is not None and rest else path
