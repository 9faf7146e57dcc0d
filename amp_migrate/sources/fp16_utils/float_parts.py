"""Layers that a forward puts into float32 by hand: `self.offset = self.offset.float()`.

Under autocast they compute in half, whatever their weights are, and what they feed may take nothing but float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.rules.half import DEPENDS_ON_HALF


def float_parts(facts: Facts, statements: Iterable[Statement]) -> Iterator[Refusal]:
    """A refusal for each such layer."""
    for statement in statements:
        if statement.function.name != "forward":
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, cst.Call) and called_name(part) == "float" and isinstance(part.func, cst.Attribute):
                if not part.args and _is_layer(facts, part.func.value):
                    text = facts.text(part.func.value)
                    message = f"{text} is put into float32 where the model runs, and computes in half under autocast"
                    yield Refusal(DEPENDS_ON_HALF, part, message)


def _is_layer(facts: Facts, node: cst.BaseExpression) -> bool:
    makers = [facts.names.dotted(call.func) or "" for call in facts.objects.calls_behind(node)]
    layers = [name.rpartition(".")[2] for name in makers if name.startswith("torch.nn.")]
    return any(name[:1].isupper() and "Norm" not in name for name in layers)  # float32 was for norms anyway
