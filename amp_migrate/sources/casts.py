"""Functions whose arguments apex casts because the script says so, and what says the same natively.

    @amp.float_function                     @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def distance(x, y):             =>      def distance(x, y):
        ...                                     ...

    nms = amp.float_function(_C.nms)   =>   nms = torch.amp.custom_fwd(_C.nms, device_type="cuda", cast_inputs=...)

`custom_fwd(cast_inputs=...)` does what apex does: it casts the floating tensors among the arguments, and only where
autocast is on ([T2.13:torch/amp/autocast_mode.py]). The function then runs outside of autocast; apex still cast the
operations inside of it, so a float_function with a product in it is more exact natively. It leaves a note on its first
argument, which therefore has to be `self`, a context or a tensor.

A half_function around torch's own operations goes: autocast casts each of them by itself, and running all in half would
overflow where apex did not. promote_function has no native form.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.autograd import applied_function, is_autograd_function
from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import CastFunction, Recognition
from amp_migrate.rules.apex import CAST_FUNCTION, FLOAT_FUNCTION, HALF_FUNCTION
from amp_migrate.rules.safety import AUTOGRAD_FUNCTION


class CastReader:
    """Reads decorators, wrapped functions and registrations into a recognition. Raises Refusal."""

    def __init__(self, facts: Facts, found: Recognition) -> None:
        self.facts = facts
        self.found = found

    def value(self, node: cst.BaseExpression, name: str, statement: Statement) -> None:
        """`amp.float_function` as a decorator or as a call around a function."""
        text = self.facts.text(node)
        parent = self.facts.tree.parents.get(node)
        if name == "promote_function":
            raise Refusal(CAST_FUNCTION, node, f"{text} casts by what it meets, which torch has no decorator for")
        if isinstance(parent, cst.Decorator) and isinstance(statement.node, cst.FunctionDef):
            self._decorator(node, name, self.facts.tree.function_at[statement.node])
        elif isinstance(parent, cst.Call) and parent.func is node and len(parent.args) == 1:
            self._wrapped(parent, name)
        else:
            raise Refusal(CAST_FUNCTION, node, f"{text} is used as a value, and what it is put around is not known")

    def registration(self, call: cst.Call, function: Function, name: str, statement: Statement) -> None:
        """`amp.register_float_function(module, "name")` of a function of the project."""
        if name != "register_float_function" or _decorators(function):
            raise Refusal(CAST_FUNCTION, call, f"{self.facts.text(call)} changes how a function is cast")
        self._require_first_argument(call, function)
        self.found.casts.append(CastFunction(call, "float32", adds=function))
        self.found.removed.append(statement)

    # -- decorators -----------------------------------------------------------------------------------

    def _decorator(self, node: cst.BaseExpression, name: str, function: Function) -> None:
        owner = function.owner
        if owner is not None and is_autograd_function(self.facts, owner):
            self._autograd(node, name, function, owner)
        elif name == "half_function":
            self._require_torch_only(node, function)
            self.found.casts.append(CastFunction(node, "", goes_from=function))
            message = f"{function.name}: autocast casts its operations one by one"
            self.found.findings.append(self.facts.finding(node, HALF_FUNCTION, message))
        else:
            self._require_first_argument(node, function)
            self.found.casts.append(CastFunction(node, "float32"))
            self._say(node, function.name)

    def _autograd(self, node: cst.BaseExpression, name: str, function: Function, owner: Class) -> None:
        """Both directions of an autograd function: what the backward gets has the dtype of what the forward gave."""
        forward, backward = _directions(owner, node)
        if function is forward:
            self.found.casts.append(CastFunction(node, _dtype(name)))
            if not self._casting_decorators(backward):
                self.found.casts.append(CastFunction(node, "backward", adds=backward))
        elif function is backward and self._casting_decorators(forward):
            self.found.casts.append(CastFunction(node, "backward"))
        else:
            message = f"{owner.name}.{function.name} alone is cast: custom_fwd has no part for that"
            raise Refusal(CAST_FUNCTION, node, message)

    def _casting_decorators(self, function: Function) -> bool:
        paths = (path for one in _decorators(function) for path in self.facts.objects.import_paths(one))
        return any(path in ("apex.amp.float_function", "apex.amp.half_function") for path in paths)

    # -- wrapped functions ----------------------------------------------------------------------------

    def _wrapped(self, call: cst.Call, name: str) -> None:
        """`amp.float_function(f)`: of `Scale.apply` the autograd function is decorated, as is usual."""
        given = call.args[0].value
        owner = applied_function(self.facts, given)
        if owner is not None:
            forward, backward = _directions(owner, call)
            self.found.replaced[call] = self.facts.text(given)
            self.found.casts.append(CastFunction(call, _dtype(name), adds=forward))
            self.found.casts.append(CastFunction(call, "backward", adds=backward))
            return
        text = self.facts.text(given)
        function = self.facts.objects.function_named(given) if isinstance(given, (cst.Name, cst.Attribute)) else None
        if function is not None and name == "half_function":
            self._require_torch_only(call, function)
            self.found.replaced[call] = text
            return
        if function is None and not self._is_compiled(given):
            message = f"{text}, which is cast here, is in no file that is known"
            raise Refusal(CAST_FUNCTION, call, message, case="elsewhere")
        if function is not None:
            self._require_first_argument(call, function, self._calls_of_name(call))
        self.found.casts.append(CastFunction(call, _dtype(name), around=given))
        self._say(call, text)

    def _is_compiled(self, node: cst.BaseExpression) -> bool:
        """True for a function of an extension: imported, and in no Python file (`_C.nms`)."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        paths = self.facts.names.imported_as(node)
        return any(not path.startswith("torch.") and self.facts.elsewhere.source_of(path) is None for path in paths)

    # -- what is asked of a function ------------------------------------------------------------------

    def _require_first_argument(
        self, node: cst.CSTNode, function: Function, calls: list[cst.Call] | None = None
    ) -> None:
        """custom_fwd sets attributes on the first argument: every call has to give one that takes them."""
        if function.is_method:
            return
        if calls is None and not self.facts.calls.value_uses(function):
            calls = [site.call for site in self.facts.calls.callers(function)]
        if not calls:
            message = f"not all calls of {function.name} are known, which is cast here"
            raise Refusal(CAST_FUNCTION, node, message, case="elsewhere")
        for call in calls:
            first = call.args[0] if call.args else None
            if first is None or first.star or first.keyword is not None or _takes_no_attributes(first.value):
                message = f"{function.name} is called without a tensor in the first place, which custom_fwd needs"
                raise Refusal(CAST_FUNCTION, node, message)

    def _calls_of_name(self, wrapping: cst.Call) -> list[cst.Call]:
        """The calls of `f` in `f = amp.float_function(g)`; nothing where it is used in another way."""
        assign = self.facts.tree.parents.get(wrapping)
        target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
        variable = self.facts.names.variable_at(target)
        if variable is None or variable.importers or len(variable.bindings) != 1:
            return []
        calls = [self.facts.tree.parents.get(load) for load in variable.loads]
        called = [one for one in calls if isinstance(one, cst.Call) and one.func in variable.loads]
        return called if len(called) == len(variable.loads) else []

    def _require_torch_only(self, node: cst.CSTNode, function: Function) -> None:
        """Where everything is an operation of torch, autocast knows what to do with it."""
        for call in _calls_in(self.facts, function):
            for path in self.facts.names.imported_as(call.func):
                if not path.startswith(("torch.", "math.", "builtins.")):
                    message = f"{function.name} runs in half by its decorator, and autocast does not cast for {path}"
                    raise Refusal(CAST_FUNCTION, node, message)

    def _say(self, node: cst.CSTNode, name: str) -> None:
        message = f"{name} runs in float32 as a whole, the products in it as well"
        self.found.findings.append(self.facts.finding(node, FLOAT_FUNCTION, message))


def _directions(owner: Class, node: cst.CSTNode) -> tuple[Function, Function]:
    """The forward and the backward of an autograd function. Raises Refusal where they are not static."""
    forward, backward = owner.methods.get("forward"), owner.methods.get("backward")
    if forward is None or backward is None or not (forward.is_static and backward.is_static):
        message = f"{owner.name} has no static forward and backward of its own that custom_fwd could be put on"
        raise Refusal(AUTOGRAD_FUNCTION, node, message)
    return forward, backward


def _dtype(name: str) -> str:
    return "float32" if name == "float_function" else "half"


def _decorators(function: Function) -> list[cst.BaseExpression]:
    return [one.decorator for one in function.decorators]


def _takes_no_attributes(node: cst.BaseExpression) -> bool:
    displays = (cst.Tuple, cst.List, cst.Dict, cst.Set, cst.ListComp, cst.GeneratorExp, cst.SimpleString)
    return isinstance(node, (*displays, cst.BaseNumber)) or literal_value(node) is None


def _calls_in(facts: Facts, function: Function) -> Iterator[cst.Call]:
    for statement in function.body.statements:
        for inner in statement.descendants():
            yield from facts.tree.calls(inner)
