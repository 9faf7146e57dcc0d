"""Which forwards a call of a module runs, and what calls the forward of a module.

self.models["depth"](features)     DepthDecoder.forward     data_parallel(net, x)     parallel_apply(replicas, inputs)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.module_lists import taken_out
from amp_migrate.facts.tree import Class, Function, called_name

_DEEPEST = 6  # assignments of replicas


class RunForwards:
    """Answers for the modules that the unit defines."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def of_call(self, call: cst.Call) -> list[Function]:
        """The forwards that a call of a module may run; none where it may be something else."""
        if called_name(call) == "data_parallel" and call.args:
            return self.of_module(call.args[0].value)
        if called_name(call) == "forward" and isinstance(call.func, cst.Attribute):
            return self.of_module(call.func.value)
        return self.of_module(call.func)

    def of_module(self, module: cst.BaseExpression) -> list[Function]:
        if not isinstance(module, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
            return []
        origins = [one.origin for one in taken_out(self.facts.names, self.facts.objects, module)]
        found: list[Function] = []
        for origin in origins:
            forwards = self._of_class(origin) if isinstance(origin, Class) else []
            if not forwards:
                return []
            found += [one for one in forwards if one not in found]
        return found

    def _of_class(self, root: Class) -> list[Function]:
        """The forwards of the classes that an instance known by its root class may be of."""
        objects = self.facts.objects
        family = [one for one in objects.makers if objects.root_class(one) is root] or [root]
        found = []
        for owner in family:
            lines = [owner, *(one for one in objects.ancestors(owner) if one is not owner)]
            found += [next((one.methods["forward"] for one in lines if "forward" in one.methods), None)]
        return [one for one in dict.fromkeys(found) if one is not None] if None not in found else []

    def calls_of(self, function: Function) -> list[cst.Call | None]:
        """The calls of a function; of a forward, those of its module."""
        found: list[cst.Call | None] = [call for call, _ in self.facts.objects.possible_callers(function)]
        if function.name == "forward" and function.owner is not None:
            root = self.facts.objects.root_class(function.owner)
            for call, _ in self.facts.tree.every(cst.Call):
                if isinstance(call.func, (cst.Name, cst.Attribute, cst.Subscript)) and call not in found:
                    if any(one.origin is root for one in self.facts.objects.objects(call.func)):
                        found.append(call)
        return found


def argument(facts: Facts, call: cst.Call, function: Function, param: cst.Param) -> cst.BaseExpression | None:
    """What a call gives for a parameter, its default if it gives nothing; None where that cannot be said."""
    if any(arg.star for arg in call.args):
        return None
    given = facts.objects.argument(call, function, param)
    return given.value if given is not None else param.default


def replicated(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression:
    """X of `replicas = replicate(X, devices)`, also where `replicas[:n]` is left of them."""
    for _ in range(_DEEPEST):
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and called_name(node) == "replicate" and node.args:
            return node.args[0].value
        elif isinstance(node, cst.Name):
            values = facts.objects.values_of(node)
            node = next((one for one in values if isinstance(one, cst.Call)), node)
    return node
