"""What each target of an assignment is given: an expression, and the way to the part of it that is meant.

a, (b, c) = f()         b is given f(), (1, 0)
a, b = x, (y, z)        b is given (y, z), ()
for a, b in pairs:      b is given pairs, (1,): the part of each element
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

Selector = tuple[int, ...]
_DISPLAYS = (cst.Tuple, cst.List)


def targets_given(
    target: cst.BaseExpression, value: cst.BaseExpression | None, selector: Selector = (), *, of_each: bool = False
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None, Selector]]:
    """Each target with its value and selector; None for what follows a star, which has no certain place."""
    if not isinstance(target, _DISPLAYS):
        yield target, value, selector
        return
    shown = value.elements if isinstance(value, _DISPLAYS) and not selector and not of_each else ()
    are_pairs = len(shown) == len(target.elements) and not any(map(_is_starred, (*shown, *target.elements)))
    for index, element in enumerate(target.elements):
        value = None if _is_starred(element) else value
        if are_pairs:
            yield from targets_given(element.value, shown[index].value)
        else:
            yield from targets_given(element.value, value, (*selector, index), of_each=of_each)


def shown_at(value: cst.BaseExpression | None, selector: Selector) -> cst.BaseExpression | None:
    """The part of a tuple or a list that is written out: None where none stands there for certain, as after a star."""
    for index in selector:
        elements = value.elements if isinstance(value, _DISPLAYS) else ()
        is_certain = index < len(elements) and not any(map(_is_starred, elements[: index + 1]))
        value = elements[index].value if is_certain else None
    return value


def _is_starred(element: cst.BaseElement) -> bool:
    return isinstance(element, cst.StarredElement)
