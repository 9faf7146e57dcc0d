"""Which code runs under autocast: the statements of the regions, and what they call.

From a region into the functions of the unit that it calls, into the `forward` of the classes whose instances it calls,
and into that of the parts which those are made of (`self.block = Block(...)`, `nn.Sequential(Block(), Head())`). So do
the hooks that are registered on a forward.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.autograd import is_autograd_function
from amp_migrate.facts.lookups import looks_up_global
from amp_migrate.facts.names import dotted_text
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Class, Function, Statement, called_name, walk
from amp_migrate.facts.variables import Variable
from amp_migrate.interp.calls import Calls
from amp_migrate.models import traits
from amp_migrate.plan.regions.forwards import DATA_CALLS, Forwards
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.namespaces import Meant, is_module, meant_by, modules_looked_up_in, table_of
from amp_migrate.plan.safety.open_makers import (
    calls_open,
    is_instantiated,
    is_open,
    modules_defined,
    modules_imported,
    taken_from_outside,
)
from amp_migrate.plan.safety.registries import imported, is_out_of_sight, registering
from amp_migrate.plan.safety.run_time_names import is_by_name, possibly_meant

_HOOKS = traits.named("forward hook")
_NAMES = (cst.Name, cst.Attribute, cst.Subscript)
# What is called of others than models; so is every method of a tensor, of a batch, too, that another file makes.
_OF_DATA = DATA_CALLS | {"backward", "step"}


class Reach:
    """The statements under autocast, each once, the classes whose forwards they are in, and the local modules outside
    of the unit that they lead to (`unread`). `hidden` is what is known at run time only, and `assumed` what makes
    models that are taken for some that are in sight.
    """

    def __init__(self, facts: Facts, forwards: Forwards, regions: Iterable[Region]) -> None:
        self.facts = facts
        self.forwards = forwards
        self.statements: list[Statement] = []
        self.unread: dict[str, cst.CSTNode] = {}
        self.hidden: list[cst.BaseExpression] = []
        self.assumed: dict[cst.Call, None] = {}
        self._functions: set[Function] = set()
        self._makers: set[Function] = set()
        self.classes: dict[Class, None] = {}
        self._objects: set[Object] = set()
        self._waiting: list[Function] = []
        self._meant: dict[str, Meant] = {}
        for region in regions:
            for statement in region.statements():
                self._run(statement)
            for part in walk(region.hoisted.loss) if region.hoisted is not None else ():
                if isinstance(part, cst.Call):
                    self._call(part)
        self._follow()
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) in _HOOKS and call.args:
                self._hook(call)
        self._follow()

    @property
    def functions(self) -> frozenset[Function]:
        """The functions that run under autocast, forwards among them, without those that the regions stand in."""
        return frozenset(self._functions)

    def add_model(self, node: cst.BaseExpression, place: cst.Call) -> None:
        """A model that is trained runs under autocast, although no call of it may be known: `settings["network"]`."""
        for one in self.facts.objects.objects(node):
            self._object(_whole(one), place)
        if is_open(self.facts, node):
            self._everything(place, node)
        self._follow()

    def _hook(self, registration: cst.Call) -> None:
        """What `net.register_forward_hook(hook)` is given runs with the forward."""
        hook = registration.args[0].value
        hooks = self.facts.objects.functions_given(hook)
        for function in hooks:
            self._enter(function)
        self._note_unread(registration, hook)
        own = self.facts.tree.function_of(registration)
        if not hooks and own in self._makers | self._functions and not self.facts.objects.import_paths(hook):
            self.hidden.append(registration)

    def _everything(self, place: cst.Call, model: cst.BaseExpression) -> None:
        """All modules that the files of the unit define or name, where one of them runs and nothing shows which. Where
        there is none, a name that nobody can read says which it is.
        """
        defined, imported_ones = self._all_modules
        if not defined and not imported_ones:
            self.hidden.append(model)
        maker = taken_from_outside(self.facts, model)
        if maker is not None:
            self.assumed[maker] = None
        for owner in defined:
            self._class(owner)
        self.unread |= dict.fromkeys(imported_ones, place)

    @cached_property
    def _all_modules(self) -> tuple[list[Class], list[str]]:
        return modules_defined(self.facts), list(modules_imported(self.facts))

    def _follow(self) -> None:
        while self._waiting:
            for statement in self._waiting.pop(0).body.statements:
                self._run(statement)

    def calls(self) -> Iterator[tuple[cst.Call, Statement]]:
        """Every call under autocast, with its statement."""
        for statement in self.statements:
            for call in self.facts.tree.calls(statement):
                yield call, statement

    def _run(self, statement: Statement) -> None:
        if _switches_off(statement):
            return
        self.statements.append(statement)
        for call in self.facts.tree.calls(statement):
            self._call(call)
        for block in statement.blocks:
            for inner in block.statements:
                self._run(inner)

    def _call(self, call: cst.Call) -> None:
        self._note_callees(call)
        candidates = self.facts.objects.candidates(call)
        made = (self.facts.objects.method_of(owner, "__init__") for owner in self._classes_of(call))
        handed = (one.function for one in self.facts.analysis(Calls).handed(call))
        for function in (*candidates, *made, *handed):
            if function is not None:
                self._enter(function)
        models = [arg.value for arg in call.args] if self.forwards.is_forward(call) else []
        is_of_data = isinstance(call.func, cst.Attribute) and _is_of_data(called_name(call))
        for node in (call.func, *self._receiver(call)):
            if isinstance(node, (*_NAMES, cst.Call)):  # `eval(name)(args)(output, labels)`
                for one in self.facts.objects.objects(node):
                    self._object(one if is_of_data else _whole(one), call)
                    for method in self._looked_up(one):
                        self._enter(method)
        for node in models:
            for one in self.facts.objects.objects(node) if isinstance(node, _NAMES) else ():
                if one.kind != "value":  # a batch, not a model that is handed on
                    self._object(one, call)
        if not candidates and calls_open(self.facts, call, is_of_data=is_of_data):
            self._everything(call, call.func)

    def _receiver(self, call: cst.Call) -> list[cst.BaseExpression]:
        """`model` of `model.forward(x)` and `model.encode(x)`: its class may be in none of the files at hand."""
        func = call.func
        if not isinstance(func, cst.Attribute):
            return []
        if func.attr.value == "forward":
            return [func.value]  # also of a loss with a network of its own, which no optimizer has
        is_model = self.forwards.is_forward(call) and self.forwards.roles.is_model(func.value)
        return [func.value] if is_model else []

    def _enter(self, function: Function) -> None:
        if function not in self._functions:
            self._functions.add(function)
            self._waiting.append(function)

    def _object(self, one: Object, call: cst.Call) -> None:
        if one in self._objects:
            return
        self._objects.add(one)
        if isinstance(one.origin, Class):
            objects = self.facts.objects
            made = {owner: calls for owner, calls in self._made.items() if objects.root_class(owner) is one.origin}
            for owner in made or objects.derived(one.origin):  # made in another file it may be of any of them
                self._class(owner)
                for given in (arg.value for maker in made.get(owner, ()) for arg in maker.args):
                    self._given(given, call)  # what it wraps
        elif one.kind == "parameter" and isinstance(one.origin, Variable):
            for given in self.possibly_given(one.origin):
                self._given(given, call)
        elif one.holder is not None and isinstance(one.holder.origin, Class):
            self._bound_method(one.holder.origin, str(one.origin))
        elif one.kind == "import":
            self._note_name(call, str(one.origin))
        elif isinstance(one.origin, cst.Call):
            is_builtin = isinstance(one.origin.func, cst.Name) and self.facts.names.variable_at(one.origin.func) is None
            inside = one.origin if is_builtin else one.origin.func  # `next(build())`
            for callee in (one.origin.func, *(part.func for part in walk(inside) if isinstance(part, cst.Call))):
                self._note_unread(call, callee)  # of `Losses(weight).build("focal")` both calls
                if self._is_out_of_sight(callee):
                    self.hidden.append(one.origin)
            for module in self._tables(one.origin):
                self._read_module(module, call)
            if is_instantiated(self.facts, one.origin):
                self.hidden.append(one.origin)
            self._parts(one.origin, call)
        elif isinstance(one.origin, cst.BaseExpression):
            self._parts(one.origin, call)  # `[Encoder()] * depth`

    def _parts(self, made: cst.BaseExpression, call: cst.Call) -> None:
        """What an expression is made of that may be a module: instances, classes, and calls that give one."""
        for part in walk(made):
            if isinstance(part, cst.Call):
                for module in self._modules_given(part):
                    self._read_module(module, call)
                self._note_callees(part)  # `nn.Sequential(Stem(), Head())` of another file's classes
                self._made_by(part)
            elif isinstance(part, (cst.Name, cst.Attribute)):
                for held in self.facts.objects.objects(part) | self.facts.objects.elements(part):
                    if held.kind in ("instance", "call"):
                        self._object(held, call)
                    elif isinstance(held.origin, cst.ClassDef):  # `map(make, [Encoder, Decoder])`
                        self._class(self.facts.tree.class_at[held.origin])
                    elif held.kind == "import" and self.facts.elsewhere.may_make_modules(str(held.origin)):
                        self._note_name(call, str(held.origin))

    def _modules_given(self, maker: cst.Call) -> list[str]:
        """The modules among the arguments of a method that is not in sight: `config.make("arch", models)`; and that of
        a function that looks something up in it.
        """
        looked_up_in = [self.facts.names.dotted(table) for table in self.facts.objects.looked_up_in(maker)]
        if looked_up_in:
            return [name for name in looked_up_in if name is not None]
        if self.facts.objects.candidates(maker):
            return []
        names = (self.facts.names.dotted(arg.value) for arg in maker.args)
        return [name for name in names if name is not None and is_module(name)]

    def _read_module(self, module: str, call: cst.Call) -> None:
        """All that a module holds, of which a name of run time takes one thing."""
        for function in self._read(self._meant_by(module), call):
            self._makes(function)
            self._enter(function)  # `criterion = getattr(losses, name)` is called itself

    def _read(self, meant: Meant, call: cst.Call) -> Iterator[Function]:
        """The classes among what a name may mean are modules; its functions, for the caller to say what they are."""
        self.unread |= dict.fromkeys(meant.unread, call)
        for node in meant.definitions:
            if node in self.facts.tree.class_at:
                self._class(self.facts.tree.class_at[node])
            elif node in self.facts.tree.function_at:
                yield self.facts.tree.function_at[node]

    def _is_out_of_sight(self, callee: cst.BaseExpression) -> bool:
        """True for `getattr(module, name)` of a module that nobody in the unit gives."""
        table = table_of(callee)
        given = self.facts.objects.objects(table) if table is not None else ()
        return bool(given) and all(one.kind == "parameter" for one in given)

    def possibly_given(self, parameter: Variable) -> list[cst.BaseExpression]:
        """What the calls of methods of that name are given, where it is not known which of several classes they run."""
        function = parameter.scope.owner
        if not isinstance(function, Function) or not function.is_method or function.name == "__init__":
            return []  # every class has a constructor, and most calls of one by its name are those of bases
        return [
            arg.value
            for call in self._method_calls.get(function.name, ())
            for param, arg in self.facts.objects.arguments(call, function)
            if param.name.value == parameter.name
        ]

    @cached_property
    def _method_calls(self) -> dict[str, list[cst.Call]]:
        found: dict[str, list[cst.Call]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if isinstance(call.func, cst.Attribute):
                found.setdefault(call.func.attr.value, []).append(call)
        return found

    def _bound_method(self, root: Class, name: str) -> None:
        """`self.focal_loss` as a value, in all classes that an instance may be of."""
        for owner in self.facts.tree.classes:
            if name in owner.methods and self.facts.objects.root_class(owner) is root:
                self._enter(owner.methods[name])

    def _given(self, node: cst.BaseExpression, call: cst.Call) -> None:
        if isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
            for one in self.facts.objects.objects(node):
                if one.kind in ("instance", "call"):
                    self._object(one, call)

    def _class(self, owner: Class) -> None:
        """A module: its forward, and the modules that its methods make."""
        if owner in self.classes or is_autograd_function(self.facts, owner):
            return
        self.classes[owner] = None
        family = self.facts.objects.ancestors(owner)
        for base in (base.value for one in family for base in one.node.bases):
            self._note_unread(base, base)
        forward = self.facts.objects.method_of(owner, "forward")
        if forward is None:
            return
        self._enter(forward)
        for one in family:
            for method in one.methods.values():
                self._makes(method)

    def _makes(self, function: Function) -> None:
        if function in self._makers:
            return
        self._makers.add(function)
        for statement in function.body.statements:
            for inner in statement.descendants():
                for call in self.facts.tree.calls(inner):
                    self._note_callees(call)
                    self._made_by(call)

    def _by_name(self, call: cst.Call) -> None:
        """What a text may mean that is put together when the script runs."""
        meant = possibly_meant(self.facts, call)
        own = self.facts.tree.function_of(call)
        if meant is None:
            self.hidden.append(call)
        for name in meant or ():
            for maker in self._read(self._meant_by(name), call):
                if not maker.encloses(own):  # `eval(args.logger)` in `main()` is not main
                    self._makes(maker)

    def _made_by(self, call: cst.Call) -> None:
        """The modules that a call may make: an instance, or what a function builds, chosen from a table as well."""
        if is_by_name(call):
            self._by_name(call)
            return
        self._note_registered(call)
        if self.facts.objects.is_partial(call):
            self._bound_for_later(call)
        for owner in self._classes_of(call):
            self._class(owner)
        candidates = self.facts.objects.candidates(call)
        called = None if candidates else self._of_class(call.func)
        for function in candidates or ([called] if called is not None else self._functions_held(call.func)):
            if function.name != "__init__":
                self._makes(function)

    def _bound_for_later(self, partial: cst.Call) -> None:
        """`partial(self._padded, channels=8)`, made by a module, runs in its forward."""
        callee = partial.args[0].value
        for function in self._functions_held(callee):
            self._enter(function)
        for one in self.facts.objects.objects(callee) if isinstance(callee, cst.Attribute) else ():
            self._object(one, partial)

    def _note_registered(self, call: cst.Call) -> None:
        """What decorators put into the table that a call looks something up in."""
        for decorator in dict.fromkeys(registering(self.facts, call.func)):
            for name in self.facts.elsewhere.decorated(decorator):
                if self.facts.names.variable_behind(name) is None:
                    self.unread.setdefault(name, call)
        for name in imported(self.facts, call.func):
            if self.facts.elsewhere.source_of(name) is not None:
                self.unread.setdefault(name, call)
        if is_out_of_sight(self.facts, call.func):
            self.hidden.append(call)

    def _looked_up(self, one: Object) -> Iterator[Function]:
        """The methods that `getattr(nets, name)().loss` may mean, and what runs where an instance is called itself."""
        made = one.source.origin if one.kind in ("field", "call") else None
        name = str(one.origin) if one.kind == "field" else "__call__"
        callee = made.func if isinstance(made, cst.Call) and not is_by_name(made) else made
        for node in self._held(callee) if isinstance(callee, cst.BaseExpression) else ():
            owner = self.facts.tree.class_at[node] if isinstance(node, cst.ClassDef) else None
            method = self.facts.objects.method_of(owner, name) if owner is not None else None
            if method is not None:
                yield method

    def _of_class(self, callee: cst.BaseExpression) -> Function | None:
        """The method of `Builder.build_encoder(arch)`, called on the class."""
        if not isinstance(callee, cst.Attribute):
            return None
        held = [one.origin for one in self.facts.objects.objects(callee.value) if one.kind == "definition"]
        owners = [self.facts.tree.class_at[node] for node in held if isinstance(node, cst.ClassDef)]
        return owners[0].methods.get(callee.attr.value) if len(owners) == 1 else None

    def _classes_of(self, call: cst.Call) -> list[Class]:
        """The classes that a call may make, those that a variable holds among them: `block(planes, stride)`."""
        made = self.facts.objects.classes_made(call)
        held = [] if made else [node for callee in self._callees(call) for node in self._held(callee)]
        return made or [self.facts.tree.class_at[node] for node in held if isinstance(node, cst.ClassDef)]

    def _functions_held(self, callee: cst.BaseExpression) -> list[Function]:
        return [self.facts.tree.function_at[node] for node in self._held(callee) if isinstance(node, cst.FunctionDef)]

    def _held(self, callee: cst.BaseExpression) -> list[object]:
        """The definitions that a variable or table may hold: `ZOO[name]`, `getattr(models, name)`."""
        named = possibly_meant(self.facts, callee) if isinstance(callee, cst.Call) and is_by_name(callee) else []
        meant = [self._meant_by(name) for name in (*self._tables(callee), *(named or ()))]
        own = self.facts.tree.function_of(callee)
        functions = self.facts.tree.function_at
        held: list[object] = [
            node
            for one in meant
            for node in one.definitions
            if node not in functions or not functions[node].encloses(own)
        ]
        if isinstance(callee, (cst.Name, cst.Attribute, cst.Subscript)):
            held += [one.origin for one in self.facts.objects.objects(callee) if one.kind == "definition"]
        return list(dict.fromkeys(held))

    def _tables(self, callee: cst.BaseExpression) -> list[str]:
        """The full names of the modules that a callee, or what a variable holds that is called, is looked up in."""
        values = [callee, *(self.facts.objects.values_of(callee) if isinstance(callee, cst.Name) else ())]
        tables = [table for value in values if (table := table_of(value)) is not None]
        own = [
            self.facts.file_of(one).name for one in values if isinstance(one, cst.Subscript) and looks_up_global(one)
        ]
        held = modules_looked_up_in(self.facts, callee)
        return [*own, *held, *(name for table in tables for name in self._modules_meant(table))]

    def _modules_meant(self, table: cst.BaseExpression) -> list[str]:
        """The module that a name means, and those that a parameter is given: `config.make("arch", models)`."""
        name = self.facts.names.dotted(table)
        return [name] if name is not None else self.facts.objects.import_paths(table)

    def _meant_by(self, module: str) -> Meant:
        if module not in self._meant:
            self._meant[module] = meant_by(self.facts, module)
        return self._meant[module]

    def _callees(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What a call calls, as written, and what `functools.partial` was given under that name."""
        yield call.func
        if isinstance(call.func, (cst.Name, cst.Attribute)):
            for value in self.facts.objects.values_of(call.func):
                if isinstance(value, cst.Call) and called_name(value) == "partial" and value.args:
                    yield value.args[0].value

    @cached_property
    def _made(self) -> dict[Class, list[cst.Call]]:
        """The classes of which the unit makes instances, with the calls that do."""
        found: dict[Class, list[cst.Call]] = {}
        for statement in self.facts.tree.all_statements():
            for call in self.facts.tree.calls(statement):
                for owner in self._classes_of(call):
                    found.setdefault(owner, []).append(call)
        return found

    def _note_callees(self, call: cst.Call) -> None:
        for callee in self._callees(call):
            self._note_unread(call, callee)

    def _note_unread(self, call: cst.CSTNode, callee: cst.BaseExpression) -> None:
        table = callee
        while isinstance(table, cst.Subscript):  # `zoo.MODELS[name]`
            table = table.value
        held = self.facts.objects.import_paths(callee)  # of a table of imported classes, all
        for name in dict.fromkeys(map(self._called, [*self.facts.names.imported_as(table), *held])):
            self._note_name(call, name)
        for module in self._tables(callee):
            self.unread |= dict.fromkeys(self._meant_by(module).unread, call)
            self.hidden += self._meant_by(module).hidden
        called = self.facts.names.module(callee) if isinstance(callee, (cst.Name, cst.Attribute)) else None
        if called is not None:  # called, it is no module: the package has given its name to something else
            self.unread[dotted_text(callee)] = call

    def _note_name(self, call: cst.CSTNode, name: str) -> None:
        """The file of a name joins, or that of what it belongs to: `Config.network`, `NETS.get`. Of a method that is
        called on its class, both: `Net.from_pretrained` is inherited, and makes an instance of Net.
        """
        holder = name.rpartition(".")[0]
        known = [name, holder]
        is_of_data = _is_of_data(name.rpartition(".")[2])
        while _is_inside_module(name) and self.facts.elsewhere.source_of(name) is None:
            name = name.rpartition(".")[0]
        known += [name] if is_of_data else []  # `Config.speakers.index` of a class that is in the unit
        is_here = any(map(self.facts.names.variable_behind, known))
        if name not in self.unread and not is_here and self.facts.elsewhere.source_of(name) is not None:
            self.unread[name] = call
            if _is_inside_module(holder):
                self._note_name(call, holder)

    def _called(self, name: str) -> str:
        """What is called by the name of a module: `from .Net import Net` in a package makes its `Net` the class."""
        package, _, last = name.rpartition("/")
        own = f"{package}.{last}"
        return own if last.isidentifier() and self.facts.elsewhere.source_of(own) is not None else name


def _is_of_data(name: str) -> bool:
    return name in _OF_DATA or models.method(name) is not None


def _is_inside_module(name: str) -> bool:
    """True for the name of what a local module holds, not of the module itself."""
    return os.path.isabs(name) and "." in os.path.basename(name)


def _whole(one: Object) -> Object:
    """The expression that makes something among others: `nets, width = build(8)`, and then `nets["net"].encode(x)`."""
    return one.source if isinstance(one.source.origin, cst.BaseExpression) else one


def _switches_off(statement: Statement) -> bool:
    """True for `with autocast(enabled=False):`, whatever its spelling."""
    if not isinstance(statement.node, cst.With):
        return False
    calls = [item.item for item in statement.node.items if isinstance(item.item, cst.Call)]
    return any(
        called_name(call) == "autocast" and any(_is_false(arg.value) for arg in call.args if _is_enabled(arg))
        for call in calls
    )


def _is_enabled(arg: cst.Arg) -> bool:
    return arg.keyword is None or arg.keyword.value == "enabled"


def _is_false(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"
