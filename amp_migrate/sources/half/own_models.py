"""The type that a model casts its activations to, chosen when it was made:

    self.dtype = torch.float16 if use_fp16 else torch.float32       torch.float32
    ...
    def convert_to_fp16(self):                                      (inference calls it, and training did)
        self.blocks.half()
                                                                    self.dtype = torch.float16

The model that is trained has float32 weights now, whatever the option says, and autocast casts by operation. So the
type follows the weights: the method that casts them sets it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.half import DEPENDS_ON_HALF
from amp_migrate.vocabulary import HALF_TYPES

_FLOATS = frozenset("torch.float torch.float32 torch.FloatTensor torch.cuda.FloatTensor".split())
_BACK = re.compile(r"fp32|float32|f32|to_float", re.IGNORECASE)


def follow_weights(facts: Facts, converting: Collection[str], lowering: Lowering) -> list[cst.CSTNode]:
    """Have the types follow the weights; `converting` are the methods that cast a model for its training. Returns what
    changes. Raises Refusal where nothing is known to cast the weights of such a model.
    """
    sites: list[cst.CSTNode] = []
    for owner in facts.tree.classes:
        for statement, attribute, choice in _choices(facts, owner):
            half, plain = (choice.body, choice.orelse) if _is_half(facts, choice.body) else (choice.orelse, choice.body)
            casts = [one for one in _methods(facts, owner) if one.name in converting]
            if not casts:
                message = f"{facts.text(statement.node)} is chosen for weights in half, and no method casts them"
                raise Refusal(DEPENDS_ON_HALF, statement.node, message)
            lowering.replaced[choice] = facts.text(plain)
            sites.append(choice)
            back = [one for one in _methods(facts, owner) if _BACK.search(one.name)]
            for method, value in [*((one, half) for one in casts), *((one, plain) for one in back)]:
                added = (_end(method), f"{method.parameters[0].name.value}.{attribute} = {facts.text(value)}")
                if facts.tree.root_of(method.node) is not statement.function.root:
                    raise Refusal(DEPENDS_ON_HALF, statement.node, f"{method.name} is in another file than this type")
                if added not in lowering.added:
                    lowering.added.append(added)
    return sites


def _choices(facts: Facts, owner: Class) -> Iterator[tuple[Statement, str, cst.IfExp]]:
    """`self.dtype = torch.float16 if use_fp16 else torch.float32`, in the methods of a model."""
    for method in owner.methods.values() if "forward" in owner.methods else ():
        for statement in method.descendants():
            node = statement.node
            if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.IfExp) or len(node.targets) != 1:
                continue
            target, choice = node.targets[0].target, node.value
            halves = [_is_half(facts, side) for side in (choice.body, choice.orelse)]
            floats = [facts.names.dotted(side) in _FLOATS for side in (choice.body, choice.orelse)]
            if any(halves) and any(floats) and isinstance(target, cst.Attribute):
                yield statement, target.attr.value, choice


def _is_half(facts: Facts, node: cst.BaseExpression) -> bool:
    return facts.names.dotted(node) in HALF_TYPES


def _methods(facts: Facts, owner: Class) -> Iterator[Function]:
    """The methods of a class, of those that it inherits from, and of those that inherit from it."""
    yield from owner.methods.values()
    for other in facts.tree.classes:
        if other is not owner and other in facts.objects.ancestors(owner):
            yield from (method for name, method in other.methods.items() if name not in owner.methods)
        elif other is not owner and owner in facts.objects.ancestors(other):
            yield from (method for method in other.methods.values() if not _calls_super(method))


def _calls_super(method: Function) -> bool:
    return any(isinstance(part, cst.Name) and part.value == "super" for part in walk(method.node))


def _end(method: Function) -> Statement:
    """Its last statement. Raises Refusal where nothing can follow it."""
    last = method.body.statements[-1]
    if any(isinstance(inner.node, cst.Return) for inner in method.descendants()):
        raise Refusal(DEPENDS_ON_HALF, last.node, f"{method.name} returns, so that the type cannot be set at its end")
    return last
