"""What autograd's graph of a loss tells: the constants that it was multiplied with, and the weights that it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_HALF = (torch.float16, torch.bfloat16)


def constant_factor(loss: torch.Tensor, scaled: list[Any]) -> torch.Tensor | None:
    """The product of the numbers that a loss was multiplied with last; None where there is none.

    `loss * 512` is how scripts scale a loss by hand. Passed over are casts, divisions (by a number of micro-batches),
    and the nodes in `scaled`, which a loss scaler has multiplied; the search ends at the first other operation.
    """
    product: torch.Tensor | None = None
    node: Any = loss.grad_fn
    while node is not None:
        kind = node.name()
        inputs = [following for following, _ in node.next_functions if following is not None]
        if kind not in ("MulBackward0", "DivBackward0", "ToCopyBackward0") or len(inputs) != 1:
            break
        if kind == "MulBackward0" and not any(node is one for one in scaled):
            number = next((one for one in (node._saved_other, node._saved_self) if one is not None), None)
            if number is None or number.numel() != 1:
                break
            number = number.detach().float().reshape(())
            product = number if product is None else product * number
        node = inputs[0]
    return product


def reaches_half_weights(loss: torch.Tensor) -> bool:
    """True where a backward of this loss brings gradients to parameters in half precision."""
    return any(node.variable.dtype in _HALF for node in _nodes(loss) if hasattr(node, "variable"))


def _nodes(loss: torch.Tensor) -> Iterator[Any]:
    seen: set[Any] = set()
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions)
