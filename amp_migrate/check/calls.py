"""Calls that do not fit the signature of the function that they call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.tree import Function

_Place = tuple[str, str, str, str]


def check_calls(after: Facts, before: Facts) -> Iterator[Violation]:
    """Calls of functions of the unit that raise TypeError now, and did not before."""
    known = {place for place, _, _ in _misfits(before)}
    for place, site, problem in _misfits(after):
        if place not in known:
            message = f"{site.callee.name}: {problem}"
            yield violation(after, "call does not fit", site.call, message)


def _misfits(facts: Facts) -> Iterator[tuple[_Place, CallSite, str]]:
    """The calls that cannot be bound, each with its caller and its callee by file and name, and Python's reason."""
    for callee in facts.tree.functions:
        for site in facts.calls.callers(callee):
            problem = _problem(facts, site)
            if problem is not None:
                place = (*facts.name_of(site.caller), *facts.name_of(callee))
                yield place, site, problem


def _problem(facts: Facts, site: CallSite) -> str | None:
    """What Python says to the call; None where it fits, or where starred arguments leave that open."""
    bound = facts.objects.partial_behind(site.call.func) if isinstance(site.call.func, cst.Name) else None
    args = [*(bound.args[1:] if bound is not None else ()), *site.call.args]
    if any(arg.star for arg in args):
        return None
    given = [arg for arg in args if arg.keyword is None]
    named = {arg.keyword.value: arg for arg in args if arg.keyword is not None}
    try:
        _signature(site.callee, _drops_first(facts, site)).bind(*given, **named)
    except TypeError as error:
        return str(error)
    except ValueError:
        return None  # two parameters of one name, which is for Python to say
    return None


def _drops_first(facts: Facts, site: CallSite) -> bool:
    """True where Python gives the first parameter: `self` or `cls`."""
    is_bound = isinstance(site.call.func, cst.Attribute) or facts.objects.called_class(site.call) is not None
    return site.callee.is_method and is_bound


def _signature(function: Function, drops_first: bool) -> inspect.Signature:
    params = function.signature
    positional = [
        *_of_kind(params.posonly_params, inspect.Parameter.POSITIONAL_ONLY),
        *_of_kind(params.params, inspect.Parameter.POSITIONAL_OR_KEYWORD),
    ][drops_first:]
    stars = [star for star in (params.star_arg,) if isinstance(star, cst.Param)]
    return inspect.Signature(
        [
            *positional,
            *_of_kind(stars, inspect.Parameter.VAR_POSITIONAL),
            *_of_kind(params.kwonly_params, inspect.Parameter.KEYWORD_ONLY),
            *_of_kind([params.star_kwarg] if params.star_kwarg is not None else [], inspect.Parameter.VAR_KEYWORD),
        ]
    )


def _of_kind(params: Sequence[cst.Param], kind: inspect._ParameterKind) -> Iterator[inspect.Parameter]:
    for param in params:
        default = inspect.Parameter.empty if param.default is None else param.default
        yield inspect.Parameter(param.name.value, kind, default=default)
