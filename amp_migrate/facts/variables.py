"""What Python's scoping rules are about: scopes, the variables in them, and what binds those."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.tree import Class, Function, Statement

BindingKind = str  # import, assign, augment, for, with, except, param, def, class, match


@dataclasses.dataclass(eq=False)
class Binding:
    """One place that gives a variable a value.

    `value` is the expression that the value comes from and `selector` the way to it: `b` in
    `a, (b, c) = value` has the selector (1, 0). For a `for` clause the value is the iterable. `path` is the
    resolved name that an import binds.
    """

    kind: BindingKind
    node: cst.CSTNode
    statement: Statement | None
    value: cst.BaseExpression | None = None
    selector: tuple[int, ...] = ()
    path: str | None = None


@dataclasses.dataclass(eq=False)
class Variable:
    """A name in one scope, with everything that binds it and every place that reads it.

    `importers` are the imports of it in other files of the unit.
    """

    name: str
    scope: Scope
    bindings: list[Binding] = dataclasses.field(default_factory=list)
    loads: list[cst.Name] = dataclasses.field(default_factory=list)
    importers: list[Binding] = dataclasses.field(default_factory=list)

    @property
    def is_read(self) -> bool:
        """True where a file of the unit reads it, or imports it."""
        return bool(self.loads or self.importers)

    @property
    def import_path(self) -> str | None:
        """The resolved name that the variable is imported from, where all its imports agree."""
        path: str | None = None
        for binding in self.bindings:
            if binding.kind == "import":
                if path is not None and path != binding.path:
                    return None
                path = binding.path
        return path


@dataclasses.dataclass(eq=False)
class Scope:
    """The module, a function, a class body, a lambda or a comprehension."""

    parent: Scope | None
    owner: Function | Class | cst.CSTNode
    variables: dict[str, Variable] = dataclasses.field(default_factory=dict)
    redirects: dict[str, Scope] = dataclasses.field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        return isinstance(self.owner, Class)

    def variable(self, name: str) -> Variable:
        """The variable that a binding of `name` in this scope means (`global`, `nonlocal` obeyed)."""
        scope = self.redirects.get(name, self)
        return scope.variables.setdefault(name, Variable(name, scope))

    def lookup(self, name: str) -> Variable | None:
        """The variable that a read of `name` in this scope means; None for builtins and star imports."""
        if name in self.redirects:
            return self.redirects[name].variables.get(name)
        if name in self.variables:
            return self.variables[name]
        scope = self.parent
        while scope is not None:
            if not scope.is_class and name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None
