"""Queues: what is put into one comes out of it at another place, often in another thread.

waiting.put(model)                        model = waiting.get()
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name

_QUEUES = frozenset("Queue SimpleQueue LifoQueue PriorityQueue JoinableQueue deque".split())
_TAKING = frozenset("get get_nowait pop popleft".split())

# Methods whose first argument becomes an element of what they are called on, and how many they take at most.
_PUTTING = {"append": 1, "appendleft": 1, "put": 3, "put_nowait": 1}


def put_into(call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The container and the element of `batches.append(batch)` and `waiting.put(batch, timeout=5)`."""
    if not isinstance(call.func, cst.Attribute) or not 0 < len(call.args) <= _PUTTING.get(call.func.attr.value, 0):
        return None
    first = call.args[0]
    return (call.func.value, first.value) if first.keyword is None and not first.star else None


def taken_from(call: cst.Call) -> cst.BaseExpression | None:
    """What `waiting.get()` hands out an element of, if that is a queue; None for other methods."""
    func = call.func
    return func.value if isinstance(func, cst.Attribute) and func.attr.value in _TAKING else None


def are_queues(origins: set[object]) -> bool:
    """True where an expression means queues and nothing else."""
    return bool(origins) and all(isinstance(one, cst.Call) and called_name(one) in _QUEUES for one in origins)
