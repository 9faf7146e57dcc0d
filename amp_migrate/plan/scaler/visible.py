"""How to write, in one function, a value that is known by its expression in another."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.identity import Key
from amp_migrate.facts.reaching import is_certain
from amp_migrate.facts.tree import Class, Function, Statement, atom, children, is_atom
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.plan.scaler.latch import is_changed_later, stores_on


class Visible:
    """Finds names and attributes that certainly mean a given value where it is needed."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._attributes = self._self_attributes()
        self._open: set[cst.BaseExpression] = set()  # what calls on the way to a value give

    def express(self, node: cst.BaseExpression, function: Function, at: Statement | None = None) -> str | None:
        """The text that means in `function` what `node` means where it stands; None if there is none.

        With `at`, names that are bound in the function itself must be bound before that statement. What a test gives a
        name on its way, it gives it where it stands: `fp16` for `(on := fp16)`.
        """
        replacements: dict[cst.CSTNode, str] = {}
        stack: list[cst.CSTNode] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, cst.NamedExpr):
                text = self.express(part.value, function, at)
                if text is None:
                    return None
                replacements[part] = text if is_atom(part.value) or part is node else f"({text})"
                continue
            if _names_a_variable(part) and not self.facts.tree.is_label(part):
                assert isinstance(part, cst.BaseExpression)
                text = self._express_variable(part, function, at)
                if text is None:
                    return None
                replacements[part] = text
                continue
            stack.extend([part.value] if isinstance(part, cst.Attribute) else children(part))
        return self._render(node, replacements)

    def _express_variable(self, node: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        if isinstance(node, cst.Name) and self.facts.names.variable_at(node) is None and hasattr(builtins, node.value):
            is_of_file = node.value.startswith("__") and self.facts.tree.root_of(node) is not function.root
            return None if is_of_file else node.value  # `__name__` is another one in each file
        key = self.facts.identity.key(node)
        if key is None:
            if isinstance(node, (cst.Attribute, cst.Subscript)):
                base = self._express_variable(node.value, function, at)
                text, whole = self.facts.text(node.value), self.facts.text(node)
                return base + whole[len(text) :] if base is not None and whole.startswith(text) else None
            return None
        if self._same_here(node, key, function, at):
            return self.facts.text(node)
        return (
            self._from_key(key, function, at)
            or self._with_the_same_value(node, function, at)
            or self._as_given(node, function, at)
            or self._as_tested(node, function, at)
            or self._as_made(node, function, at)
        )

    def _as_tested(self, node: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        """For the name of a test in a function that leads here what it stands for: `torch.cuda.is_available()` for
        `use_cuda`.
        """
        variable = self.facts.names.definition(node)
        owner = variable.scope.owner if variable is not None else None
        if owner is function or (isinstance(owner, Function) and not self.facts.calls.leads_to(owner, function)):
            return None  # another program's, or one that is bound here, later
        test = self.facts.conditions.test_behind(node)
        return self._through(test, function, at) if test is not None else None

    def _as_made(self, node: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        """For the device that a function below makes of what it is given, the same made here: `torch.device(name)`."""
        variable = self.facts.names.definition(node)
        binding = variable.bindings[0] if variable is not None and len(variable.bindings) == 1 else None
        owner = variable.scope.owner if variable is not None else None
        made = binding.value if binding is not None else None
        if not isinstance(made, cst.Call) or self.facts.names.dotted(made.func) != "torch.device":
            return None
        is_below = isinstance(owner, Function) and owner is not function and self.facts.calls.leads_to(function, owner)
        return self._through(made, function, at) if is_below else None

    def _as_given(self, node: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        """For a parameter of another function what this one gives it, itself or through what it calls: of several
        scripts each has a device.
        """
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            base = self._as_given(node.value, function, at)
            return self.facts.text(node).replace(self.facts.text(node.value), base, 1) if base is not None else None
        variable = self.facts.names.definition(node) if isinstance(node, cst.Name) else None
        param = variable.bindings[0].node if variable is not None and len(variable.bindings) == 1 else None
        callee = variable.scope.owner if variable is not None else None
        if not isinstance(param, cst.Param) or not isinstance(callee, Function) or callee is function:
            return None
        below = set(self.facts.calls.reachable(function))
        calls = [call for call, statement in self.facts.objects.callers(callee) if statement.function in below]
        given = [self.facts.objects.argument(call, callee, param) for call in calls]
        texts = {self._through(arg.value, function, at) if arg is not None else None for arg in given}
        return texts.pop() if len(texts) == 1 else None

    def _through(self, given: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        """What a call gives on the way from a function, which may call itself."""
        if given in self._open:
            return None
        self._open.add(given)
        try:
            return self.express(given, function, at)
        finally:
            self._open.discard(given)

    def _with_the_same_value(self, node: cst.BaseExpression, function: Function, at: Statement | None) -> str | None:
        """A global of this module that is made as that of another one is: `use_cuda = torch.cuda.is_available()`."""
        source = self.facts.names.definition(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        value = _only_value(source) if source is not None else None
        if value is None or isinstance(value, (cst.Name, cst.Attribute)):
            return None
        text = self.express(value, function, at)
        for variable in self.facts.names.scope_of(function.root).variables.values():
            own = _only_value(variable)
            is_seen = self.facts.names.visible(variable.name, function) is variable
            if own is not None and is_seen and text == self.facts.text(own):
                return variable.name if self._bound_before(variable, function, at) else None
        return None

    def _same_here(self, node: cst.BaseExpression, key: Key, function: Function, at: Statement | None) -> bool:
        """True where the very same text means the same thing in `function`."""
        root, field = node, ""
        while isinstance(root, (cst.Attribute, cst.Subscript)):
            field = root.attr.value if isinstance(root, cst.Attribute) else ""
            root = root.value
        if not isinstance(root, cst.Name):
            return False
        own = function.receiver == root.value
        if own and field and not self._is_set(field, function, at):
            return False
        names = self.facts.names
        variable = names.visible(root.value, function) or names.star_imported(root.value, function.root)
        mine = names.variable_at(root)
        if variable is None:
            return mine is None
        if mine is None or not self._bound_before(variable, function, at):
            return False
        return variable is mine or self.facts.identity.variable_key(variable) == self.facts.identity.key(root)

    def _search(self, key: Key, function: Function, at: Statement | None) -> Iterator[str]:
        for current in function.around:
            for variable in self.facts.names.scope_of(current).variables.values():
                if self.facts.names.visible(variable.name, function) is not variable:
                    continue
                if self.facts.identity.variable_key(variable) == key and self._bound_before(variable, function, at):
                    yield variable.name
        if function.instance is not None and function.name != "__init__":
            for name, attribute in self._attributes:
                is_same = self.facts.identity.key(attribute) == key and self._same_class(attribute, function)
                if is_same and self._is_lasting(function.owner, name, function):
                    yield f"{function.instance}.{name}"

    def _from_key(self, key: Key, function: Function, at: Statement | None) -> str | None:
        """A name for the value itself, or for what it is an attribute of: `self.args.amp`."""
        found = next(self._search(key, function, at), None)
        if found is not None:
            return found
        if key[0] == "self":
            return self._receiver(key, function)
        if key[0] != "field" or not isinstance(key[1], tuple):
            return None
        base = self._from_key(key[1], function, at)
        field = str(key[2])
        if base is None or (key[1][0] == "self" and not self._is_set(field, function, at)):
            return None
        if key[1][0] == "self" and isinstance(key[1][1], Class) and not self._is_lasting(key[1][1], field, function):
            return None
        return f"{base}{field}" if field.startswith("[") else f"{base}.{field}"

    def _receiver(self, key: Key, function: Function) -> str | None:
        method = function.method
        if method is None or method.owner is None:
            return None
        return method.instance if self.facts.objects.root_class(method.owner) is key[1] else None

    def _is_set(self, name: str, function: Function, at: Statement | None) -> bool:
        """True where an attribute of `self` certainly has its value: set before `at` where the function sets it, and
        for good in `__init__`.
        """
        own = [store.statement for store in self.facts.objects.stores_of(name) if store.statement.function is function]
        is_early = at is None or not own or any(store.order < at.order for store in own)
        if function.name != "__init__" or function.owner is None:
            return is_early and (bool(own) or self._is_lasting(function.owner, name, function))
        if own:
            return is_early and not is_changed_later(self.facts, function, name)
        from_elsewhere = len(self.facts.objects.bases(function.owner)) < len(function.owner.node.bases)
        return from_elsewhere and not self.facts.objects.stores_of(name)

    def _is_lasting(self, owner: Class | None, field: str, function: Function) -> bool:
        """False for what has no value before a caller has run a method for it, but where that is read anyway; and
        outside of the class for a placeholder that a method replaces.
        """
        init = owner.methods.get("__init__") if owner is not None else None
        if owner is None or init is None:
            return True
        root, scope = self.facts.objects.root_class(owner), self.facts.names.scopes[owner]
        is_outside = function.owner is None or self.facts.objects.root_class(function.owner) is not root
        if is_outside and is_changed_later(self.facts, init, field):
            return False
        stores = stores_on(self.facts, root, field)
        setting = {store.statement.function for store in stores}
        first = [literal_value(store.value) for store in stores if store.statement.function is init]
        is_replaced = None in first and is_changed_later(self.facts, init, field)
        is_set = self.facts.calls.reaches(init, setting.__contains__) or field in scope.variables
        if not stores or (is_set and not is_replaced) or any(not one.is_method for one in setting):
            return True
        run = self.facts.calls.reachable(function) if not is_outside else ()
        loads = (part for part, _ in self.facts.tree.every(cst.Attribute) if part.attr.value == field)
        return any(self.facts.tree.function_of(part) in run for part in loads)

    def _same_class(self, attribute: cst.Attribute, function: Function) -> bool:
        assert function.owner is not None
        objects = self.facts.objects.objects(attribute.value)
        root = self.facts.objects.root_class(function.owner)
        return any(found.kind == "instance" and found.origin is root for found in objects)

    def _bound_before(self, variable: Variable, function: Function, at: Statement | None) -> bool:
        """True where a local variable certainly has a value by `at`."""
        if variable.scope.parent is None and not function.is_module:
            return self._is_certain(variable, function)
        if at is None or variable.scope is not self.facts.names.scope_of(function):
            return True
        return is_certain(variable, at)

    def _is_certain(self, variable: Variable, function: Function) -> bool:
        """False for a global that only `if __name__ == "__main__":` or the like binds, unless read there anyway."""
        if any(binding.statement is None or binding.statement.block.owner is None for binding in variable.bindings):
            return True
        return any(function.encloses(self.facts.tree.function_of(load)) for load in variable.loads)

    def _self_attributes(self) -> list[tuple[str, cst.Attribute]]:
        """Every `self.x` that is assigned somewhere."""
        found = []
        for statement in self.facts.tree.all_statements():
            if isinstance(statement.node, cst.Assign):
                for target in statement.node.targets:
                    if isinstance(target.target, cst.Attribute) and isinstance(target.target.value, cst.Name):
                        found.append((target.target.attr.value, target.target))
        return found

    def _render(self, node: cst.BaseExpression, replacements: dict[cst.CSTNode, str]) -> str:
        text = self.facts.text(node)
        changed = {part: new for part, new in replacements.items() if self.facts.text(part) != new}
        if not changed:
            return text
        if node in changed:
            return changed[node]
        renamed = node.visit(_Renamer(changed))
        assert isinstance(renamed, cst.BaseExpression)
        return self.facts.text(renamed)


def _only_value(variable: Variable) -> cst.BaseExpression | None:
    """What a global is set to, where that happens once, and its module alone does it."""
    binding = variable.bindings[0] if len(variable.bindings) == 1 and variable.scope.parent is None else None
    return binding.value if binding is not None and binding.kind == "assign" and not binding.selector else None


class _Renamer(cst.CSTTransformer):
    def __init__(self, changed: dict[cst.CSTNode, str]) -> None:
        super().__init__()
        self._changed = changed

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        if original_node in self._changed:
            return atom(cst.parse_expression(self._changed[original_node]))  # type: ignore[return-value]
        return updated_node


def _names_a_variable(node: cst.CSTNode) -> bool:
    """True for names and for attributes and elements of them; not for a method of a literal."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return isinstance(node, cst.Name)
