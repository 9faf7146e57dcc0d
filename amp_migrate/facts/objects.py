"""Questions about the objects of a unit: which may be which, what makes them, and where they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts.object import Object, ObjectSet, overlap
from amp_migrate.facts.points_to import PointsTo, items_under
from amp_migrate.facts.stores import ANY, Store, subscript_key
from amp_migrate.facts.targets import shown_at
from amp_migrate.facts.tree import Class, Function
from amp_migrate.facts.variables import Variable

_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


class Objects(PointsTo):
    """Points-to questions about the files of a unit."""

    def variable_objects(self, variable: Variable) -> ObjectSet:
        """Every object that a variable may mean."""
        return self._of_variable(variable)

    def may_be(self, node: cst.BaseExpression, candidates: Iterable[Object]) -> bool:
        """True where `node` may mean one of the objects; an unknown element may be any known one."""
        mine = self.objects(node)
        return any(overlap(one, other) for one in mine for other in candidates)

    def calls_behind(self, node: cst.BaseExpression) -> list[cst.Call]:
        """The calls that make what `node` may mean, in their order: `nn.MSELoss()` for `criterion`."""
        found = [one.origin for one in self.objects(node) if isinstance(one.origin, cst.Call)]
        return sorted(found, key=self._numbers.__getitem__) if len(found) > 1 else found

    @cached_property
    def _numbers(self) -> dict[object, int]:
        """All nodes, in the order of the files."""
        return {node: number for number, node in enumerate(self.tree.parents)}

    def paths_behind(self, node: cst.BaseExpression) -> list[str]:
        """The imported things that `node` may mean, or be made by: `metrics.Result` for `result = Result()`."""
        makers = [call.func for call in self.calls_behind(node)]
        return [path for one in (node, *makers) for path in self.import_paths(one)]

    def contents(self, node: cst.BaseExpression) -> frozenset[Object]:
        """The objects that an expression may mean; its elements for a list."""
        objects = self.objects(node)
        meant = frozenset(one for one in objects if one.kind != "display")
        return meant | self.elements(node) if len(meant) < len(objects) else meant

    def methods_of_instances(self, node: cst.BaseExpression, name: str) -> list[Function]:
        """The methods of a name that instances of the unit's classes have which `node` may mean."""
        roots = (one.origin for one in self.objects(node) if isinstance(one.origin, Class))
        found = (self.method_of(cls, name) for root in roots for cls in self.derived(root))
        return list(dict.fromkeys(one for one in found if one is not None))

    def function_handed_over(self, node: cst.BaseExpression) -> Function | None:
        """The function that is given to somebody who calls it: `join`, and `self.join` in a method."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return None
        around = self.tree.function_of(node)
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and around.owner is not None:
            if node.value.value == around.receiver:
                return self.method_of(around.owner, node.attr.value)
        return self.function_named(node)

    def functions_given(self, node: cst.BaseExpression) -> list[Function]:
        """The functions and lambdas of the unit that an expression may mean; none where one of them is not in sight."""
        method = self.function_handed_over(node) if isinstance(node, cst.Attribute) else None
        if method is not None:
            return [method]
        origins = self.origins(node)
        found = [self.tree.function_at[one] for one in origins if isinstance(one, (cst.FunctionDef, cst.Lambda))]
        return found if len(found) == len(origins) else []

    def stores_of(self, field: str) -> list[Store]:
        """Every store to an attribute of that name, whatever the object."""
        return self._stores.to(field)

    def parts_held(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """`torch.device("cuda")` for `device` in `device, ids = prepare()`, where `prepare` returns a tuple of both,
        and for `settings["device"]`, where a dict is written out with it.
        """
        found: list[cst.BaseExpression] = []
        if isinstance(node, cst.Subscript) and (key := subscript_key(node)) != ANY:
            found += [value for one in self.objects(node.value) for value in items_under(one.origin, key)]
        for value, selector in self.unpacked(node):
            called = self.called_function(value) if isinstance(value, cst.Call) else None
            returned = self.returned_by(called) if called is not None and selector else []
            found += [shown for one in returned if (shown := shown_at(one, selector)) is not None]
        return found

    def unpacked(self, node: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, tuple[int, ...]]]:
        """What is assigned to several targets of which a name or an attribute is one, with its place among them."""
        variable = self.names.definition(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        for binding in variable.bindings if variable is not None else ():
            if binding.kind == "assign" and binding.value is not None:
                yield binding.value, binding.selector
        if variable is None and isinstance(node, cst.Attribute):
            bases = self.objects(node.value)
            for store in self._stores.to(node.attr.value):
                if bases & self.objects(store.base):
                    yield store.value, store.selector

    def is_kept(self, call: cst.Call, arg: cst.Arg) -> bool:
        """True for the model in `objs = Munch(model=model)`, read back as `objs.model`."""
        readers = self._stores.readers(arg.keyword.value) if arg.keyword is not None else []
        return any(one.origin is call for base in readers for one in self.objects(base))

    def all_stores(self) -> Iterable[tuple[str, list[Store]]]:
        """Every attribute name and element key that is stored to, with the stores."""
        return self._stores.all()

    def only_instance(self, call: cst.Call) -> Class | None:
        """The root class of the instance that a call makes, where nothing else of that family is made in the unit."""
        roots = {self.root_class(one) for one in self.classes_made(call)}
        return roots.pop() if len(roots) == 1 and all(len(self.family_makers[root]) == 1 for root in roots) else None

    def is_made_repeatedly(self, one: Object) -> bool:
        """True where one expression makes several objects that are all this one: in a loop, in a comprehension, in a
        class of several instances.
        """
        origin = one.source.origin
        if isinstance(origin, Class):
            return len(self.family_makers.get(origin, [])) > 1
        calls = [call for call in one.source.calls if isinstance(call, cst.Call)]
        place = origin if isinstance(origin, cst.Call) else None
        seen: set[Function] = set()
        while place is not None:
            function = self.tree.function_of(place)
            if self._is_in_loop(place) or function in seen:
                return True
            seen.add(function)
            callers = [call for call, _ in self.possible_callers(function)] if not function.is_module else []
            ways = [call for call in callers if call in calls] or callers
            if len(ways) > 1:
                return True
            place = ways[0] if ways else None
        return False

    def _is_in_loop(self, node: cst.Call) -> bool:
        if any(outer.is_loop for outer in self.tree.statement_of(node).path()):
            return True
        part: cst.CSTNode | None = node
        while part is not None and not isinstance(part, cst.BaseSmallStatement):
            if isinstance(part, _COMPREHENSIONS):
                return True
            part = self.tree.parents.get(part)
        return False

    @cached_property
    def makers(self) -> dict[Class, list[cst.Call]]:
        """The calls that make an instance of a class, by the class; a call stands with each that it may make."""
        found: dict[Class, list[cst.Call]] = {}
        for call, _ in self.tree.every(cst.Call):
            for owner in self.classes_made(call):
                found.setdefault(owner, []).append(call)
        return found

    @cached_property
    def family_makers(self) -> dict[Class, list[cst.Call]]:
        """The same by the root class, by which instances are known."""
        found: dict[Class, dict[cst.Call, None]] = {}
        for owner, calls in self.makers.items():
            found.setdefault(self.root_class(owner), {}).update(dict.fromkeys(calls))
        return {root: list(calls) for root, calls in found.items()}
