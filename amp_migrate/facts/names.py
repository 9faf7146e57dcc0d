"""Python's scoping rules over the statement tree: which variable does a name mean?"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.facts.rebound import First, meant_at_first
from amp_migrate.facts.source_file import SourceFile
from amp_migrate.facts.targets import targets_given
from amp_migrate.facts.tree import Class, Function, Statement, Tree, children
from amp_migrate.facts.variables import Binding, BindingKind, Scope, Variable

_ALWAYS_THERE = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__path__", "__class__"}
# Most expressions are made of these, which bind nothing and open no scope.
_TRANSPARENT = frozenset((cst.Call, cst.AssignTarget, cst.Element, cst.Integer, cst.Float, cst.SimpleString))


class Names:
    """The variable behind every name of the files of a unit."""

    def __init__(self, tree: Tree, files: Sequence[SourceFile], elsewhere: Elsewhere) -> None:
        self.tree = tree
        self.elsewhere = elsewhere
        self.scopes: dict[Function | Class | cst.CSTNode, Scope] = {}
        self.star_imports: dict[Function, list[str]] = {}
        self._stars_of_apex: list[tuple[Statement, str]] = []
        self._paths = {root: file.path for root, file in zip(tree.roots, files, strict=True)}
        self._roots = {file.name: root for root, file in zip(tree.roots, files, strict=True)}
        self._from_packages: dict[tuple[Function, str], Variable | None] = {}
        self._dotted: dict[cst.CSTNode, str | None] = {}  # what everybody asks, of the same nodes again and again
        self._stores: set[cst.CSTNode] = set()
        self._variable_at: dict[cst.CSTNode | None, Variable] = {}
        self._pending: list[tuple[cst.Name, Scope]] = []
        self._meant_at_first: list[Variable] = []
        for function in tree.functions:
            self._declare(function)
        for statement in tree.all_statements():
            self._visit_statement(statement)
        for statement, module in self._stars_of_apex:
            self._bind_names_of_apex(statement, module)
        for name, scope in self._pending:
            variable = scope.lookup(name.value) or self.star_imported(name.value, tree.root_of(name))
            if variable is not None:
                self._variable_at[name] = variable
                variable.loads.append(name)
        for variable in list(self.all_variables()):
            self._split(variable)
        self._link_imports()

    def variable_at(self, name: cst.CSTNode | None) -> Variable | None:
        """The variable that a name node reads or binds; None for builtins, unresolved names and other nodes."""
        return self._variable_at.get(name)

    def binds(self, name: cst.CSTNode) -> bool:
        """True for a name that stands where something is assigned to it."""
        return name in self._stores

    def used_elsewhere(self, variable: Variable) -> bool:
        """True for a global that files outside of the unit refer to."""
        path = self._paths.get(variable.scope.owner) if isinstance(variable.scope.owner, Function) else None
        return path is not None and self.elsewhere.use_function(path, variable.name)

    def bindings_at(self, name: cst.CSTNode | None) -> list[Binding]:
        """What binds the variable that a name node means."""
        variable = self.variable_at(name)
        return variable.bindings if variable is not None else []

    def loads_at(self, name: cst.CSTNode | None) -> list[cst.Name]:
        """What reads the variable that a name node means."""
        variable = self.variable_at(name)
        return variable.loads if variable is not None else []

    def loads_visible(self, name: str, function: Function) -> list[cst.Name]:
        """What reads the variable that `name` would mean if it were read in `function`."""
        variable = self.visible(name, function)
        return variable.loads if variable is not None else []

    def scope_of(self, function: Function) -> Scope:
        return self.scopes[function]

    def visible(self, name: str, function: Function) -> Variable | None:
        """What `name` would mean if it were read in `function`."""
        return self.scope_of(function).lookup(name)

    def dotted(self, node: cst.CSTNode) -> str | None:
        """The full resolved name of an imported thing: `nn.Linear` -> `torch.nn.Linear`."""
        if type(node) is not cst.Name and type(node) is not cst.Attribute:
            return None
        try:
            return self._dotted[node]
        except KeyError:
            found = self._dotted[node] = self._resolved(node)
            return found

    def _resolved(self, node: cst.Name | cst.Attribute) -> str | None:
        if isinstance(node, cst.Name):
            variable = self.variable_at(node)
            return self.followed(variable.import_path) if variable is not None else None
        base = self.dotted(node.value)
        member = self.elsewhere.member(base, node.attr.value) if base is not None else None
        return self.followed(self._attribute(member)) if member is not None else None

    def followed(self, path: str | None) -> str | None:
        """A resolved name, through the imports of it in other files: `compat.amp` -> `apex.amp`."""
        seen = set()
        while path is not None and path not in seen:
            seen.add(path)
            found = self.variable_behind(path)
            if found is None or found.import_path is None:
                break
            path = found.import_path
        return path

    def variable_behind(self, path: str) -> Variable | None:
        """The variable at the top of a module of the unit that a resolved name means."""
        module, _, name = path.rpartition(".")
        root = self._roots.get(module)
        if root is None:
            return None
        return self.scopes[root].variables.get(name) or self.star_imported(name, root)

    def module(self, node: cst.BaseExpression) -> Function | None:
        """The module of the unit that an expression means."""
        path = self.dotted(node)
        return self.module_named(path) if path is not None else None

    def module_named(self, path: str) -> Function | None:
        """The module of the unit with a full name."""
        return self._roots.get(path)

    def imported_by(self, node: cst.CSTNode, name: str) -> str:
        """The full name of what the file around a node gets where it imports a name."""
        return self.elsewhere.resolved(self._paths[self.tree.root_of(node)], name)

    def modules_imported(self, statement: Statement) -> Iterator[Function]:
        """The modules of the unit that an import statement means, or means something of."""
        node, importer = statement.node, self._paths[statement.function.root]
        assert isinstance(node, (cst.Import, cst.ImportFrom))
        module = "" if isinstance(node, cst.Import) else _written_module(node)
        written = [] if isinstance(node.names, cst.ImportStar) else [dotted_text(one.name) for one in node.names]
        if module and not module.endswith("."):
            written = [module, *(f"{module}.{name}" for name in written)]
        elif module:
            written = [f"{module}{name}" for name in written] or [module]
        for name in written:
            path = self.elsewhere.resolved(importer, name)
            root = self._roots.get(path) or self._roots.get(path.rpartition(".")[0])
            if root is not None:
                yield root

    def definition(self, node: cst.BaseExpression) -> Variable | None:
        """The variable that a name finally means, or an attribute of a module: where it is not just imported."""
        if type(node) is cst.Attribute:
            path = self.dotted(node)
            return self.variable_behind(path) if path is not None else None
        variable = self.variable_at(node)
        return self.source(variable) if variable is not None else None

    def source(self, variable: Variable) -> Variable:
        """The variable of the unit that an imported one stands for; every other one itself."""
        seen = {variable}
        while (path := variable.import_path) is not None:
            if any(binding.kind != "import" for binding in variable.bindings):
                break
            found = self.variable_behind(path)
            if found is None or found in seen:
                break
            seen.add(found)
            variable = found
        return variable

    def imported_as(self, node: cst.CSTNode) -> list[str]:
        """The dotted names that an expression may stand for: its own, or those that star imports would give it."""
        dotted = self.dotted(node)
        if dotted is not None:
            return [dotted]
        root = _first_name(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        if root is None or not isinstance(root, cst.Name) or self.variable_at(root) is not None:
            return []
        assert isinstance(node, (cst.Name, cst.Attribute))
        return [f"{module}.{dotted_text(node)}" for module in self.star_imports.get(self.tree.root_of(node), [])]

    def is_unbound(self, name: cst.Name) -> bool:
        """True where neither the file nor Python defines a name; a star import may."""
        variable = self.variable_at(name)
        return (variable is None or not variable.bindings) and name.value not in _ALWAYS_THERE

    def unbound_root(self, node: cst.BaseExpression) -> str | None:
        """The name that an expression begins with, `amp` of `amp.scale_loss`, where certainly nothing binds it."""
        root = _first_name(node)
        may_be_bound = not isinstance(root, cst.Name) or self.star_imports.get(self.tree.root_of(node))
        return root.value if isinstance(root, cst.Name) and not may_be_bound and self.is_unbound(root) else None

    def behind_star(self, name: cst.Name) -> str | None:
        """The full name of what a star import of a local file outside of the unit gives a name."""
        return next(filter(self.elsewhere.is_there, self.imported_as(name)), None)

    def all_variables(self) -> Iterator[Variable]:
        for scope in self.scopes.values():
            yield from scope.variables.values()
        yield from self._meant_at_first

    def variables_of(self, statement: Statement) -> list[Variable]:
        """The variables that an import statement binds, those of a known star import included."""
        scope = self._scope_at(statement)
        variables = (*scope.variables.values(), *(one for one in self._meant_at_first if one.scope is scope))
        return [one for one in variables if any(binding.statement is statement for binding in one.bindings)]

    def star_imported(self, name: str, root: Function, seen: frozenset[Function] = frozenset()) -> Variable | None:
        """What a star import of another file of the unit gives a name, the last one that does; with an underscore,
        where `__all__` has it.
        """
        for module in reversed(self.star_imports.get(root, [])):
            source = self._roots.get(module)
            if source is not None and source is not root and source not in seen and self._hands_on(source, name):
                found = self.scopes[source].variables.get(name) or self.star_imported(name, source, seen | {root})
                if found is not None:
                    return found
        is_public = not name.startswith("_")
        return self._of_package(name, root) if is_public and root in self.star_imports else None

    def global_variables(self, root: Function) -> list[Variable]:
        """The variables of a file, and those that its star imports of other files of the unit bring along."""
        sources = [self._roots.get(module) for module in self.star_imports.get(root, [])]
        names = {name for source in sources if source is not None for name in self.scopes[source].variables}
        own = self.scopes[root].variables
        brought = [self.star_imported(name, root) for name in sorted(names - own.keys())]
        return [*own.values(), *(one for one in brought if one is not None)]

    def _hands_on(self, root: Function, name: str) -> bool:
        """True for what `from module import *` binds: the names in its `__all__`, else those without an underscore."""
        listed = self.scopes[root].variables.get("__all__")
        values = [binding.value for binding in listed.bindings] if listed is not None else []
        lists = [value for value in values if isinstance(value, (cst.List, cst.Tuple))]
        parts = [one.value for value in lists for one in value.elements]
        names = [part.evaluated_value for part in parts if isinstance(part, cst.SimpleString)]
        is_all = len(values) == len(lists) == 1 and len(names) == len(parts)
        return name in names or (not name.startswith("_") and (listed is None or not is_all))

    def _of_package(self, name: str, root: Function) -> Variable | None:
        """The `torch` that a star import of a module on disk brings along; its variable is in no scope of the unit."""
        if (root, name) not in self._from_packages:
            found = None
            for module in self.star_imports[root]:
                path = self.elsewhere.package_behind(module, name)
                if path is not None and path.partition(".")[0] != "apex":
                    found = Variable(name, self.scopes[root], [Binding("import", root.node, None, path=path)])
            self._from_packages[root, name] = found
        return self._from_packages[root, name]

    def _attribute(self, path: str) -> str:
        """What the path of a submodule means where its package has a name of its own for it.

        `from .train import train` in a package makes its `train` the function, however it is imported.
        """
        folder, name = os.path.split(path)
        own = f"{folder}.{name}"
        variable = self.variable_behind(own) if name.isidentifier() else None
        return path if variable is None or variable.import_path == path else own

    def _split(self, variable: Variable) -> None:
        """`model = model.NCF()`, or a `def` after an import: what it is at first becomes a variable of its own."""
        while (first := self._at_first(variable)) is not None:
            other = Variable(variable.name, variable.scope, first.bindings, first.loads)
            variable.bindings = [binding for binding in variable.bindings if binding not in first.bindings]
            variable.loads = [load for load in variable.loads if load not in first.loads]
            self._variable_at |= dict.fromkeys(first.loads, other)
            self._meant_at_first.append(other)

    def _at_first(self, variable: Variable) -> First | None:
        path = variable.bindings[0].path if variable.bindings else None
        if len(variable.bindings) < 2 or (path is not None and path in [one.path for one in variable.bindings[1:]]):
            return None
        is_read = path is not None and self.elsewhere.is_there(path)
        return meant_at_first(
            self.tree, variable, lambda name: not is_read or self.elsewhere.is_there(f"{path}.{name}")
        )

    def _link_imports(self) -> None:
        for variable in self.all_variables():
            for binding in variable.bindings:
                if binding.path is not None:
                    binding.path = self._attribute(binding.path)
        for variable in self.all_variables():
            for binding in variable.bindings:
                found = self.variable_behind(binding.path) if binding.path is not None else None
                if found is not None:
                    found.importers.append(binding)

    def _declare(self, function: Function) -> None:
        if function.is_module:
            self.scopes[function] = Scope(None, function)
            return
        if function.is_lambda:
            return  # its scope may be in that of a comprehension
        parent = self._holder_scope(function)
        scope = Scope(parent, function)
        self.scopes[function] = scope
        for declaration in _declarations(function):
            target = self.scopes[function.root]
            if isinstance(declaration, cst.Nonlocal) and parent is not None:
                target = parent
            for item in declaration.names:
                scope.redirects[item.name.value] = target
        self._bind_parameters(function)

    def _bind_parameters(self, function: Function) -> None:
        params = function.signature
        stars = [star for star in (params.star_arg, params.star_kwarg) if isinstance(star, cst.Param)]
        for param in (*function.parameters, *stars):
            self._bind(self.scopes[function], param.name, Binding("param", param, None, param.default))

    def _holder_scope(self, function: Function) -> Scope | None:
        if function.owner is not None:
            return self._class_scope(function.owner)
        return self.scopes[function.parent] if function.parent is not None else None

    def _class_scope(self, owner: Class) -> Scope:
        if owner not in self.scopes:
            self.scopes[owner] = Scope(self.scopes[owner.scope], owner)
        return self.scopes[owner]

    def _scope_at(self, statement: Statement) -> Scope:
        block = statement.block
        while block.owner is not None:
            if isinstance(block.owner.node, cst.ClassDef):
                return self._class_scope(self.tree.class_at[block.owner.node])
            block = block.owner.block
        return self.scopes[statement.function]

    def _bind(self, scope: Scope, name: cst.Name, binding: Binding) -> None:
        variable = scope.variable(name.value)
        variable.bindings.append(binding)
        self._variable_at[name] = variable
        self._stores.add(name)

    def _visit_statement(self, statement: Statement) -> None:
        scope = self._scope_at(statement)
        node = statement.node
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            self._bind_import(scope, node, statement)
            return
        if isinstance(node, (cst.Global, cst.Nonlocal)):
            return
        if isinstance(node, cst.Assign):
            for assign_target in node.targets:
                self._bind_targets(scope, assign_target.target, "assign", statement, node.value)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self._bind_targets(scope, node.target, "assign", statement, node.value)
        elif isinstance(node, cst.AugAssign):
            self._bind_targets(scope, node.target, "augment", statement, node.value)
        elif isinstance(node, cst.For):
            self._bind_targets(scope, node.target, "for", statement, node.iter)
        elif isinstance(node, cst.With):
            for item in node.items:
                if item.asname is not None:
                    self._bind_targets(scope, item.asname.name, "with", statement, item.item)
        elif isinstance(node, (cst.Try, cst.TryStar)):
            for handler in node.handlers:
                if handler.name is not None:
                    self._bind_targets(scope, handler.name.name, "except", statement, None)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            kind = "def" if isinstance(node, cst.FunctionDef) else "class"
            self._bind(scope, node.name, Binding(kind, node, statement))
        for part in self.tree.expressions(statement) if isinstance(node, cst.Match) else ():
            if isinstance(part, (cst.MatchAs, cst.MatchStar)) and part.name is not None:
                self._bind(scope, part.name, Binding("match", part, statement))
        self._visit_reads(node, scope, statement)

    def _visit_reads(self, node: cst.CSTNode, scope: Scope, statement: Statement) -> None:
        for child in children(node):
            if isinstance(child, (cst.BaseSuite, cst.Else, cst.Finally)):
                continue
            if isinstance(child, cst.If) and isinstance(node, cst.If):
                continue
            self._visit_expression(child, scope, statement)

    def _visit_expression(self, node: cst.CSTNode, scope: Scope, statement: Statement) -> None:
        """Queue the reads below `node`; comprehensions and lambdas open scopes of their own."""
        if type(node) is cst.Name:
            if node not in self._stores:
                self._pending.append((node, _scope_of_read(node, scope, statement)))
        elif type(node) is cst.Attribute or type(node) is cst.Arg:
            self._visit_expression(node.value, scope, statement)
        elif type(node) in _TRANSPARENT:
            for child in children(node):
                self._visit_expression(child, scope, statement)
        elif isinstance(node, cst.Param):
            for part in (node.default, node.annotation):
                if part is not None:
                    self._visit_expression(part, scope, statement)
        elif isinstance(node, cst.NamedExpr):
            self._visit_expression(node.value, scope, statement)
            self._bind_targets(_statement_scope(scope), node.target, "assign", statement, node.value)
        elif isinstance(node, cst.Lambda):
            function = self.tree.function_at[node]
            self.scopes[function] = Scope(scope, function)
            self._bind_parameters(function)
            for param in function.parameters:
                if param.default is not None:
                    self._visit_expression(param.default, scope, statement)
        elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
            self._visit_comprehension(node, scope, statement)
        else:
            if isinstance(node, (cst.ExceptHandler, cst.ExceptStarHandler)):
                if node.type is not None:
                    self._visit_expression(node.type, scope, statement)
                return
            for child in children(node):
                if not isinstance(child, (cst.BaseSuite, cst.BaseCompoundStatement)):
                    self._visit_expression(child, scope, statement)

    def _visit_comprehension(
        self,
        node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp,
        scope: Scope,
        statement: Statement,
    ) -> None:
        inner = Scope(scope, node)
        self.scopes[node] = inner
        clause: cst.CompFor | None = node.for_in
        outer = scope
        while clause is not None:
            self._visit_expression(clause.iter, outer, statement)
            self._bind_targets(inner, clause.target, "for", statement, clause.iter)
            self._visit_expression(clause.target, inner, statement)
            for condition in clause.ifs:
                self._visit_expression(condition.test, inner, statement)
            clause = clause.inner_for_in
            outer = inner
        parts = (node.key, node.value) if isinstance(node, cst.DictComp) else (node.elt,)
        for part in parts:
            self._visit_expression(part, inner, statement)

    def _bind_targets(
        self,
        scope: Scope,
        target: cst.BaseExpression,
        kind: BindingKind,
        statement: Statement,
        value: cst.BaseExpression | None,
    ) -> None:
        for one, given, selector in targets_given(target, value, of_each=kind == "for"):
            if isinstance(one, cst.Name):
                self._bind(scope, one, Binding(kind, one, statement, given, selector))

    def _bind_import(self, scope: Scope, node: cst.Import | cst.ImportFrom, statement: Statement) -> None:
        importer = self._paths[statement.function.root]
        if isinstance(node, cst.Import):
            for alias in node.names:
                written = dotted_text(alias.name)
                if alias.asname is None:
                    written = written.split(".")[0]
                path = self.elsewhere.resolved(importer, written)
                self._bind(scope, bound_name(alias), Binding("import", node, statement, path=path))
            return
        module = _written_module(node)
        if isinstance(node.names, cst.ImportStar):
            path = self.elsewhere.resolved(importer, module)
            self.star_imports.setdefault(statement.function.root, []).append(path)
            if path in APEX_EXPORTS:
                self._stars_of_apex.append((statement, path))
            return
        for alias in node.names:
            separator = "" if module.endswith(".") else "."
            path = self.elsewhere.resolved(importer, f"{module}{separator}{dotted_text(alias.name)}")
            self._bind(scope, bound_name(alias), Binding("import", node, statement, path=path))

    def _bind_names_of_apex(self, statement: Statement, module: str) -> None:
        """`from apex import *` binds what the module has, but for names that the file gives another meaning.

        What stands in the handler of a `try` around the import (`amp = None`) is another meaning beside it.
        """
        scope = self._scope_at(statement)
        for name in APEX_EXPORTS[module]:
            known = scope.variables.get(name)
            if known is None or all(_is_beside(binding, statement) for binding in known.bindings):
                binding = Binding("import", statement.node, statement, path=f"{module}.{name}")
                scope.variable(name).bindings.append(binding)


def _is_beside(binding: Binding, statement: Statement) -> bool:
    """True for what is bound in another arm of a `try` that a statement stands in, or by a star import as well."""
    if binding.statement is None:
        return False
    if isinstance(binding.node, cst.ImportFrom) and isinstance(binding.node.names, cst.ImportStar):
        return True
    attempt = statement.block.owner
    if attempt is None or not isinstance(attempt.node, (cst.Try, cst.TryStar)):
        return False
    return binding.statement.inside(attempt)


def _written_module(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + (dotted_text(node.module) if node.module is not None else "")


def dotted_text(node: cst.BaseExpression) -> str:
    """`a.b.c` for the attribute chain a.b.c as written."""
    if isinstance(node, cst.Attribute):
        return f"{dotted_text(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def bound_name(alias: cst.ImportAlias) -> cst.Name:
    """The name that an import binds: `a` in `import a.b`, `c` in `import a.b as c`."""
    name = _first_name(alias.asname.name if alias.asname is not None else alias.name)
    assert isinstance(name, cst.Name)
    return name


def _first_name(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node


def _scope_of_read(name: cst.Name, scope: Scope, statement: Statement) -> Scope:
    """The body of a class does not see itself: in `amp = amp` the second one comes from outside."""
    if not scope.is_class:
        return scope
    node = statement.node
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else []
    sets = any(isinstance(target, cst.Name) and target.value == name.value for target in targets)
    return scope.parent if sets and scope.parent is not None else scope


def _statement_scope(scope: Scope) -> Scope:
    """A walrus in a comprehension binds in the scope around it (PEP 572)."""
    while not isinstance(scope.owner, (Function, Class)) and scope.parent is not None:
        scope = scope.parent
    return scope


def _declarations(function: Function) -> Iterator[cst.Global | cst.Nonlocal]:
    for statement in function.body.statements:
        for inner in statement.descendants():
            if isinstance(inner.node, (cst.Global, cst.Nonlocal)):
                yield inner.node
